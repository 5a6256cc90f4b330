"""A history in parts of some hundred keys: each run is in one part at most, and a part is typed by itself.

Owns the choice, which depends on the seed and on the bound on keys, and on that in its last parts alone: parts can be
typed in any order, and a run be taken up again.
"""

import random
from collections.abc import Sequence

from benchmarks.datasets.histories import Edit, Step
from benchmarks.keystroke.hands import keys
from benchmarks.keystroke.subset import Subset

PART_KEYS = 240
"""Keys of a part, about: what a person types in a minute or two."""
LONGEST_RUN = 120
"""Keys of a run at most, so that a part is of several places."""


def history_parts(steps: Sequence[Step], most_keys: int | None, seed: int) -> list[Subset]:
    """The runs of a history in a random order, cut into parts; each part in the history's own order.

    Args:
        steps: of the history.
        most_keys: of all parts together; None: as many as there are.
        seed: of the order.
    """
    lengths = {
        place: len(keys(step.text.removesuffix("\n")))
        for place, step in enumerate(steps)
        if isinstance(step, Edit) and step.typed
    }
    order = [place for place, length in lengths.items() if 0 < length <= LONGEST_RUN]
    random.Random(seed).shuffle(order)  # noqa: S311 a sample, no secret
    parts: list[list[int]] = [[]]
    left = sum(lengths.values()) if most_keys is None else most_keys
    for place in order:
        if lengths[place] > left:
            continue
        left -= lengths[place]
        parts[-1].append(place)
        if sum(lengths[one] for one in parts[-1]) >= PART_KEYS:
            parts.append([])
    return [_subset(steps, part, len(lengths), lengths) for part in parts if part]


def _subset(steps: Sequence[Step], part: Sequence[int], runs: int, lengths: dict[int, int]) -> Subset:
    return Subset(tuple(steps[: max(part) + 1]), frozenset(part), runs, sum(lengths[place] for place in part))
