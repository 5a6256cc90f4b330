"""The common prefix of two sequences of tokens."""

from operator import eq, indexOf

from fastcoder_lsp.core import Tokens


def common_prefix(left: Tokens, right: Tokens) -> int:
    """The length of the common prefix."""
    try:
        return indexOf(map(eq, left, right), False)
    except ValueError:  # equal up to the end of the shorter one
        return min(len(left), len(right))
