"""What the benchmarks do in one place: decode requests are made, models are loaded."""

import ast
from pathlib import Path

import numpy as np
import pytest

import benchmarks
import fastcoder_lsp
from benchmarks.datasets import spread
from benchmarks.harness import decode_request, line_end
from fastcoder_lsp.core import GREEDY
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.none import NoDrafter
from tests.draft.toys import RepetitiveEngine

HOUSE = Path(benchmarks.__file__).parent
INSTALLED = Path(fastcoder_lsp.__file__).with_name("bench")
ONE_PLACE = {
    "DecodeRequest": "benchmarks/harness.py",
    "engines.load": "fastcoder_lsp/bench/model.py",
    "Tokenizer.load": "fastcoder_lsp/bench/model.py",
    "models.find": "fastcoder_lsp/bench/model.py",
    "load_runtime": "benchmarks/product.py",
}
"""What is called → the one file that calls it."""


@pytest.mark.parametrize("called", ONE_PLACE)
def test_it_is_done_in_one_place(called: str) -> None:
    """Whatever it comes to need, one file is changed."""
    calls = {
        file.relative_to(HOUSE.parent).as_posix()
        for folder in (HOUSE, INSTALLED)
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == called
    }
    assert calls == {ONE_PLACE[called]}


def test_a_request_without_a_tokenizer_ends_at_its_length() -> None:
    """Made-up weights say tokens that stand for no text: none of them ends it, and none needs to be spelt."""
    request = decode_request(None, [1, 2, 3], 7)
    assert (request.prompt, request.end_ids, request.healing) == ((1, 2, 3), frozenset(), b"")
    assert request.sampler == GREEDY
    result = decode(RepetitiveEngine(), NoDrafter(), request, lambda: False)
    assert (len(result.tokens), result.finish) == (7, "length")


def test_a_line_ends_where_the_next_one_begins() -> None:
    """An empty rest of a line is one, too."""
    assert [line_end(text) for text in ("", "x = 1", "x = 1\ny", "\n")] == [None, None, 5, 0]


def test_some_of_many_are_evenly_spread() -> None:
    """The first one is among them; without a limit, or with one that is not reached, all are."""
    assert spread(range(10), 4) == (0, 2, 5, 7)
    assert spread("abc", 5) == spread("abc", None) == ("a", "b", "c")
    assert np.ptp(np.diff(spread(range(1000), 7))) == 1
