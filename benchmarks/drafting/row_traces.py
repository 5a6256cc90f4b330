"""The model's answer to each task, with its best ids at every row of wide trees: recorded once, then replayed.

Drafters that learn from the model's rows (recycling, auto) cannot be replayed from text alone. Here every step of a
recording verified 64 rows, of likely and unlikely tokens, and kept what the model would have said after each: a replay
knows the rows of all accepted tokens, and those of the rejected ones that the recording tried as well.

Owns the recordings' form and place, and the replay over them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from benchmarks.datasets import repoeval
from benchmarks.drafting.tasks import TaskParts, TaskPin
from fastcoder_lsp.core import Draft, DraftContext, DrafterTraits, DraftTree, Engine, Verified
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.base import Drafter, NoDrafter
from fastcoder_lsp.draft.fastcoder import PRODUCT, FastcoderDrafter
from fastcoder_lsp.draft.recycling import RecyclingDrafter, RecyclingParameters

NODES = 64
TOP_K = 10
FORMAT = 1
_TOKENS = 512

RowPosition = tuple[int, tuple[int, ...]]
"""Where a row stands: so many of the output's tokens, then tokens that were not said."""


@dataclass(frozen=True, slots=True)
class RowTrace:
    """A prompt, what the model said to the end of the function, and its best ids and logits at the rows it ran."""

    task: repoeval.FunctionTask
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    ids: dict[RowPosition, npt.NDArray[np.int64]]
    logits: dict[RowPosition, npt.NDArray[np.float32]]

    def positions(self, draft: Draft, position: int) -> list[RowPosition]:
        """Where the root and each node of a draft after `position` tokens of the output stand."""
        found: list[RowPosition] = [(position, ())]
        for token, parent in zip(draft.tokens, draft.parents, strict=True):
            said, other = found[parent + 1]
            agrees = not other and said < len(self.tokens) and self.tokens[said] == token
            found.append((said + 1, ()) if agrees else (said, (*other, token)))
        return found

    def verify(self, draft: Draft, position: int) -> tuple[DraftTree, Verified]:
        """The outcome of a draft for the recorded model; rows that it never ran hold no ids (-1)."""
        positions = self.positions(draft, position)
        parents = (-1, *(parent + 1 for parent in draft.parents))
        last = self.tokens[position - 1] if position else self.prompt[-1]
        tree = DraftTree((last, *draft.tokens), parents, 1, ("", *draft.sources), (0, *draft.matches))
        below, node, path = tree.children(), 0, list[int]()
        for token in self.tokens[position:-1]:
            child = below.get(node, {}).get(token)
            if child is None:
                break
            path.append(child)
            node = child
        emitted = self.tokens[position : position + len(path) + 1]
        none, zeros = np.full(TOP_K, -1, np.int64), np.zeros(TOP_K, np.float32)
        ids_NK = np.array([self.ids.get(place, none) for place in positions])
        logits_NK = np.array([self.logits.get(place, zeros) for place in positions])
        return tree, Verified(tuple(path), emitted, ids_NK, logits_NK)


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """Before a step: what the drafter saw, what it drafted, and how many tokens the step gave."""

    context: DraftContext
    draft: Draft
    emitted: int
    position: int


def replay_rows(drafter: Drafter, trace: RowTrace, nodes: int, document: str = "") -> Iterator[ReplayedStep]:
    """Let `drafter` draft along a recording, `nodes` rows a step; each step is handed out before it is observed."""
    tokens, position = list(trace.prompt), 0
    drafter.begin(DraftContext(tokens, len(trace.prompt), document))
    while position < len(trace.tokens):
        context = DraftContext(tokens, len(trace.prompt), document)
        draft = drafter.propose(context, nodes - 1)
        tree, verified = trace.verify(draft, position)
        yield ReplayedStep(context, draft, len(verified.emitted), position)
        drafter.observe(tree, verified)
        tokens += verified.emitted
        position += len(verified.emitted)


class RowRecorder:
    """Recordings of one model in a folder, a file a task."""

    def __init__(self, parts: TaskParts) -> None:
        self._parts = parts
        name = hashlib.sha256(f"{FORMAT} {parts.identity} {parts.tokenizer.identity}".encode()).hexdigest()[:16]
        self._folder = parts.model.cache / "bench" / f"rows-{name}"
        self._engine: Engine | None = None

    def trace(self, task: repoeval.FunctionTask) -> RowTrace | None:
        """The recording of a task, made now if need be; None where the model says nothing."""
        path = self._folder / f"{task.id.replace('/', '_')}.npz"
        found = _read(task, path)
        if found is None:
            self._record(task, path)
            found = _read(task, path)
            assert found is not None
        return found if found.tokens else None

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()

    def _record(self, task: repoeval.FunctionTask, path: Path) -> None:
        parts = self._parts
        if self._engine is None:
            self._engine = parts.engine()
        pin = TaskPin(parts.stores, task)
        drafter = _Wide(FastcoderDrafter(pin, parts.tokenizer.piece, PRODUCT))
        request = parts.request(task, _TOKENS, to_body_end=True, nodes=NODES)
        result = decode(self._engine, drafter, request, lambda: False)
        emitted = [token for _, verified in drafter.steps for token in verified.emitted]
        self._folder.mkdir(parents=True, exist_ok=True)
        said = emitted[: len(result.tokens) + (result.finish == "eos")]
        _save(path, request.prompt, said, drafter.steps)


class _Wide(NoDrafter):
    """Half of the rows for what retrieval guesses, half for the model's own candidates; keeps what came of them."""

    def __init__(self, retrieval: Drafter) -> None:
        super().__init__()
        self.name, self.traits = "wide", DrafterTraits(top_k=TOP_K)
        self._both = retrieval, RecyclingDrafter(RecyclingParameters(prompt=True))
        self.steps: list[tuple[DraftTree, Verified]] = []

    @override
    def begin(self, context: DraftContext) -> None:
        for drafter in self._both:
            drafter.begin(context)

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """One draft after the other; the tree that is built of them merges the twins."""
        retrieved, recycled = self._both
        left, right = retrieved.propose(context, nodes // 2 + 6), recycled.propose(context, nodes)
        shift = len(left.tokens)
        parents = (parent if parent < 0 else parent + shift for parent in right.parents)
        return Draft((*left.tokens, *right.tokens), (*left.parents, *parents))

    @override
    def observe(self, tree: DraftTree, verified: Verified) -> None:
        for drafter in self._both:
            drafter.observe(tree, verified)
        self.steps.append((tree, verified))


def _save(
    path: Path, prompt: tuple[int, ...], said: Sequence[int], steps: Sequence[tuple[DraftTree, Verified]]
) -> None:
    """Write a recording: the steps' trees, from the last pending token on, one after the other."""
    roots = [tree.pending - 1 for tree, _ in steps]
    ids = [verified.top_ids_NK[root:] for root, (_, verified) in zip(roots, steps, strict=True)]  # type: ignore[index]
    logits = [verified.top_logits_NK[root:] for root, (_, verified) in zip(roots, steps, strict=True)]  # type: ignore[index]
    tokens = [token for root, (tree, _) in zip(roots, steps, strict=True) for token in tree.tokens[root:]]
    parents = [parent - root for root, (tree, _) in zip(roots, steps, strict=True) for parent in tree.parents[root:]]
    partial = path.with_suffix(".partial.npz")
    np.savez_compressed(
        partial,
        prompt=np.array(prompt, np.int32),
        out=np.array(said, np.int32),
        tokens=np.array(tokens, np.int32),
        parents=np.array(parents, np.int32),
        ids=np.concatenate(ids).astype(np.int32),
        logits=np.concatenate(logits).astype(np.float16),
        sizes=np.array([len(of_step) for of_step in ids], np.int32),
        emitted=np.array([len(verified.emitted) for _, verified in steps], np.int32),
    )
    partial.replace(path)


def _read(task: repoeval.FunctionTask, path: Path) -> RowTrace | None:
    """A recording; None where there is none, or a damaged one."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            parts = {name: stored[name] for name in stored.files if name != "finish"}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    trace = RowTrace(task, tuple(parts["prompt"].tolist()), tuple(parts["out"].tolist()), {}, {})
    start, position = 0, 0
    for size, emitted in zip(parts["sizes"].tolist(), parts["emitted"].tolist(), strict=True):
        end = start + size
        tokens, parents = parts["tokens"][start + 1 : end].tolist(), parts["parents"][start + 1 : end].tolist()
        draft = Draft(tuple(tokens), tuple(parent - 1 for parent in parents))
        for place, ids, logits in zip(
            trace.positions(draft, position), parts["ids"][start:end], parts["logits"][start:end], strict=True
        ):
            trace.ids[place], trace.logits[place] = ids.astype(np.int64), logits.astype(np.float32)
        start, position = end, position + emitted
    return trace
