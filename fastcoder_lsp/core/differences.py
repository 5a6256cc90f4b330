"""Common prefixes and suffixes of texts, by bisection, because Python compares slices faster; lines; changed tokens."""

from collections import Counter
from difflib import SequenceMatcher
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


def common_ends(left: str, right: str) -> tuple[int, int]:
    """The length of the common prefix, and of the common suffix after it."""
    start = first_difference(left, right)
    same, different = 0, min(len(left), len(right)) - start + 1
    while different - same > 1:
        middle = (same + different) // 2
        if left[len(left) - middle : len(left) - same] == right[len(right) - middle : len(right) - same]:
            same = middle
        else:
            different = middle
    return start, same


def common_prefix(left: Tokens, right: Tokens) -> int:
    """The length of the common prefix of two sequences of tokens."""
    try:
        return indexOf(map(eq, left, right), False)
    except ValueError:  # equal up to the end of the shorter one
        return min(len(left), len(right))


def whole_lines(text: str) -> list[str]:
    r"""The lines of a text with their ends; only `\n` ends one, as in a document."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def changed(left: Tokens, right: Tokens, most: int) -> list[tuple[int, int, int, int]]:
    """The parts of `left` that are others in `right`: where each starts and ends in `left`, then in `right`.

    All between the common prefix and suffix is one part if over `most` pairs of its places have the same token: the
    time grows with them, and with the parts.
    """
    start = common_prefix(left, right)
    end = common_prefix(left[: start - 1 if start else None : -1], right[: start - 1 if start else None : -1])
    inner_left, inner_right = left[start : len(left) - end], right[start : len(right) - end]
    in_left, in_right = Counter(inner_left), Counter(inner_right)
    if sum(count * in_right[token] for token, count in in_left.items()) > most:
        return [(start, start + len(inner_left), start, start + len(inner_right))]
    between = SequenceMatcher(None, inner_left, inner_right, autojunk=False).get_opcodes()
    return [(start + a, start + b, start + c, start + d) for tag, a, b, c, d in between if tag != "equal"]
