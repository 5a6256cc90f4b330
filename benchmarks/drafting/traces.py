"""The model's greedy answer to each task: recorded once by the real engine, kept, and resumed where it ended.

A recording belongs to a model, an engine and a prompt: with another of these it is another one. A replay accepts a
draft's path as far as it says what was recorded, through the same tree building as the decoding loop.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from benchmarks.datasets import repoeval
from benchmarks.drafting.tasks import PAPER_TOKENS, TaskParts
from benchmarks.harness import KeptRows, decode_request
from fastcoder_lsp.core import DraftContext, DraftTree, Engine, Rewrite, Verified
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.decode.tree import Healing, build_tree
from fastcoder_lsp.draft.base import Drafter
from fastcoder_lsp.draft.suffix import SuffixDrafter
from fastcoder_lsp.tokenizer import Tokenizer

Setting = Literal["product", "paper"]
"""`product`: the output ends with the function. `paper`: 512 tokens. An end-of-text token ends both."""

PRODUCT_TOKENS = 512
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Trace:
    """A prompt and what the model said: `tokens` up to the one that showed the end, an end-of-text token included."""

    task: repoeval.FunctionTask
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]


class ReplayedText(Protocol):
    """A prompt and what was said after it."""

    @property
    def prompt(self) -> tuple[int, ...]:
        """Its tokens."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens of what was said."""


class Recorder:
    """Recordings of one model.

    Args:
        engine: makes an engine when one is first needed.
        identity: names model and engine.
    """

    def __init__(
        self,
        tasks: repoeval.TaskSet,
        tokenizer: Tokenizer,
        engine: Callable[[], Engine],
        identity: str,
        cache: Path,
    ) -> None:
        self._tasks, self._tokenizer, self._make_engine = tasks, tokenizer, engine
        self._engine: Engine | None = None
        name = hashlib.sha256(f"{FORMAT} {identity} {tokenizer.identity}".encode()).hexdigest()[:16]
        self._kept = KeptRows(cache / "bench" / f"traces-{name}.jsonl")

    def trace(self, task: repoeval.FunctionTask, setting: Setting) -> Trace:
        """The recording of a task; what is missing of it is recorded now."""
        prompt = repoeval.prompt(self._tokenizer, self._tasks.before(task))
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
        """Let the model go on behind `said`: all tokens, and whether it ended. The drafter only makes it quicker."""
        if self._engine is None:
            self._engine = self._make_engine()
        before = b"".join(map(self._tokenizer.piece, said)).decode("utf-8", errors="ignore")

        def cut(text: str) -> int | None:
            return repoeval.function_end(before + text) if setting == "product" else None

        result = decode(
            self._engine,
            SuffixDrafter(),
            decode_request(self._tokenizer, (*prompt, *said), PAPER_TOKENS - len(said), cut=cut, nodes=8),
            lambda: False,
        )
        # The token that ended the text is not told by the loop; which one it was makes no difference to a draft.
        ended = result.finish == "eos"
        end = (min(self._tokenizer.end_ids),) if ended else ()
        return (*said, *result.tokens, *end), ended


def record(parts: TaskParts, setting: Setting) -> list[Trace]:
    """The traces of the chosen tasks, in the order of their files; what is not recorded yet is recorded now."""
    recorder = Recorder(parts.tasks, parts.tokenizer, parts.engine, parts.identity, parts.model.cache)
    traces = [recorder.trace(task, setting) for task in parts.in_file_order()]
    return [trace for trace in traces if trace.tokens]


def product_end(tokens: tuple[int, ...], piece: Callable[[int], bytes]) -> int | None:
    """How many tokens are said when the function is seen to end, the one that shows it included; None: not yet."""
    spelt = bytearray()
    for index, token in enumerate(tokens):
        spelt += piece(token)
        if repoeval.function_end(spelt.decode("utf-8", errors="ignore")) is not None:
            return index + 1
    return None


HEALED = Healing(b"", lambda _: b"", lambda _: np.zeros(0, np.int64))
"""Nothing to spell: the prompts of tasks end at a line's end."""


@dataclass(frozen=True, slots=True)
class ReplayPass:
    """One forward pass of a replay.

    Attributes:
        emitted: tokens that it gave.
        us: microseconds of propose and observe.
    """

    position: int
    emitted: int
    drafted: int
    us: float
    sources: tuple[str, ...]
    matches: tuple[int, ...]


def replay(
    drafter: Drafter, trace: ReplayedText, nodes: int, document: str, vocabulary: int, rewrite: Rewrite | None = None
) -> list[ReplayPass]:
    """Let `drafter` draft along a recording.

    Args:
        drafter: keeps what it learnt for `document` afterwards.
        trace: the recording.
        nodes: rows of one verification, the root included.
        document: the URI that the drafter keeps its caches under.
        vocabulary: ids from 0 up to this one exist.
        rewrite: the old text that the output repeats, if it does.
    """
    said, position, steps = trace.tokens, 0, []
    tokens = list(trace.prompt)
    drafter.begin(DraftContext(tokens, len(trace.prompt), document, rewrite=rewrite))
    while position < len(said):
        context = DraftContext(tokens, len(trace.prompt), document, rewrite=rewrite)
        started = time.perf_counter_ns()
        draft = drafter.propose(context, nodes - 1)
        proposed = time.perf_counter_ns()
        tree = build_tree(tokens[-1:], draft, room=nodes - 1, vocabulary=vocabulary, healing=HEALED)
        verified = accept(tree, said[position:])
        observing = time.perf_counter_ns()
        drafter.observe(tree, verified)
        us = (time.perf_counter_ns() - observing + proposed - started) / 1e3
        sources = tuple(tree.sources[node] for node in verified.path)
        matches = tuple(tree.matches[node] for node in verified.path)
        steps.append(ReplayPass(position, len(verified.emitted), len(tree) - 1, us, sources, matches))
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
