"""A finished file takes another's place, whoever has that one open."""

from pathlib import Path

import pytest

from fastcoder_lsp.core.replacing import PAUSES_S, put_in_place


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
def test_who_holds_it_is_waited_for(files: tuple[Path, Path], tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With growing pauses, and no longer than it is held."""
    held = Held(monkeypatch, tries)
    put_in_place(*files, windows=True, rest=held.waited.append)
    assert files[1].read_text(encoding="utf-8") == "new"
    assert not files[0].exists()
    assert held.waited == list(PAUSES_S[:tries])
    assert held.waited == sorted(set(held.waited))


def test_what_is_held_for_ever_stays(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who cannot replace it says so, after some seconds, and both are there."""
    held = Held(monkeypatch, 1000)
    with pytest.raises(PermissionError):
        put_in_place(*files, windows=True, rest=held.waited.append)
    assert [file.read_text(encoding="utf-8") for file in files] == ["new", "old"]
    assert sum(held.waited) < 3


def test_elsewhere_nobody_waits(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A right that is missing there is missing for good."""
    held = Held(monkeypatch, 1)
    with pytest.raises(PermissionError):
        put_in_place(*files, windows=False, rest=held.waited.append)
    assert not held.waited


def test_what_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    """Only what somebody may hold is tried again."""
    waited: list[float] = []
    with pytest.raises(FileNotFoundError):
        put_in_place(tmp_path / "none", tmp_path / "place", windows=True, rest=waited.append)
    assert not waited
