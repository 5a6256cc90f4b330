"""A training example: a tree of tokens, and the goals at its nodes.

A text is a chain, the *trunk*. A state of a Jacobi trajectory or a run of adaptive tokens hangs from the trunk as a
branch, so that one pass shows each branch the clean context it will have when decoding, and a long prompt is computed
once for all branches. Owns the values and their checks; no arithmetic.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


def _none() -> Ids:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Labels:
    """Node `nodes[i]` learns to predict token `ids[i]`: cross-entropy."""

    nodes: Ids
    ids: Ids


@dataclass(frozen=True, slots=True)
class Pairs:
    """Node `students[i]` learns to predict like node `teachers[i]`: forward KL, no gradient through teachers."""

    students: Ids
    teachers: Ids


@dataclass(frozen=True, slots=True)
class Example:
    """A tree of tokens and the goals at its nodes, by the name of the loss term that each goal belongs to.

    `parents[i] < i`; -1 is the start of the text, the parent of node 0 alone.
    """

    tokens: Ids
    parents: Ids
    labels: dict[str, Labels]
    pairs: dict[str, Pairs]

    def __post_init__(self) -> None:
        assert len(self.tokens) == len(self.parents) > 0
        assert self.parents[0] == -1
        assert bool((self.parents < np.arange(len(self.parents))).all())
        assert bool((self.parents[1:] >= 0).all())

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Whether there are no branches."""
        return bool((self.parents == np.arange(-1, len(self) - 1)).all())

    def depths(self) -> Ids:
        """Each node's distance from the start of the text: its position."""
        depths = np.zeros(len(self), np.int64)
        for node in range(1, len(self)):
            depths[node] = depths[self.parents[node]] + 1
        return depths

    def wanted(self) -> Ids:
        """The nodes whose logits the goals need, ascending."""
        parts = [goal.nodes for goal in self.labels.values()]
        parts += [side for goal in self.pairs.values() for side in (goal.students, goal.teachers)]
        return np.unique(np.concatenate([_none(), *parts]))

    def counts(self) -> dict[str, int]:
        """How many goals each loss term has."""
        return {name: len(goal.nodes) for name, goal in self.labels.items()} | {
            name: len(goal.students) for name, goal in self.pairs.items()
        }

    def path(self, node: int) -> list[int]:
        """The nodes from the start of the text to `node`, itself last."""
        path = [node]
        while (node := int(self.parents[node])) >= 0:
            path.append(node)
        return path[::-1]


def trunk(tokens: Ids) -> tuple[Ids, Ids]:
    """Tokens and parents of a plain text."""
    return tokens.astype(np.int64), np.arange(-1, len(tokens) - 1, dtype=np.int64)
