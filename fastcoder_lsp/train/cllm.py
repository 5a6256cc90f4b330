"""CLLM's examples: from any state of a trajectory the model learns to predict the fixed point.

Kou et al. 2024, *CLLMs: Consistency Large Language Models*, section 3.2. loss = consistency + w · autoregressive. The
states of a block hang as branches beside the text; a state's right tokens are the text's own and teach nothing, so a
branch begins at its first wrong token.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fastcoder_lsp.train.example import Example, Ids, Labels, Pairs, order, trunk
from fastcoder_lsp.train.trajectories import Trajectory

CONSISTENCY, AUTOREGRESSIVE = "consistency", "autoregressive"
HELD_OUT_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class CllmSettings:
    """Published: `block` n = 16 or 32, `weight` w = 1, the `global` loss.

    `states`: of each block shown in one step; `correct`: the share of a state's wrong tokens that are corrected at
    random; `trajectories` to collect, of `blocks` blocks each; `batch` of them at once.
    """

    block: int = 16
    weight: float = 1.0
    consistency: Literal["global", "local"] = "global"
    states: int = 2
    correct: float = 0.2
    trajectories: int | None = None
    blocks: int = 6
    batch: int = 16

    def weights(self) -> dict[str, float]:
        """The weights of the loss terms."""
        return {CONSISTENCY: 1.0, AUTOREGRESSIVE: self.weight}


def example_of(trajectory: Trajectory, settings: CllmSettings, draw: random.Random) -> Example:
    """The example of one trajectory, with some of its states.

    The global loss pairs a state with the fixed point, the local one with the state that came next.
    """
    tree = _TrajectoryTree(trajectory)
    students: list[int] = []
    teachers: list[int] = []
    for block, states in enumerate(trajectory.states):
        for place in sorted(draw.sample(range(len(states)), min(settings.states, len(states)))):
            fixed = trajectory.block_of(block)
            shown = np.array(
                [
                    right if token != right and draw.random() < settings.correct else token
                    for token, right in zip(states[place].tolist(), fixed.tolist(), strict=True)
                ]
            )
            after = states[place + 1] if place + 1 < len(states) and settings.consistency == "local" else fixed
            # The last node predicts the token after the block, which is not the state's.
            for student, teacher in zip(tree.hang(block, shown)[:-1], tree.hang(block, after)[:-1], strict=True):
                if student != teacher:
                    students.append(student)
                    teachers.append(teacher)
    pairs = {CONSISTENCY: Pairs(np.array(students, np.int64), np.array(teachers, np.int64))} if students else {}
    first = len(trajectory.prompt) - 1
    nodes = np.arange(first, first + len(trajectory.output), dtype=np.int64)
    return Example(*tree.arrays(), {AUTOREGRESSIVE: Labels(nodes, trajectory.output)}, pairs)


class _TrajectoryTree:
    """A trajectory's text, and the states hung beside it."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        tokens, parents = trunk(np.concatenate([trajectory.prompt, trajectory.output]))
        self._tokens, self._parents = tokens.tolist(), parents.tolist()
        self._places = {
            (parent, token): node
            for node, (parent, token) in enumerate(zip(parents.tolist(), tokens.tolist(), strict=True))
        }

    def hang(self, block: int, state: Ids) -> list[int]:
        """The nodes of a state of `block`: those that are there already, then new ones."""
        above = len(self._trajectory.prompt) + block * self._trajectory.block - 1
        nodes = []
        for token in state.tolist():
            node = self._places.get((above, token))
            if node is None:
                node = self._places[above, token] = len(self._tokens)
                self._tokens.append(token)
                self._parents.append(above)
            nodes.append(node)
            above = node
        return nodes

    def arrays(self) -> tuple[Ids, Ids]:
        return np.array(self._tokens, np.int64), np.array(self._parents, np.int64)


class CllmTask:
    """CLLM over trajectories: `batch` of them in a step, all once in each epoch, each epoch in another order."""

    def __init__(
        self, trajectories: Sequence[Trajectory], settings: CllmSettings, *, batch: int, seed: int, held_out: int
    ) -> None:
        held = min(held_out, max(1, int(len(trajectories) * HELD_OUT_SHARE))) if len(trajectories) > 1 else 0
        self._held, self._trajectories = trajectories[:held], trajectories[held:]
        self._settings, self._batch, self._seed = settings, batch, seed

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each loss term."""
        return self._settings.weights()

    def examples(self, step: int) -> list[Example]:
        """The examples to train on."""
        return list(self._examples(step))

    def held_out(self) -> list[Example]:
        """The held-out examples."""
        draws = (random.Random(f"held out {place}") for place in range(len(self._held)))  # noqa: S311 reproducible
        return [example_of(one, self._settings, draw) for one, draw in zip(self._held, draws, strict=True)]

    def _examples(self, step: int) -> Iterator[Example]:
        for index in range(step * self._batch, (step + 1) * self._batch):
            trajectory = self._trajectories[order(len(self._trajectories), self._seed, index)]
            draw = random.Random(f"states {self._seed} {index}")  # noqa: S311 a reproducible draw, no secret
            yield example_of(trajectory, self._settings, draw)
