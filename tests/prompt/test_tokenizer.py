"""The tokenizer: text stays text, ids become the bytes they stand for."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.prompt import TEMPLATES, template_of
from fastcoder_lsp.tokenizer import Tokenizer
from tests.prompt.toy_tokenizers import byte_level, marks, of_family, sentencepiece

QWEN = "Qwen2.5-Coder"
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
    for tokenizer in (of_family(QWEN), byte_level(False), sentencepiece()):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert b"".join(map(tokenizer.piece, ids)) == text.encode()


@given(CODE)
def test_words_are_never_merged(text: str) -> None:
    """The tokens before the last word's start are those of the text before it: what stable prompts rest on.

    Excepted are runs of blanks, of which a split takes the last one apart before a word.
    """
    for tokenizer in (of_family(QWEN), byte_level(False)):
        start = tokenizer.last_word(text)
        if text[:start].endswith(("\n", "\t", " ", "\x0c", "\u2028")):
            continue
        ids = tokenizer.encode(text)
        assert ids[: len(tokenizer.encode(text[:start]))] == tokenizer.encode(text[:start])


def test_lone_surrogates_are_replaced() -> None:
    tokenizer = of_family(QWEN)
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a?b"


def test_control_tokens_have_no_text() -> None:
    tokenizer = of_family(QWEN)
    middle = tokenizer.control["<|fim_middle|>"]
    assert tokenizer.piece(middle) == tokenizer.piece(10**6) == tokenizer.piece(-1) == b""
    assert tokenizer.decode([middle, *tokenizer.encode("a"), middle]) == "a"
    assert middle in tokenizer.end_ids


def test_what_a_model_wants_first() -> None:
    assert sentencepiece().start_ids == (1,)
    assert of_family(QWEN).start_ids == ()


@given(st.binary(min_size=0, max_size=3))
def test_tables_of_bytes(prefix: bytes) -> None:
    tokenizer = of_family(QWEN)
    pieces = [tokenizer.piece(token) for token in range(tokenizer.vocabulary)]
    assert tokenizer.starting_with(prefix).tolist() == [
        token for token, piece in enumerate(pieces) if piece and piece.startswith(prefix)
    ]
    assert tokenizer.exactly(prefix) == [token for token, piece in enumerate(pieces) if piece and piece == prefix]


def test_identity_names_the_description() -> None:
    assert of_family(QWEN).identity != byte_level(False).identity


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
    assert template_of(tokenizer).name == QWEN
    text = Path(__file__).read_text(encoding="utf-8") + "<|fim_prefix|><|im_end|><tool_call>[PAD151935]"
    ids = tokenizer.encode(text)
    assert b"".join(map(tokenizer.piece, ids)) == text.encode()
    assert not tokenizer.end_ids.intersection(ids)
    assert tokenizer.can_spell(bytes(range(256)))
    assert tokenizer.last_word("x = self.foo_ba") == len("x = self.foo")
