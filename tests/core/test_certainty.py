"""How sure the model was, byte by byte; files that take another's place; numbers in messages."""

from pathlib import Path

import pytest

from fastcoder_lsp.core.certainty import Certainty, Row
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.core.files import PAUSES_S, put_in_place


def _row(said: bytes, **likely: float) -> Row:
    return Row(said, tuple((piece.encode(), share) for piece, share in likely.items()))


def test_a_byte_inside_a_token() -> None:
    rows = [_row(b"a", a=1.0), Row(b'")', ((b'")', 0.3), (b'",', 0.1), (b"x", 0.6)))]
    certainty = Certainty(rows, b"")
    assert certainty.at(0) == 1.0
    assert certainty.at(1) == pytest.approx(0.4)
    assert certainty.at(2) == pytest.approx(0.75)
    assert certainty.at(3) is None


def test_a_token_that_was_not_likely() -> None:
    certainty = Certainty([_row(b"word", other=1.0), _row(b"s", s=0.9, t=0.1)], b"wor")
    assert certainty.at(0) is None
    assert certainty.at(1) == pytest.approx(0.9)
    assert certainty.of_first(1) == 0.0


@pytest.mark.parametrize(
    ("rows", "healing", "longer"),
    [
        ([_row(b"orderset", orders=0.4, orderset=0.1, other=0.5)], b"orders", 0.2),
        ([_row(b"order", order=0.6, orders=0.4), _row(b"set", s=0.5, set=0.5)], b"orders", 0.3 / (0.3 + 0.4 + 0.3)),
        ([_row(b"orders", orders=1.0), _row(b"et", et=0.25, **{"(": 0.75})], b"orders", 0.25),
        ([_row(b"et", et=0.25, **{"(": 0.75})], b"", 0.25),
        ([_row(b"xl", other=1.0)], b"x", None),
        ([], b"x", None),
    ],
)
def test_whether_a_word_goes_on(rows: list[Row], healing: bytes, longer: float | None) -> None:
    found = Certainty(rows, healing).of_longer_word()
    assert found == (longer if longer is None else pytest.approx(longer))


def test_whether_a_word_within_the_text_goes_on() -> None:
    rows = [_row(b"of", of=1.0), _row(b" orderset", **{" orders": 0.4, " orderset": 0.2}), _row(b"(", **{"(": 1.0})]
    certainty = Certainty(rows, b"")
    assert certainty.of_longer_word(len("of orders"), len("orders")) == pytest.approx(0.2 / 0.6)
    assert certainty.of_longer_word(len("of order"), len("order")) == pytest.approx(1.0)
    assert certainty.of_longer_word(len("of"), len("of")) == pytest.approx(0.0)


def test_the_rest_of_a_text() -> None:
    rows = [_row(b"a", a=0.1), Row(b"()", ((b"()", 0.3), (b"(b", 0.1), (b"[", 0.6))), Row(b":", ((b":", 0.5),))]
    assert Certainty(rows, b"").of_first(4, 2) == pytest.approx(0.75 * 0.5)
    assert Certainty(rows, b"").of_first(4, 1) == pytest.approx(0.3 * 0.5)


class Held:
    """Windows, where somebody has a file open for so many tries; what was waited in between."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tries: int) -> None:
        self.tries, self.waited = tries, list[float]()
        replace = Path.replace

        def refusing(made: Path, place: Path) -> Path:
            self.tries -= 1
            if self.tries >= 0:
                raise PermissionError(13, "The process cannot access the file because it is being used", str(place))
            return replace(made, place)

        monkeypatch.setattr(Path, "replace", refusing)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    made, place = tmp_path / "made", tmp_path / "place"
    made.write_text("new", encoding="utf-8")
    place.write_text("old", encoding="utf-8")
    return made, place


@pytest.mark.parametrize("tries", [0, 1, 3, len(PAUSES_S)])
def test_a_file_in_use_is_waited_for(files: tuple[Path, Path], tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, tries)
    put_in_place(*files, windows=True, rest=held.waited.append)
    assert files[1].read_text(encoding="utf-8") == "new"
    assert not files[0].exists()
    assert held.waited == list(PAUSES_S[:tries])
    assert held.waited == sorted(set(held.waited))


def test_what_is_held_for_ever_stays(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, 1000)
    with pytest.raises(PermissionError):
        put_in_place(*files, windows=True, rest=held.waited.append)
    assert [file.read_text(encoding="utf-8") for file in files] == ["new", "old"]
    assert sum(held.waited) < 3


def test_other_systems_do_not_wait(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, 1)
    with pytest.raises(PermissionError):
        put_in_place(*files, windows=False, rest=held.waited.append)
    assert not held.waited


def test_what_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    waited: list[float] = []
    with pytest.raises(FileNotFoundError):
        put_in_place(tmp_path / "none", tmp_path / "place", windows=True, rest=waited.append)
    assert not waited


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (1, ("step",), "1 step"),
        (0, ("step",), "0 steps"),
        (1200, ("step",), "1,200 steps"),
        (1, ("index", "indexes"), "1 index"),
        (2, ("index", "indexes"), "2 indexes"),
    ],
)
def test_one_is_singular(number: int, words: tuple[str, ...], text: str) -> None:
    assert counted(number, *words) == text
