"""Jacobi trajectories: what a model said block by block, and every state of the guess on the way there.

Owns their form, the cleaning of what repeats itself, and their files (npz, a few bytes a state).
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.index.files import replace_file
from fastcoder_lsp.train.example import Ids

GRAM = 4
DISTINCT = 0.7
"""The least share of distinct 4-grams in an output that is learnt from: a model taught on loops learns to loop."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One output. `states[b]`: the guesses for block b, in their order, the fixed point (the output itself) left out.

    `output` holds the blocks' fixed points, [blocks · n]; where the model ended its text the last block is cut there,
    and so are its states.
    """

    prompt: Ids
    output: Ids
    states: tuple[npt.NDArray[np.int64], ...]
    block: int

    def block_of(self, index: int) -> Ids:
        """The fixed point of one block."""
        return self.output[index * self.block : (index + 1) * self.block]


def distinct_share(tokens: Sequence[int] | Ids, gram: int = GRAM) -> float:
    """Distinct n-grams over all n-grams: 1 for a text that never repeats itself, 1 where it is shorter than one."""
    grams = [tuple(tokens[place : place + gram]) for place in range(len(tokens) - gram + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0


def cleaned(trajectory: Trajectory, least: float = DISTINCT) -> Trajectory | None:
    """The trajectory up to the block in which it begins to repeat itself; None where nothing is left.

    States that only repeat the one before are dropped, too: they are the model's pause, not its progress.
    """
    kept = len(trajectory.states)
    while kept and distinct_share(trajectory.output[: kept * trajectory.block].tolist()) < least:
        kept -= 1
    if not kept:
        return None
    states = tuple(_moving(states) for states in trajectory.states[:kept])
    return Trajectory(trajectory.prompt, trajectory.output[: kept * trajectory.block], states, trajectory.block)


def _moving(states: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    moved = [place == 0 or not np.array_equal(states[place], states[place - 1]) for place in range(len(states))]
    return states[moved]


def save(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write trajectories to one file, whole or not at all."""
    states = [state for one in trajectories for state in one.states]
    held = io.BytesIO()
    np.savez_compressed(
        held,
        block=np.array([one.block for one in trajectories], np.int32),
        prompts=_joined([one.prompt for one in trajectories]),
        prompt_ends=np.cumsum([len(one.prompt) for one in trajectories]).astype(np.int32),
        outputs=_joined([one.output for one in trajectories]),
        output_ends=np.cumsum([len(one.output) for one in trajectories]).astype(np.int32),
        blocks=np.array([len(one.states) for one in trajectories], np.int32),
        states=_joined([state.reshape(-1) for state in states]),
        counts=np.array([state.shape[0] for state in states], np.int32),
        widths=np.array([state.shape[1] for state in states], np.int32),
    )
    replace_file(path, held.getvalue())


def load(path: Path) -> list[Trajectory]:
    """Read what `save` wrote.

    Raises:
        FastcoderError: the file is damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        prompts = np.split(arrays["prompts"], arrays["prompt_ends"])
        outputs = np.split(arrays["outputs"], arrays["output_ends"])
        sizes = arrays["counts"] * arrays["widths"]
        flat = np.split(arrays["states"], np.cumsum(sizes))
        shapes = zip(flat, arrays["counts"], arrays["widths"], strict=False)
        states = iter([part.reshape(count, width).astype(np.int64) for part, count, width in shapes])
        return [
            Trajectory(
                prompts[place].astype(np.int64),
                outputs[place].astype(np.int64),
                tuple(next(states) for _ in range(int(blocks))),
                int(arrays["block"][place]),
            )
            for place, blocks in enumerate(arrays["blocks"])
        ]
    except (OSError, ValueError, KeyError, IndexError, StopIteration, EOFError) as error:
        raise FastcoderError(
            f"{path} is damaged: {error}", "Delete it. The next run collects the trajectories again."
        ) from error


def _joined(parts: Sequence[Ids]) -> npt.NDArray[np.int32]:
    return np.concatenate([np.zeros(0, np.int32), *(part.astype(np.int32) for part in parts)])
