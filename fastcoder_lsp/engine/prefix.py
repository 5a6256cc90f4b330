"""What two sequences of tokens share from their start."""

from fastcoder_lsp.core import Tokens


def common_prefix(left: Tokens, right: Tokens) -> int:
    """How many tokens are equal from the start on."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
