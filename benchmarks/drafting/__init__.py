"""Drafters by name, tasks and a model to draft for with their datastores, a decode timed with and without a drafter.

The one door to the drafters' registry. D_r is a task's repository without the target's body, D_c the standard library,
built in memory too and its tokens kept between runs, or corpora by name. Neither is written into a user's index. Times
are without the prefill.
"""

import statistics
import sysconfig
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from benchmarks.datasets import FunctionTask, TaskSet, body_prompt, function_end, load_functions, require, spread
from benchmarks.harness import NODES, Reported, decode_request, percentiles
from benchmarks.product import SmallerModels, smaller_models
from fastcoder_lsp.bench.model import BenchModel, find_model
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.config.table import ENGINES
from fastcoder_lsp.core import Draft, DraftContext, DraftTree, Engine, StepCosts, Verified
from fastcoder_lsp.decode.loop import DecodeRequest, Decoding
from fastcoder_lsp.decode.tree import GuardedDrafter
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.base import Drafter, Pin, Pinned, Trained, load_trained
from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape, table_of
from fastcoder_lsp.draft.matching import GAP
from fastcoder_lsp.draft.registry import DrafterParts, make, require_smaller, require_tuned, specifications, warm_up
from fastcoder_lsp.engine.int8.linear import packed_linear
from fastcoder_lsp.index.corpus import Corpora
from fastcoder_lsp.index.part import FileRecord, IndexedFile, Part, Tokens32, build_part, liveness
from fastcoder_lsp.index.searcher import LivePart, Searcher, StoreSnapshot
from fastcoder_lsp.model import skip_sets
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.tokenizer import Tokenizer

__all__ = ["DrafterParts", "make", "require_smaller", "require_tuned", "warm_up"]

LONG_ENOUGH = 48
"""Tokens: shorter tasks say little about the worst case."""
ABLATION: Mapping[str, str] = {
    "fastcoder-paper:repository=false,skip=false,missing=false,cache=false": "REST with D_c",
    "fastcoder-paper:skip=false,missing=false,cache=false": "+ D_r",
    "fastcoder-paper:cache=false": "+ skip token, missing table",
    "fastcoder-paper": "fastcoder-paper (+ CACHE)",
}
"""The steps of the FastCoder paper's ablation, and what it calls them; the last one is the whole method."""


def drafter_names(text: str) -> list[str]:
    """Drafters by `,`; a part that holds no name but `key=value` belongs to the drafter before it.

    `ablation` stands for the drafters of `ABLATION`.
    """
    names: list[str] = []
    for part in text.split(","):
        if part == "ablation":
            names += ABLATION
        elif names and "=" in part and ":" not in part:
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names


def corpus_names(text: str | None) -> list[str] | None:
    """Corpora by `,`; `none` names no corpus; None stands for the standard library."""
    return None if text is None else [name for name in text.split(",") if name != "none"]


def all_names(trained: Trained, smaller: int = 0) -> list[str]:
    """Every drafter that can draft on a model tuned for `trained`, with so many smaller ones."""
    able = {
        name: known
        for name, known in specifications().items()
        if (smaller or not known.smaller) and not known.own_weights  # their folders have to be named
    }
    return [name for name, known in able.items() if trained.suits(known.tuned_by)]


def label(name: str) -> str:
    return ABLATION.get(name, name)


@dataclass(frozen=True, slots=True)
class Run:
    """One decode of one task; `steps`, `ms` and `cpu_ms` (all threads) are after the prefill; `draft_us`: by step."""

    tokens: tuple[int, ...]
    emitted: int
    steps: int
    ms: float
    cpu_ms: float
    draft_us: tuple[float, ...]
    prefill_ms: float


@dataclass(frozen=True, slots=True)
class Pair:
    task: str
    plain: Run
    drafted: Run

    @property
    def speedup(self) -> float:
        return self.plain.ms / self.drafted.ms


def run_once(engine: Engine, drafter: Drafter, request: DecodeRequest) -> Run:
    timed = Stopwatch(drafter)
    decoding, begun = Decoding(engine, timed, request, Spans()), time.perf_counter()
    done = decoding.prefill(lambda: False)
    assert done
    started, cpu = time.perf_counter(), time.process_time()
    while decoding.step():
        pass
    ms, cpu_ms = (time.perf_counter() - started) * 1e3, (time.process_time() - cpu) * 1e3
    result = decoding.result()
    emitted, prefill_ms = len(result.tokens) + (result.finish == "eos"), (started - begun) * 1e3
    return Run(result.tokens, emitted, result.counts.steps, ms, cpu_ms, tuple(timed.us), prefill_ms)


def figures(pairs: Sequence[Pair]) -> dict[str, Any]:
    tokens = sum(pair.drafted.emitted for pair in pairs)
    drafted_ms, plain_ms = sum(pair.drafted.ms for pair in pairs), sum(pair.plain.ms for pair in pairs)
    by_task: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_task[pair.task].append(pair)
    medians = {
        task: statistics.median(pair.speedup for pair in of_task)
        for task, of_task in by_task.items()
        if of_task[0].plain.emitted >= LONG_ENOUGH
    }
    worst = min(medians, key=lambda task: medians[task], default=None)
    us = [us for pair in pairs for us in pair.drafted.draft_us]
    return {
        "ms_per_token": drafted_ms / tokens,
        "plain_ms_per_token": plain_ms / tokens,
        "speedup": plain_ms / drafted_ms,
        "cpu_ms_per_token": sum(pair.drafted.cpu_ms for pair in pairs) / tokens,
        "mat": tokens / sum(pair.drafted.steps for pair in pairs),
        "identical": all(pair.plain.tokens == pair.drafted.tokens for pair in pairs),
        "worst_speedup": medians[worst] if worst else None,
        "worst_task": worst,
        "draft_us": percentiles(us, 50, 99) if us else None,
    }


class ObservedDrafter(GuardedDrafter):
    """A drafter whose drafts and outcomes are passed on unchanged, for a subclass to listen to."""

    def __init__(self, drafter: Drafter) -> None:
        super().__init__(drafter)
        self.traits = replace(drafter.traits, late=False)  # a subclass would hear of a late outcome in another step


class Stopwatch(ObservedDrafter):
    """Times `propose` and `observe` of a drafter; `us` holds the sum of both for each step, in microseconds."""

    def __init__(self, drafter: Drafter) -> None:
        super().__init__(drafter)
        self.us: list[float] = []

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        started = time.perf_counter_ns()
        draft = super().propose(context, nodes)
        self.us.append((time.perf_counter_ns() - started) / 1e3)
        return draft

    @override
    def observe(self, tree: DraftTree, verified: Verified) -> None:
        started = time.perf_counter_ns()
        super().observe(tree, verified)
        self.us[-1] += (time.perf_counter_ns() - started) / 1e3


CONTEXT = 2048
PAPER_TOKENS = 512
LEAKAGE = "the target's body is in no index and no prompt"
"""A line of each report."""
REPLAYED = "lookup,suffix,rest,fastcoder,fastcoder-paper,cacheback"
"""Drafters that can be replayed over recorded text."""
NOT_COMMON = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions(Reported):
    tasks: Path | None = option("tasks.jsonl and repos.tar.gz (default: RepoEval)", None, metavar="DIR")
    limit: int | None = option("take N tasks, evenly spread over all", None, metavar="N")
    model: str = option("as the setting `model`", "auto")
    engine: str = option("as the setting `engine`", "cpu-int8", choices=ENGINES)
    strict: bool = option("as the setting `gpu.strict`", False)
    free: bool = option("without the setting `llama.strict`", False)
    draft_model: list[str] = option(
        "a smaller model, for drafters that draft by one; may be given several times", [], metavar="NAME"
    )
    corpora: str | None = option(
        "corpora that are D_c, by `,`, or `none`; they must hold no task's file (default: the standard library)",
        None,
        metavar="NAMES",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftOptions(TaskOptions):
    setting: Literal["product", "paper"] = option("end of the output", "product")
    nodes: int | None = option("rows of one verification", 64, metavar="N")
    cache: Literal["cold", "warm"] = option("caches at a task's start", "cold")
    drafters: str = option("names, with parameters after a colon; `ablation`: the paper's", REPLAYED, metavar="NAMES")


class TaskStores:
    """D_r of any task and D_c: `corpora`, or the standard library, whose tokens are kept in the folder `cache`."""

    def __init__(self, tokenizer: Tokenizer, tasks: TaskSet, cache: Path, corpora: Sequence[str] | None = None) -> None:
        self._tokenizer, self._tasks, self._cache, self._corpora = tokenizer, tasks, cache, corpora
        self._repositories: dict[str, Part] = {}
        self._frozen: dict[TableShape, FrozenTable | None] = {}
        self._pinned: tuple[str, Pinned] = ("", Pinned())

    def pin(self, task: FunctionTask) -> Pinned:
        """D_r without the task's body, and D_c."""
        if self._pinned[0] != task.id:
            self._pinned = task.id, replace(self.common(), repository=self._repository(task))
        return self._pinned[1]

    def common(self) -> Pinned:
        """D_c without a repository."""
        return Pinned(None, Searcher(self._common) if self._common else None, (0,), self.frozen)

    def frozen(self, shape: TableShape) -> FrozenTable | None:
        if shape not in self._frozen:
            self._frozen[shape] = table_of(self._common, self._cache / "bench", self._tokenizer.identity, shape)
        return self._frozen[shape]

    def corpus_tokens(self) -> int:
        return sum(len(entry.part.tokens_N) for snapshot in self._common for entry in snapshot.parts)

    def _repository(self, task: FunctionTask) -> Searcher:
        part = self._repositories.get(task.repo)
        if part is None:
            part = self._repositories[task.repo] = self._build(self._tasks.files[task.repo])
        target = next(i for i, record in enumerate(part.records) if record.key == task.path)
        live = liveness(part.order_M, part.starts, [target])
        edited = self._build({task.path: self._tasks.without_body(task)})
        return Searcher(
            [
                StoreSnapshot((LivePart(edited, frozenset(), None, recent=True),), 1),
                StoreSnapshot((LivePart(part, frozenset({target}), live, recent=False),), 1),
            ],
            prefer=task.path,
        )

    def _build(self, files: Mapping[str, str]) -> Part:
        tokens = self._tokenizer.encode_many(list(files.values()))
        return build_part(
            [IndexedFile(FileRecord(key, ""), np.array(ids, np.int32)) for key, ids in zip(files, tokens, strict=True)]
        )

    @cached_property
    def _common(self) -> tuple[StoreSnapshot, ...]:
        if self._corpora is None:
            return (StoreSnapshot((LivePart(self._library(), frozenset(), None, recent=False),), 1),)
        built = Corpora(self._cache)
        return tuple(built.open(name, self._tokenizer.identity).pin() for name in self._corpora)

    def _library(self) -> Part:
        """The standard library, tokenised once; later runs read its tokens."""
        name = f"stdlib-{sysconfig.get_python_version()}-{self._tokenizer.identity}.npy"
        path = self._cache / "bench" / name
        if path.exists():
            tokens_N: Tokens32 = np.load(path, allow_pickle=False)
        else:
            texts = [file.read_text(encoding="utf-8", errors="replace") for file in corpus_files()]
            encoded = self._tokenizer.encode_many(texts)
            tokens_N = np.concatenate([np.array([*ids, GAP], np.int32) for ids in encoded])
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, tokens_N)
        ends = np.flatnonzero(tokens_N == GAP)
        pieces = np.split(tokens_N, ends + 1)[:-1]
        return build_part([IndexedFile(FileRecord(str(i), ""), piece[:-1]) for i, piece in enumerate(pieces)])


@dataclass(frozen=True, slots=True)
class TaskParts:
    """Tasks and a model; `engine` makes one, `identity` names model and engine, `smaller` models draft for it."""

    tasks: TaskSet
    chosen: tuple[FunctionTask, ...]
    model: BenchModel
    stores: TaskStores
    engine: Callable[[], Engine]
    identity: str
    trained: Trained
    smaller: SmallerModels

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.tokenizer

    def in_file_order(self) -> list[FunctionTask]:
        return sorted(self.chosen, key=lambda task: (task.repo, task.path, task.start))

    def drafter_parts(self, pin: Pin, costs: StepCosts | None = None) -> DrafterParts:
        """The parts of drafters for the tasks that `pin` names; with `costs`, `auto` chooses its width by them."""
        found = skip_sets.kept(self.model.cache, self.model.files.digest)
        return DrafterParts(
            pin,
            self.tokenizer.piece,
            costs,
            trained=self.trained,
            smaller=self.lend,
            skipped=found.skipped,
            linear=partial(packed_linear, kernels=kernels_folder()),
            skipped_speed=found.speed,
        )

    def lend(self) -> Sequence[Slots]:
        return self.smaller.of("")

    def require(self, names: Sequence[str]) -> None:
        """Raise UsageError for a drafter that cannot draft on this model, with these smaller ones."""
        for name in names:
            require_tuned(name, self.trained)
            require_smaller(name, len(self.smaller))

    def request(
        self, task: FunctionTask, max_tokens: int, *, to_body_end: bool, document: str = "", nodes: int = NODES
    ) -> DecodeRequest:
        return decode_request(
            self.tokenizer,
            body_prompt(self.tokenizer, self.tasks.before(task)),
            max_tokens,
            cut=function_end if to_body_end else None,
            document=document,
            nodes=nodes,
        )


@dataclass(slots=True)
class TaskPin:
    """Pins the datastores of `task`, whichever it is just then: drafters outlive a task."""

    stores: TaskStores
    task: FunctionTask

    def __call__(self, _document: str) -> Pinned:
        return self.stores.pin(self.task)


def document_of(task: FunctionTask, *, warm: bool) -> str:
    """The URI that drafters keep their caches under: warm, of the task's file; cold, of the task alone."""
    return f"file:///{task.repo}/{task.path}" if warm else f"task:{task.id}"


def load_parts(options: TaskOptions) -> TaskParts:
    """Put the parts together; no engine is loaded yet. Raises FastcoderError where model or tasks are missing."""
    found = find_model(options.model)
    read = load_functions(options.tasks or require("repoeval"))
    return TaskParts(
        tasks=read,
        chosen=spread(read.tasks, options.limit),
        model=found,
        stores=TaskStores(found.tokenizer, read, found.cache, corpus_names(options.corpora)),
        engine=lambda: found.engine(options.engine, CONTEXT, strict=options.strict, free=options.free),
        identity=f"{found.files.digest} {options.engine}",
        trained=load_trained(found.files.folder, found.files.digest),
        smaller=smaller_models(options.draft_model, found, options.engine, CONTEXT),
    )


def corpus_files() -> Iterator[Path]:
    """The files of D_c, on which docs/benchmarks.md was measured; a user's datastore leaves out more of them."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if not NOT_COMMON.intersection(path.relative_to(root).parts):
            yield path
