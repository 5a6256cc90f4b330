"""What is worked out of a tokenizer is kept: the next start says the same, whatever became of the file."""

from pathlib import Path

import pytest

from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.tokenizer import tokenizer as in_use
from tests.prompt.toy_tokenizers import byte_level_json, sentencepiece_json

TEXT = "def f(x):\n\treturn x + 1  # ß 語 <|fim_prefix|>\n"


@pytest.fixture(params=["byte level", "byte fallback"])
def description(request: pytest.FixtureRequest) -> str:
    return byte_level_json(control=("<|fim_prefix|>",)) if request.param == "byte level" else sentencepiece_json()


def facts(tokenizer: Tokenizer) -> list[object]:
    ids = tokenizer.encode(TEXT)
    return [
        ids,
        [tokenizer.piece(token) for token in range(tokenizer.vocabulary + 1)],
        tokenizer.decode(ids),
        dict(tokenizer.control),
        tokenizer.end_ids,
        tokenizer.start_ids,
        tokenizer.identity,
        tokenizer.can_spell(b"def"),
        [tokenizer.starting_with(prefix).tolist() for prefix in (b"", b"d", b" ", b"\n", b"\xff")],
        [tokenizer.exactly(text) for text in (b"d", b"return", b"", b"no such piece")],
    ]


def test_the_second_start_says_what_the_first_did(
    description: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = facts(Tokenizer(description))
    assert facts(Tokenizer(description, tmp_path / "kept")) == plain
    monkeypatch.setattr(in_use, "prepare", lambda _: pytest.fail("worked out again"))
    assert facts(Tokenizer(description, tmp_path / "kept")) == plain


@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.9])
def test_a_damaged_file_is_made_anew(description: str, tmp_path: Path, part: float) -> None:
    plain = facts(Tokenizer(description, tmp_path))
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * part)])
    assert facts(Tokenizer(description, tmp_path)) == plain
    assert file.read_bytes()[:2] == whole[:2]
    place = int(len(whole) * part)
    file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
    assert facts(Tokenizer(description, tmp_path)) == plain


def test_where_nothing_can_be_written_it_works_all_the_same(description: str, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    assert facts(Tokenizer(description, in_the_way / "kept")) == facts(Tokenizer(description))


def test_the_latest_few_are_kept(description: str, tmp_path: Path) -> None:
    for number in range(7):
        Tokenizer(description + " " * number, tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
