"""The model's greedy answer to each task: recorded once by the real engine, kept, and resumed where it ended.

A recording belongs to a model, an engine and a prompt. A replay accepts a draft's path as far as it says what was
recorded, through the same tree building as the decoding loop. Drafters that learn from the model's rows (recycling,
auto) need more than text: every step of a `RowRecorder` verified 64 rows, of likely and unlikely tokens, and kept what
the model would have said after each.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from benchmarks.datasets import FunctionTask, TaskSet, body_prompt, function_end
from benchmarks.drafting import PAPER_TOKENS, TaskParts, TaskPin
from benchmarks.harness import KeptRows, decode_request
from fastcoder_lsp.core import Draft, DraftContext, DrafterTraits, DraftTree, Engine, Rewrite, Verified
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.decode.tree import Healing, build_tree
from fastcoder_lsp.draft.base import Drafter, NoDrafter
from fastcoder_lsp.draft.suffix import SuffixDrafter
from fastcoder_lsp.papers.fastcoder import PRODUCT, FastcoderDrafter
from fastcoder_lsp.papers.recycling import RecyclingDrafter, RecyclingParameters
from fastcoder_lsp.tokenizer import Tokenizer

Setting = Literal["product", "paper"]
"""`product`: the output ends with the function. `paper`: 512 tokens. An end-of-text token ends both."""

PRODUCT_TOKENS = 512
FORMAT = 1
ROWS = 64
TOP_K = 10


@dataclass(frozen=True, slots=True)
class Trace:
    """A prompt and what the model said: `tokens` up to the one that showed the end, an end-of-text token included."""

    task: FunctionTask
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]

    @property
    def text(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.prompt, self.tokens


class Recorder:
    """Recordings of one model, named by `identity`; `engine` makes one when it is first needed."""

    def __init__(
        self, tasks: TaskSet, tokenizer: Tokenizer, engine: Callable[[], Engine], identity: str, cache: Path
    ) -> None:
        self._tasks, self._tokenizer, self._make_engine = tasks, tokenizer, engine
        self._engine: Engine | None = None
        name = hashlib.sha256(f"{FORMAT} {identity} {tokenizer.identity}".encode()).hexdigest()[:16]
        self._kept = KeptRows(cache / "bench" / f"traces-{name}.jsonl")

    def trace(self, task: FunctionTask, setting: Setting) -> Trace:
        prompt = body_prompt(self._tokenizer, self._tasks.before(task))
        key = task.id + " " + hashlib.sha256(json.dumps(prompt).encode()).hexdigest()[:12]
        row = self._kept.rows.get(key, {"tokens": (), "ended": False})
        tokens = self._cut(tuple(row["tokens"]), setting, ended=row["ended"])
        if tokens is None:
            said, ended = self._record(prompt, tuple(row["tokens"]), setting)
            self._kept.put(key, tokens=said, ended=ended)
            tokens = self._cut(said, setting, ended=ended)
            assert tokens is not None
        return Trace(task, prompt, tokens)

    def _cut(self, said: tuple[int, ...], setting: Setting, *, ended: bool) -> tuple[int, ...] | None:
        """The tokens that `setting` takes of what was said; None for too few. `ended`: the model ended the text."""
        if setting == "paper":
            return said[:PAPER_TOKENS] if ended or len(said) >= PAPER_TOKENS else None
        end = product_end(said, self._tokenizer.piece)
        if end is not None:
            return said[:end]
        return said if ended or len(said) >= PRODUCT_TOKENS else None

    def _record(self, prompt: tuple[int, ...], said: tuple[int, ...], setting: Setting) -> tuple[tuple[int, ...], bool]:
        if self._engine is None:
            self._engine = self._make_engine()
        before = b"".join(map(self._tokenizer.piece, said)).decode("utf-8", errors="ignore")

        def cut(text: str) -> int | None:
            return function_end(before + text) if setting == "product" else None

        request = decode_request(self._tokenizer, (*prompt, *said), PAPER_TOKENS - len(said), cut=cut, nodes=8)
        result = decode(self._engine, SuffixDrafter(), request, lambda: False)
        # The token that ended the text is not told by the loop; which one it was makes no difference to a draft.
        ended = result.finish == "eos"
        end = (min(self._tokenizer.end_ids),) if ended else ()
        return (*said, *result.tokens, *end), ended


def record(parts: TaskParts, setting: Setting) -> list[Trace]:
    recorder = Recorder(parts.tasks, parts.tokenizer, parts.engine, parts.identity, parts.model.cache)
    traces = [recorder.trace(task, setting) for task in parts.in_file_order()]
    return [trace for trace in traces if trace.tokens]


def product_end(tokens: tuple[int, ...], piece: Callable[[int], bytes]) -> int | None:
    """How many tokens are said when the function is seen to end, the one that shows it included; None: not yet."""
    spelt = bytearray()
    for index, token in enumerate(tokens):
        spelt += piece(token)
        if function_end(spelt.decode("utf-8", errors="ignore")) is not None:
            return index + 1
    return None


HEALED = Healing(b"", lambda _: b"", lambda _: np.zeros(0, np.int64))
"""Nothing to spell: the prompts of tasks end at a line's end."""


@dataclass(frozen=True, slots=True)
class ReplayPass:
    """One forward pass of a replay: tokens that it gave and that were drafted, microseconds of propose and observe."""

    position: int
    emitted: int
    drafted: int
    us: float


def replay(
    drafter: Drafter,
    text: tuple[tuple[int, ...], tuple[int, ...]],
    nodes: int,
    document: str,
    vocabulary: int,
    rewrite: Rewrite | None = None,
) -> list[ReplayPass]:
    """Let `drafter` draft along a recorded prompt and answer; it keeps what it learnt for `document` afterwards.

    `nodes`: rows of one verification, the root included; `rewrite`: the old text that the answer repeats.
    """
    (prompt, said), position, steps = text, 0, []
    tokens = list(prompt)
    drafter.begin(DraftContext(tokens, len(prompt), document, rewrite=rewrite))
    while position < len(said):
        context = DraftContext(tokens, len(prompt), document, rewrite=rewrite)
        started = time.perf_counter_ns()
        draft = drafter.propose(context, nodes - 1)
        proposed = time.perf_counter_ns()
        tree = build_tree(tokens[-1:], draft, room=nodes - 1, vocabulary=vocabulary, healing=HEALED)
        verified = accept(tree, said[position:])
        observing = time.perf_counter_ns()
        drafter.observe(tree, verified)
        us = (time.perf_counter_ns() - observing + proposed - started) / 1e3
        steps.append(ReplayPass(position, len(verified.emitted), len(tree) - 1, us))
        tokens += verified.emitted
        position += len(verified.emitted)
    return steps


def accept(tree: DraftTree, truth: Sequence[int]) -> Verified:
    """The outcome of `tree` for an engine that says `truth`; the text's last token is never followed by another."""
    below, node, path = tree.children(), tree.pending - 1, []
    for token in truth[:-1]:
        child = below.get(node, {}).get(token)
        if child is None:
            break
        path.append(child)
        node = child
    return Verified(tuple(path), tuple(truth[: len(path) + 1]))


RowPosition = tuple[int, tuple[int, ...]]
"""Where a row stands: so many of the output's tokens, then tokens that were not said."""


@dataclass(frozen=True, slots=True)
class RowTrace:
    """A prompt, what the model said to the end of the function, and its best ids and logits at the rows it ran."""

    task: FunctionTask
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
        positions = self.positions(draft, position)
        parents = (-1, *(parent + 1 for parent in draft.parents))
        last = self.tokens[position - 1] if position else self.prompt[-1]
        tree = DraftTree((last, *draft.tokens), parents, 1, ("", *draft.sources), (0, *draft.matches))
        accepted = accept(tree, self.tokens[position:])
        none, zeros = np.full(TOP_K, -1, np.int64), np.zeros(TOP_K, np.float32)
        ids_NK = np.array([self.ids.get(place, none) for place in positions])
        logits_NK = np.array([self.logits.get(place, zeros) for place in positions])
        return tree, replace(accepted, top_ids_NK=ids_NK, top_logits_NK=logits_NK)


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

    def trace(self, task: FunctionTask) -> RowTrace | None:
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

    def _record(self, task: FunctionTask, path: Path) -> None:
        parts = self._parts
        if self._engine is None:
            self._engine = parts.engine()
        pin = TaskPin(parts.stores, task)
        drafter = _Wide(FastcoderDrafter(pin, parts.tokenizer.piece, PRODUCT))
        request = parts.request(task, PRODUCT_TOKENS, to_body_end=True, nodes=ROWS)
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
    ids, logits, tokens, parents = [], [], list[int](), list[int]()
    for tree, verified in steps:
        root = tree.pending - 1
        assert verified.top_ids_NK is not None
        assert verified.top_logits_NK is not None
        ids.append(verified.top_ids_NK[root:])
        logits.append(verified.top_logits_NK[root:])
        tokens += tree.tokens[root:]
        parents += [parent - root for parent in tree.parents[root:]]
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


def _read(task: FunctionTask, path: Path) -> RowTrace | None:
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
