"""The tokenizer: ids and their bytes, token healing, and what a next start reads from the cache."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp import tokenizer as in_use
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.prompt import TEMPLATES, template_of
from fastcoder_lsp.prompt.anchor import MAX_HEALED_BYTES, allowed, heal_start
from fastcoder_lsp.tokenizer import Tokenizer
from tests.prompt.toy_tokenizers import byte_level, byte_level_json, marks, of_family, sentencepiece, sentencepiece_json

QWEN = of_family("Qwen2.5-Coder")
CODE = st.text(st.sampled_from(list("ab_(.) =:\n\t\r'\"\\9é漢\U0001f600\u2028\x0c\x00")), max_size=40)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_literal_control_tokens_stay_text(template: object) -> None:
    name = template.name  # type: ignore[attr-defined] # a Template
    tokenizer = of_family(name)
    for mark in [*marks(next(row for row in TEMPLATES if row.name == name)), "<|endoftext|>", "▁<EOT>"]:
        text = f"x = '{mark}'  # {mark}{mark}\n{mark}"
        ids = tokenizer.encode(text)
        assert not tokenizer.end_ids.intersection(ids)
        assert tokenizer.decode(ids) == (text.replace("▁", " ") if template.lead else text)  # type: ignore[attr-defined]


@given(CODE)
def test_round_trip(text: str) -> None:
    for tokenizer in (QWEN, byte_level(False), sentencepiece()):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert b"".join(map(tokenizer.piece, ids)) == text.encode()


@given(CODE)
def test_words_are_never_merged(text: str) -> None:
    """The tokens before the last word's start are those of the text before it: what stable prompts rest on.

    Excepted are runs of blanks, of which a split takes the last one apart before a word.
    """
    for tokenizer in (QWEN, byte_level(False)):
        start = tokenizer.last_word(text)
        if text[:start].endswith(("\n", "\t", " ", "\x0c", "\u2028")):
            continue
        ids = tokenizer.encode(text)
        assert ids[: len(tokenizer.encode(text[:start]))] == tokenizer.encode(text[:start])


def test_lone_surrogates_are_replaced() -> None:
    tokenizer = QWEN
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a?b"


def test_control_tokens_have_no_text() -> None:
    tokenizer = QWEN
    middle = tokenizer.control["<|fim_middle|>"]
    assert tokenizer.piece(middle) == tokenizer.piece(10**6) == tokenizer.piece(-1) == b""
    assert tokenizer.decode([middle, *tokenizer.encode("a"), middle]) == "a"
    assert middle in tokenizer.end_ids


def test_what_a_model_wants_first() -> None:
    assert sentencepiece().start_ids == (1,)
    assert QWEN.start_ids == ()


@given(st.binary(min_size=0, max_size=3))
def test_tables_of_bytes(prefix: bytes) -> None:
    tokenizer = QWEN
    pieces = [tokenizer.piece(token) for token in range(tokenizer.vocabulary)]
    assert tokenizer.starting_with(prefix).tolist() == [
        token for token, piece in enumerate(pieces) if piece and piece.startswith(prefix)
    ]
    assert tokenizer.exactly(prefix) == [token for token, piece in enumerate(pieces) if piece and piece == prefix]


def test_identity_names_the_description() -> None:
    assert QWEN.identity != byte_level(False).identity


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"model": {"type": "WordLevel"}}), "\0"])
def test_unusable_files(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelInvalidError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalidError, match="cannot be read"):
        Tokenizer.load(tmp_path)


@pytest.mark.model
def test_the_default_models_tokenizer(model_folder: Path) -> None:
    tokenizer = Tokenizer.load(model_folder)
    assert template_of(tokenizer).name == "Qwen2.5-Coder"
    text = Path(__file__).read_text(encoding="utf-8") + "<|fim_prefix|><|im_end|><tool_call>[PAD151935]"
    ids = tokenizer.encode(text)
    assert b"".join(map(tokenizer.piece, ids)) == text.encode()
    assert not tokenizer.end_ids.intersection(ids)
    assert tokenizer.can_spell(bytes(range(256)))
    assert tokenizer.last_word("x = self.foo_ba") == len("x = self.foo")


TYPED = st.text(st.sampled_from(list("aber_( )=:\n\t'é漢\U0001f600")), max_size=30)


@given(st.binary(min_size=1, max_size=6) | TYPED.map(str.encode).filter(bool))
def test_allowed_ids(remaining: bytes) -> None:
    pieces = {token: QWEN.piece(token) for token in range(QWEN.vocabulary)}
    naive = [
        token
        for token, piece in pieces.items()
        if piece and (piece.startswith(remaining) or remaining.startswith(piece))
    ]
    assert allowed(QWEN, remaining).tolist() == naive
    assert naive


@given(TYPED)
def test_where_a_prompt_backs_up_to(text: str) -> None:
    for tokenizer in (QWEN, byte_level(False), sentencepiece()):
        start = heal_start(tokenizer, text)
        rest = text[start:].encode()
        assert 0 <= start <= len(text)
        assert len(rest) <= MAX_HEALED_BYTES
        assert tokenizer.can_spell(rest)


@given(TYPED, st.text(st.sampled_from(list("ab_(\n =")), max_size=4))
def test_typing_on_keeps_what_was_said(text: str, more: str) -> None:
    now, later = heal_start(QWEN, text), heal_start(QWEN, text + more)
    if later >= now and not text[:now].endswith(("\n", " ", "\t")):
        kept = QWEN.encode(text[:now])
        assert QWEN.encode((text + more)[:later])[: len(kept)] == kept


def test_a_newline_that_takes_its_indentation_along() -> None:
    assert heal_start(byte_level(False), "if x:\n") == len("if x:")
    assert heal_start(QWEN, "if x:\n") == len("if x:\n")


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


def test_a_second_start_says_the_same(description: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
