"""Which typed runs of a history are typed key by key; all other steps are made at once.

Owns the choice, which depends on the seed alone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.datasets.histories import Edit, Step
from benchmarks.keystroke.hands import keys

PLAIN_KEYS = 480
"""Keys that a replay without a limit types at each speed with each drafter."""
LONGEST_SHARE = 4
"""No run of the plain subset is longer than this part of all its keys, so that several places are seen."""


@dataclass(frozen=True, slots=True)
class Subset:
    """`steps` up to the last run that is typed; `typed`: the places of those runs in them; `runs`: how many there are.

    `keys`: that are typed in all, with no accept.
    """

    steps: tuple[Step, ...]
    typed: frozenset[int]
    runs: int
    keys: int

    def typed_steps(self) -> list[Edit]:
        """The runs that are typed, in their order."""
        return [step for place, step in enumerate(self.steps) if place in self.typed and isinstance(step, Edit)]


def choose_runs(steps: Sequence[Step], limit: int | None, seed: int) -> Subset:
    """`limit` runs; without, as many as make up `PLAIN_KEYS`."""
    lengths = {
        place: len(keys(step.text.removesuffix("\n")))
        for place, step in enumerate(steps)
        if isinstance(step, Edit) and step.typed
    }
    candidates = [place for place, length in lengths.items() if length]
    random.Random(seed).shuffle(candidates)  # noqa: S311 a sample, no secret
    chosen = candidates[:limit] if limit is not None else _as_many_as_fit(candidates, lengths)
    end = max(chosen, default=-1) + 1
    return Subset(tuple(steps[:end]), frozenset(chosen), len(lengths), sum(lengths[place] for place in chosen))


def _as_many_as_fit(candidates: Sequence[int], lengths: dict[int, int]) -> list[int]:
    chosen, left = [], PLAIN_KEYS
    for place in candidates:
        if lengths[place] <= min(left, PLAIN_KEYS // LONGEST_SHARE):
            chosen.append(place)
            left -= lengths[place]
    return chosen
