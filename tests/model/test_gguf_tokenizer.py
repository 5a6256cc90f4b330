"""How a GGUF's tokenizer cuts texts, begins them, and which of its tokens are found in them."""

from pathlib import Path

import pytest
import tokenizers

from fastcoder_lsp.model.gguf_config import LISTS, tokenizer_json
from fastcoder_lsp.model.gguf_header import check_header
from fastcoder_lsp.tokenizer import Tokenizer
from tests.model.tiny import write_gguf

TEXT = "if x1 == 12345:\r\n\t\tdon't()\n"


def description(folder: Path, pre: str) -> str:
    path = folder / "tiny.gguf"
    write_gguf(path, pre=pre)
    found = tokenizer_json(check_header(path, LISTS))
    assert found is not None
    return found


DIGITS = ["if", " x", "1", " ==", " ", "1", "2", "3", "4", "5", ":", "\r\n\t", "\t", "don", "'t", "()", "\n"]
CUTS = {
    "gpt-2": ["if", " x", "1", " ==", " 12345", ":", "\r\n\t", "\t", "don", "'t", "()", "\n"],
    "default": ["if", " x", "1", " ==", " 12345", ":", "\r\n\t", "\t", "don", "'t", "()", "\n"],
    "starcoder": DIGITS,
    "refact": DIGITS,
    "smollm": DIGITS,
    "qwen2": ["if", " x", "1", " ==", " ", "1", "2", "3", "4", "5", ":\r\n", "\t", "\tdon", "'t", "()\n"],
    "llama-bpe": ["if", " x", "1", " ==", " ", "123", "45", ":\r\n", "\t", "\tdon", "'t", "()\n"],
    "mellum": ["if", " x", "1", " ==", " 12345", ":", "\r\n\t", "\t", "don", "'t", "()", "\n"],
    "dbrx": ["if", " x", "1", " ==", " ", "123", "45", ":\r\n", "\t", "\tdon", "'t", "()\n"],
    "seed-coder": [
        *("if", " x", "1", " ==", " ", "1", "2", "3", "4", "5", ":", "\r\n", "\t", "\tdon", "'t", "()", "\n"),
    ],
    "deepseek-coder": [
        *("if", " x", "1", " == ", "1", "2", "3", "4", "5", ":", "\r", "\n", "\t", "\tdon", "'", "t", "()", "\n"),
    ],
}


@pytest.mark.parametrize("pre", CUTS)
def test_a_text_is_cut_as_the_publisher_cuts_it(tmp_path: Path, pre: str) -> None:
    encoder = tokenizers.Tokenizer.from_str(description(tmp_path, pre))
    assert encoder.pre_tokenizer is not None
    places = [place for _, place in encoder.pre_tokenizer.pre_tokenize_str(TEXT)]
    assert [TEXT[start:stop] for start, stop in places] == CUTS[pre]


def test_a_way_that_is_not_known_is_left_to_transformers(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", pre="some-new-way")
    assert tokenizer_json(check_header(tmp_path / "tiny.gguf", LISTS)) is None


def test_composed_characters_are_qwens(tmp_path: Path) -> None:
    """It composes letter and accent, as its publisher's tokenizer does; others take the text as it is."""
    for pre, bytes_ in (("qwen2", "é"), ("gpt-2", "e\u0301")):
        tokenizer = Tokenizer(description(tmp_path, pre))
        assert tokenizer.decode(tokenizer.encode("e\u0301")) == bytes_


def test_control_tokens_and_where_a_text_begins(tmp_path: Path) -> None:
    for pre, start in (("llama-bpe", (257,)), ("qwen2", ())):
        tokenizer = Tokenizer(description(tmp_path, pre))
        assert tokenizer.control == {"<|end|>": 257}
        assert tokenizer.start_ids == start
        assert 257 not in tokenizer.encode("<|end|>")
        assert tokenizer.encode("ab") == [256]
