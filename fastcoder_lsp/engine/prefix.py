"""What two sequences of tokens share from their start."""

from operator import eq, indexOf

from fastcoder_lsp.core import Tokens


def common_prefix(left: Tokens, right: Tokens) -> int:
    """How many tokens are equal from the start on."""
    try:
        return indexOf(map(eq, left, right), False)
    except ValueError:  # equal as far as the shorter one goes
        return min(len(left), len(right))
