"""How sure a model is of an edit: the joint probability of what it changed."""

from collections.abc import Sequence
from math import exp, fsum

from fastcoder_lsp.core.differences import changed

_MOST_PAIRS = 32_768
"""Pairs of equal tokens between the first and the last change: an eighth of a second at the worst. With more of them
all of the answer's tokens between these changes count."""


def rewrite_probability(old: Sequence[int], answer: Sequence[int], log_probabilities: Sequence[float]) -> float:
    """The joint probability of an answer's tokens that differ from the old text; 1 where none does.

    Copied tokens count nothing, so that long regions are no less sure than short ones. Where the answer only leaves old
    tokens out, the token after them counts: the model said it instead of them. `old`: the tokens of the answer that
    changes nothing; with an end mark if `answer` has one. `log_probabilities`: of each answer token, given those before
    it.
    """
    return exp(fsum(log_probabilities[place] for place in differing(old, answer) if place < len(answer)))


def differing(old: Sequence[int], answer: Sequence[int]) -> frozenset[int]:
    """The places of the answer's tokens that differ from the old text, as `rewrite_probability` counts them."""
    parts = changed(tuple(old), tuple(answer), _MOST_PAIRS)
    return frozenset(place for _, _, first, last in parts for place in range(first, max(last, first + 1)))
