"""Common prefixes and suffixes of texts, by bisection, because Python compares slices faster; and of tokens."""

from operator import eq, indexOf

from fastcoder_lsp.core.trees import Tokens


def first_difference(left: str, right: str) -> int:
    """The offset at which two texts begin to differ; the length of the shorter one if it is a prefix."""
    same, different = 0, min(len(left), len(right)) + 1
    while different - same > 1:
        middle = (same + different) // 2
        if left[same:middle] == right[same:middle]:
            same = middle
        else:
            different = middle
    return same


def common_end(left: str, right: str, most: int) -> int:
    """The length of the common suffix, at most `most` characters."""
    same, different = 0, min(len(left), len(right), most) + 1
    while different - same > 1:
        middle = (same + different) // 2
        if left[len(left) - middle : len(left) - same] == right[len(right) - middle : len(right) - same]:
            same = middle
        else:
            different = middle
    return same


def common_prefix(left: Tokens, right: Tokens) -> int:
    """The length of the common prefix of two sequences of tokens."""
    try:
        return indexOf(map(eq, left, right), False)
    except ValueError:  # equal up to the end of the shorter one
        return min(len(left), len(right))
