"""CLLM's examples: from any state of a trajectory the model learns to predict the fixed point.

Kou et al. 2024, *CLLMs: Consistency Large Language Models* (arXiv 2403.00835), section 3.2. loss = consistency + w ·
autoregressive. The states of a block hang as branches beside the text; a state's right tokens are the text's own and
teach nothing, so a branch begins at its first wrong token.

Trajectories are the model's output block by block, and every state of the guess on the way there: the iteration of
`papers/jacobi.py` (Santilli et al. 2023, Algorithm 1). Guess n random tokens of the prompt, replace all by the argmax
before each, until nothing moves; then the next block. On a CPU the engine that decodes makes them, one text after the
other: a verification keeps the right tokens in its KV cache. On a GPU transformers makes them for a batch; the KV cache
keeps the tokens that are right in all texts. Batch i of a run is a function of (texts, seed, i) alone.

Legend: B texts, P places in the cache, N tokens of a block, S of them that are right in all texts.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from transformers import DynamicCache

from fastcoder_lsp.core import DraftTree, Engine
from fastcoder_lsp.core.arrays import Int32s, Int64s
from fastcoder_lsp.core.files import appearing
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.papers.train.example import Example, Ids, Labels, Pairs, Sequences, order, trunk

GRAM = 4
DISTINCT = 0.7
"""The least share of distinct 4-grams in an output to learn from: a model trained on loops learns to loop."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One output. `states[b]`: the guesses for block b, in their order, the fixed point (the output itself) left out.

    `output` holds the blocks' fixed points, [blocks · n]; where the model ended its text the last block is cut there,
    and so are its states.
    """

    prompt: Ids
    output: Ids
    states: tuple[Int64s, ...]
    block: int

    def block_of(self, index: int) -> Ids:
        """The fixed point of one block."""
        return self.output[index * self.block : (index + 1) * self.block]


def distinct_share(tokens: Sequence[int] | Ids) -> float:
    """Distinct n-grams over all n-grams: 1 for a text that never repeats itself, 1 where it is shorter than one."""
    grams = [tuple(tokens[place : place + GRAM]) for place in range(len(tokens) - GRAM + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0


def cleaned(trajectory: Trajectory) -> Trajectory | None:
    """The trajectory up to the block where it begins to repeat itself, without repeated states; None if empty."""
    kept = len(trajectory.states)
    while kept and distinct_share(trajectory.output[: kept * trajectory.block].tolist()) < DISTINCT:
        kept -= 1
    if not kept:
        return None
    states = tuple(_moving(states) for states in trajectory.states[:kept])
    return Trajectory(trajectory.prompt, trajectory.output[: kept * trajectory.block], states, trajectory.block)


def _moving(states: Int64s) -> Int64s:
    moved = [place == 0 or not np.array_equal(states[place], states[place - 1]) for place in range(len(states))]
    return states[moved]


def save(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write trajectories to one file, whole or not at all."""
    states = [state for one in trajectories for state in one.states]
    with appearing(path) as file:
        np.savez_compressed(
            file,
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


def load(path: Path) -> list[Trajectory]:
    """Read what `save` wrote. Raises FastcoderError if the file is damaged."""
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


def _joined(parts: Sequence[Ids]) -> Int32s:
    return np.concatenate([np.zeros(0, np.int32), *(part.astype(np.int32) for part in parts)])


class TrajectoryCollector(Protocol):
    """Makes a model's trajectories."""

    def collect(self, prompts: Sequence[Ids], blocks: int, draw: random.Random) -> list[Trajectory]:
        """The model's output for each prompt: up to `blocks` blocks, fewer where it ends its text."""


class EngineCollector:
    """Collects from an engine: the trajectories of the model as it decodes."""

    def __init__(self, engine: Engine, *, block: int, ends: frozenset[int]) -> None:
        self._engine, self._block, self._ends = engine, block, ends

    def collect(self, prompts: Sequence[Ids], blocks: int, draw: random.Random) -> list[Trajectory]:
        """The model's output for each prompt: up to `blocks` blocks, fewer where it ends its text."""
        return [self._collect(prompt, blocks, draw) for prompt in prompts]

    def _collect(self, prompt: Ids, blocks: int, draw: random.Random) -> Trajectory:
        tokens, block = prompt.tolist(), self._block
        blocks = max(0, min(blocks, (self._engine.info.context - len(tokens) - 1) // block - 1))  # as many as it reads
        self._engine.prefill(tokens[:-1], lambda: False)
        output: list[int] = []
        trails: list[list[list[int]]] = []
        guess: list[int] = []
        while len(output) < blocks * block and not self._ends.intersection(output):
            place = len(output) % block
            if len(trails) <= len(output) // block:
                trails.append([])
                guess = [draw.choice(tokens) for _ in range(block - place)]
            trails[-1].append(output[len(output) - place :] + guess)
            rows = [(output or tokens)[-1], *guess]
            verified = self._engine.step(DraftTree(tuple(rows), tuple(range(-1, len(guess))), 1), top_k=1)
            assert verified.top_ids_NK is not None
            output += verified.emitted
            # The row of the last accepted token gave the decided one; the last row speaks of the next block.
            guess = verified.top_ids_NK[len(verified.emitted) : len(guess), 0].tolist()
        end = next((place + 1 for place, token in enumerate(output) if token in self._ends), blocks * block)
        states = []
        for place, trail in enumerate(trails):
            fixed = output[place * block : min((place + 1) * block, end)]
            own = [state[: len(fixed)] for state in trail]
            if fixed:
                states.append(np.array([state for state in own if state != fixed] or own[:1], np.int64))
        return Trajectory(prompt.astype(np.int64), np.array(output[:end], np.int64), tuple(states), block)


class JacobiCollector:
    """Collects from a transformers model; where its cache cannot be cut, one text at a time and without cache."""

    def __init__(self, model: Any, device: str, *, block: int, ends: frozenset[int]) -> None:
        self._model, self._device, self._block, self._ends = model, device, block, ends
        self.batched = _can_cut(model, device)

    @torch.inference_mode()
    def collect(self, prompts: Sequence[Ids], blocks: int, draw: random.Random) -> list[Trajectory]:
        """The model's output for each prompt: up to `blocks` blocks, fewer where it ends its text."""
        if not self.batched:
            return [self._collect([prompt], blocks, draw)[0] for prompt in prompts]
        return self._collect(prompts, blocks, draw)

    def _collect(self, prompts: Sequence[Ids], blocks: int, draw: random.Random) -> list[Trajectory]:
        texts = _PaddedBatch(self._model, self._device, prompts, cached=self.batched)
        outputs: list[list[int]] = [[] for _ in prompts]
        states: list[list[Ids]] = [[] for _ in prompts]
        ended = [False] * len(prompts)
        for _ in range(blocks):
            guess_BN = np.array([[draw.choice(prompt) for _ in range(self._block)] for prompt in prompts], np.int64)
            trail, fixed_BN = self._iterate(texts, guess_BN)
            for text, fixed in enumerate(fixed_BN.tolist()):
                if ended[text]:
                    continue
                length = next((place + 1 for place, token in enumerate(fixed) if token in self._ends), len(fixed))
                ended[text] = length < len(fixed) or fixed[-1] in self._ends
                outputs[text] += fixed[:length]
                own = [state[text, :length] for state in trail]
                states[text].append(np.stack([state for state in own if state.tolist() != fixed[:length]] or own[:1]))
            if all(ended):
                break
        return [
            Trajectory(np.asarray(prompt, np.int64), np.array(output, np.int64), tuple(found), self._block)
            for prompt, output, found in zip(prompts, outputs, states, strict=True)
        ]

    def _iterate(self, texts: "_PaddedBatch", guess_BN: Ids) -> tuple[list[Ids], Ids]:
        """All states before the fixed point, and the fixed point, which is in the cache then.

        Each iteration makes at least one more token stable, so there are at most N + 1. (If sums depend on the guess,
        as on a GPU, the last state is taken for the fixed point.)
        """
        trail = [guess_BN]
        while True:
            state_BN = trail[-1]
            fresh_BN = texts.outputs(state_BN)
            if np.array_equal(fresh_BN[:, :-1], state_BN) or len(trail) > self._block + 1:
                texts.keep(state_BN, fresh_BN[:, -1])
                return trail[:-1] or trail, state_BN
            trail.append(fresh_BN[:, :-1])


class _PaddedBatch:
    """The texts of a batch, left-padded to one length, and the model's cache of them."""

    def __init__(self, model: Any, device: str, prompts: Sequence[Ids], *, cached: bool) -> None:
        self._model, self._device, self._cached = model, device, cached
        longest = max(map(len, prompts))
        self._tokens_BP = np.stack([np.pad(prompt, (longest - len(prompt), 0)) for prompt in prompts])
        self._pads_B = np.array([longest - len(prompt) for prompt in prompts])
        self._cache = DynamicCache(config=model.config) if cached else None
        self._next_B = self._run(self._tokens_BP, 1)[:, -1]
        self._right_BS = self._after_BS = np.zeros((len(prompts), 0), np.int64)
        """The right beginning of the last guess, and the model's token after each token of it."""

    def outputs(self, state_BN: Ids) -> Ids:
        """[B, N+1]: the decided token, and the model's token after each token of the guess."""
        held = 0
        if self._cache is not None:
            held = _alike(state_BN, self._right_BS)
            beyond = self._cache.get_seq_length() - self._tokens_BP.shape[1] - held
            if beyond > 0:
                self._cache.crop(-beyond)
        predicted = self._run(state_BN[:, held:], state_BN.shape[1] - held)
        fresh_BN = np.concatenate([self._next_B[:, None], self._after_BS[:, :held], predicted], axis=1)
        right = _alike(state_BN, fresh_BN)
        self._right_BS, self._after_BS = state_BN[:, :right], fresh_BN[:, 1 : right + 1]
        return fresh_BN

    def keep(self, fixed_BN: Ids, next_B: Ids) -> None:
        self._tokens_BP = np.concatenate([self._tokens_BP, fixed_BN], axis=1)
        self._next_B = next_B
        self._right_BS = self._after_BS = fixed_BN[:, :0]

    def _run(self, tokens: Ids, last: int) -> Ids:
        """The argmax at the last places of `tokens`, which follow the cached ones."""
        held = self._cache.get_seq_length() if self._cache is not None else 0
        if self._cache is None and tokens is not self._tokens_BP:
            tokens = np.concatenate([self._tokens_BP, tokens], axis=1)
        places_P = np.arange(held + tokens.shape[1])
        seen_BP = places_P[None] >= self._pads_B[:, None]
        places_BP = np.maximum(places_P[None, held:] - self._pads_B[:, None], 0)
        # By index, not by number: of hidden states that do not lie together, torch multiplies each text with a copy of
        # the whole vocabulary's matrix.
        kept = torch.arange(tokens.shape[1] - last, tokens.shape[1], device=self._device)
        given: dict[str, Any] = {"input_ids": self._move(tokens), "logits_to_keep": kept}
        if self._pads_B.any() or self._cache is not None:
            given |= {"attention_mask": self._move(seen_BP.astype(np.int64)), "position_ids": self._move(places_BP)}
        outcome = self._model(**given, past_key_values=self._cache, use_cache=self._cache is not None)
        best: Ids = outcome.logits[:, -last:].argmax(-1).cpu().numpy()
        return best

    def _move(self, values: Ids) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device)


def _alike(left_BN: Ids, right_BN: Ids) -> int:
    shorter = min(left_BN.shape[1], right_BN.shape[1])
    same_N = (left_BN[:, :shorter] == right_BN[:, :shorter]).all(0)
    return shorter if same_N.all() else int(same_N.argmin())


@torch.inference_mode()
def _can_cut(model: Any, device: str) -> bool:
    """Whether padded, cached and cut texts give the same as plain ones, tried on two short ones."""
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    long, short = (np.array(ids, np.int64) % vocabulary for ids in ((11, 12, 13, 14, 15), (21, 22, 23)))
    try:
        texts = _PaddedBatch(model, device, [long, short], cached=True)
        texts.outputs(np.array([[16, 17], [18, 19]], np.int64) % vocabulary)
        found = texts.outputs(np.array([[26, 27], [28, 29]], np.int64) % vocabulary)
        plain = [
            _PaddedBatch(model, device, [prompt], cached=False).outputs(guess)[0]
            for prompt, guess in ((long, np.array([[26, 27]]) % vocabulary), (short, np.array([[28, 29]]) % vocabulary))
        ]
    except (TypeError, ValueError, AttributeError, NotImplementedError, RuntimeError):
        return False
    return bool(np.array_equal(found, np.stack(plain)))


def prompts(sequences: Sequences, middle: int | None, start: int, count: int) -> list[Ids]:
    """Prompts like an editor's, of the windows from `start` on: up to the middle mark, or else a text's first part.

    `middle`: the id of that mark; None if the model has none.
    """
    found = []
    for index in range(start, start + count):
        sequence = sequences.at(index)
        marks = np.flatnonzero((sequence.tokens == (-1 if middle is None else middle)) & ~sequence.text)
        draw = random.Random(f"prompt {index}")  # noqa: S311 a reproducible draw, no secret
        # A window that is re-ordered with the suffix first goes on behind its mark with the prefix.
        least = int(marks[0]) + 1 if len(marks) else max(1, len(sequence) // 4)
        end = least if len(marks) and draw.random() < 0.5 else draw.randint(least, max(least, len(sequence) * 3 // 4))
        found.append(sequence.tokens[: max(end, 2)])
    return found


CONSISTENCY, AUTOREGRESSIVE = "consistency", "autoregressive"
HELD_OUT_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class CllmSettings:
    """Published: `block` n = 16 or 32, `weight` w = 10 (table 1; with 1 table 6 has less accuracy), the `global` loss.

    `states`: of each block shown in one step; `correct`: the share of a state's wrong tokens that are corrected at
    random; `trajectories` to collect, of `blocks` blocks each; `batch` of them at once.
    """

    block: int = 16
    weight: float = 10.0
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
        self.weights = settings.weights()

    def examples(self, step: int) -> list[Example]:
        """The examples to train on."""
        found: list[Example] = []
        for index in range(step * self._batch, (step + 1) * self._batch):
            trajectory = self._trajectories[order(len(self._trajectories), self._seed, index)]
            draw = random.Random(f"states {self._seed} {index}")  # noqa: S311 a reproducible draw, no secret
            found.append(example_of(trajectory, self._settings, draw))
        return found

    def held_out(self) -> list[Example]:
        """The held-out examples."""
        draws = (random.Random(f"held out {place}") for place in range(len(self._held)))  # noqa: S311 reproducible
        return [example_of(one, self._settings, draw) for one, draw in zip(self._held, draws, strict=True)]
