"""The common beginning of two sequences, against the plain way to find it."""

from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.engine.prefix import common_prefix

TOKENS = st.lists(st.integers(0, 1), max_size=6)


@given(TOKENS, TOKENS)
def test_it_ends_where_the_first_two_differ(left: list[int], right: list[int]) -> None:
    """Or where the shorter one ends; of lists and tuples alike."""
    expected = 0
    while expected < min(len(left), len(right)) and left[expected] == right[expected]:
        expected += 1
    assert common_prefix(left, right) == common_prefix(tuple(left), right) == expected
