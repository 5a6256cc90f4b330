"""The joint probability of what an answer changed."""

from math import exp, inf, isclose, log

import pytest

from fastcoder_lsp.core.certainty import Certainty, Row
from fastcoder_lsp.edits.gate import rewrite_probability

COPIED, CHANGED = 0.9, 0.5


@pytest.mark.parametrize(
    ("old", "answer", "counted"),
    [
        pytest.param("abcd", "abcd", "", id="nothing changed"),
        pytest.param("abcd", "abXYcd", "XY", id="inserted"),
        pytest.param("abcd", "aXd", "X", id="replaced by fewer"),
        pytest.param("abcdef", "aXcdYf", "XY", id="two places"),
        pytest.param("abcd", "ad", "d", id="left out: what was said instead"),
        pytest.param("abcd", "ab", "", id="the end left out, without an end mark"),
        pytest.param("abcd$", "ab$", "$", id="the end left out"),
        pytest.param("", "XY", "XY", id="no old text"),
        pytest.param("ab", "", "", id="no answer"),
    ],
)
def test_only_what_differs_counts(old: str, answer: str, counted: str) -> None:
    logs = [log(CHANGED if one in counted else COPIED) for one in answer]
    found = rewrite_probability([*map(ord, old)], [*map(ord, answer)], logs)
    assert isclose(found, CHANGED ** len(counted))


def test_a_long_rewrite_counts_whole() -> None:
    """Repeated tokens make alignments slow, so a long change of many is not aligned."""
    old, answer = [1, *[2, 3] * 2000, 4], [1, *[3, 2, 2] * 1500, 4]
    assert isclose(rewrite_probability(old, answer, [-0.001] * len(answer)), exp(-0.001 * 4500))


def test_a_token_that_was_not_likely_makes_it_impossible() -> None:
    rows = [Row(b"a", ((b"a", 0.75), (b"b", 0.25))), Row(b"x", ((b"y", 1.0),))]
    logs = Certainty(rows, b"").log_probabilities()
    assert logs == (log(0.75), -inf)
    assert rewrite_probability([1, 2], [1, 3], logs) == 0.0
    assert rewrite_probability([5, 3], [1, 3], logs) == 0.75
