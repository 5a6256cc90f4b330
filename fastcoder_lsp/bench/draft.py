"""`bench draft`: drafters replayed over what the model said, without the model.

Records greedy traces once (`traces`), replays every drafter that can be replayed (`replay`), and reports how many
tokens a forward pass would have given (MAT) and what a draft costs. D_c is the standard library alone; the target's
body is in no index and no prompt.
"""

import argparse
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fastcoder_lsp.bench import repoeval
from fastcoder_lsp.bench.heatmap import blank_share, draw, retrieved_share
from fastcoder_lsp.bench.parts import BenchParts, load_parts
from fastcoder_lsp.bench.replay import Step, replay
from fastcoder_lsp.bench.report import print_table, write_json
from fastcoder_lsp.bench.traces import Recorder, Trace
from fastcoder_lsp.core import Drafter
from fastcoder_lsp.draft.fastcoder import FastcoderDrafter
from fastcoder_lsp.draft.registry import DrafterParts, make
from fastcoder_lsp.draft.store import Pinned
from fastcoder_lsp.observe import percentile

ABLATION: Mapping[str, str] = {
    "fastcoder-paper:repository=false,skip=false,missing=false,cache=false": "REST with D_c",
    "fastcoder-paper:skip=false,missing=false,cache=false": "+ D_r",
    "fastcoder-paper:cache=false": "+ skip token, missing table",
    "fastcoder-paper": "fastcoder-paper (+ CACHE)",
}
"""The steps of the FastCoder paper's ablation, and what it calls them; the last one is the whole method."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "ablation": tuple(ABLATION),
    "sweep-fastcoder": (
        "fastcoder-paper",
        *(f"fastcoder-paper:cache_minimum={l}" for l in (1, 10, 25, 100, 200)),
        *(f"fastcoder-paper:skip_probability={p}" for p in (0.0, 0.25, 0.75, 1.0)),
        *(f"fastcoder-paper:repository_weight={weight}" for weight in (0.25, 4.0, 16.0)),
        *(f"fastcoder-paper:n_max={n}" for n in (2, 4, 8, 32)),
        *(f"fastcoder-paper:max_hits={hits}" for hits in (16, 256)),
        "fastcoder-paper:skip_reading=next",
    ),
    "sweep-cacheback": (
        "cacheback",
        *(f"cacheback:leader_length={length}" for length in (2, 3)),
        *(f"cacheback:follower_length={length}" for length in (1, 2, 4, 6)),
        *(f"cacheback:follower_capacity={capacity}" for capacity in (8, 32, 512)),
        *(f"cacheback:continuation_reserve={reserve}" for reserve in (0, 32, 64)),
        "cacheback-dynamic",
        "cacheback-frozen",
    ),
}
"""Names that stand for several drafters: the paper's ablation, and parameters swept one at a time."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One drafter's replay: the steps of each task."""

    drafter: Drafter
    steps: Mapping[str, Sequence[Step]]

    def mat(self, tasks: Sequence[str] | None = None) -> float:
        """Tokens over passes, pooled over `tasks`; all by default."""
        chosen = [self.steps[task] for task in (tasks if tasks is not None else self.steps)]
        passes = sum(map(len, chosen))
        return sum(step.emitted for steps in chosen for step in steps) / passes if passes else 0.0

    def figures(self) -> dict[str, Any]:
        """The figures of the report."""
        each = [sum(step.emitted for step in steps) / len(steps) for steps in self.steps.values()]
        every = [step for steps in self.steps.values() for step in steps]
        us = [step.us for step in every]
        accepted = Counter(source for step in every for source in step.sources)
        figures: dict[str, Any] = {
            "mat": self.mat(),
            "mat_mean": statistics.mean(each),
            "mat_median": statistics.median(each),
            "draft_us": {"p50": percentile(us, 0.5), "p99": percentile(us, 0.99)},
            "drafted": sum(step.drafted > 0 for step in every) / len(every),
            "hit": sum(step.emitted > 1 for step in every) / len(every),
            "nodes_mean": statistics.mean(step.drafted for step in every),
            "accepted_by_source": dict(accepted.most_common()),
        }
        if isinstance(self.drafter, FastcoderDrafter):
            counts = self.drafter.counts
            figures["retrievals"] = asdict(counts) | {"saved": counts.saved(), "from_cache": counts.from_cache()}
        return figures


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    parts = load_parts(arguments)
    traces = record(parts, arguments.setting)
    names = drafter_names(arguments.drafters)
    warm = arguments.cache == "warm"
    done = {name: replay_all(name, parts, traces, arguments.nodes, warm=warm) for name in names}
    results = {name: replayed.figures() for name, replayed in done.items()}
    if warm:
        later = not_alone(traces)
        for name, replayed in done.items():
            results[name]["mat_with_predecessor"] = replayed.mat([task.id for task in later])
    counted = f", {len(not_alone(traces))} of them after another of their file" if warm else ""
    print_table(
        f"{len(traces)} tasks{counted}, {sum(len(trace.tokens) for trace in traces)} tokens, {arguments.setting}, "
        f"{arguments.nodes} nodes, {arguments.cache}",
        ("drafter", "MAT", "mean", "median", "p50 µs", "p99 µs", "drafted", "hit"),
        [
            (label(name), r["mat"], r["mat_mean"], r["mat_median"], *r["draft_us"].values(), r["drafted"], r["hit"])
            for name, r in results.items()
        ],
    )
    if retrievals := {name: r["retrievals"] for name, r in results.items() if "retrievals" in r}:
        print_table(
            "Retrievals: the share spared by skip tokens and missing table, and answered by the CACHE",
            ("drafter", "retrievals", "spared", "CACHE", "most sequences"),
            [(label(name), r["asked"], r["saved"], r["from_cache"], r["sequences"]) for name, r in retrievals.items()],
        )
    if arguments.heatmap:
        piece = parts.tokenizer.piece
        shares = {label(name): retrieved_share(traces, replayed.steps, piece) for name, replayed in done.items()}
        draw({"white space": blank_share(traces, piece)} | shares, arguments.heatmap)
    if arguments.json:
        settings = {
            "model": parts.model,
            "engine": arguments.engine,
            "prompt_tokens": repoeval.PROMPT_TOKENS,
            "corpus_tokens": parts.stores.corpus_tokens(),
            "tasks": [trace.task.id for trace in traces],
            "leakage": "the target's body is in no index and no prompt",
        }
        head = {"setting": arguments.setting, "nodes": arguments.nodes, "cache": arguments.cache}
        warmed = {"tasks_with_predecessor": len(not_alone(traces)), "tasks_alone": alone(traces)} if warm else {}
        write_json(arguments.json, "draft", settings, head | warmed | {"drafters": results})
    return 0


def record(parts: BenchParts, setting: str) -> list[Trace]:
    """The traces of the chosen tasks, in the order of their files; what is not recorded yet is recorded now."""
    recorder = Recorder(parts.tasks, parts.tokenizer, parts.engine, parts.identity, parts.cache)
    assert setting in {"product", "paper"}
    ordered = sorted(parts.chosen, key=lambda task: (task.repo, task.path, task.start))
    traces = [recorder.trace(task, "paper" if setting == "paper" else "product") for task in ordered]
    return [trace for trace in traces if trace.tokens]


def replay_all(name: str, parts: BenchParts, traces: Sequence[Trace], nodes: int, *, warm: bool) -> Replayed:
    """Replay one drafter over all traces; cold: each task is a document of its own."""
    task = traces[0].task

    def pin(_document: str) -> Pinned:
        return parts.stores.pin(task)

    given = DrafterParts(pin, parts.tokenizer.piece)
    drafter = make(name, given)
    vocabulary = parts.tokenizer.vocabulary
    # The first replay compiles; it is not counted, and its document is kept by nobody.
    replay(make(name, given), traces[0], nodes, "", vocabulary)
    steps = {}
    for trace in traces:
        task = trace.task
        document = f"file:///{task.repo}/{task.path}" if warm else f"task:{task.id}"
        steps[task.id] = replay(drafter, trace, nodes, document, vocabulary)
        if not warm:
            drafter.forget(document)
    return Replayed(drafter, steps)


def not_alone(traces: Sequence[Trace]) -> list[repoeval.Task]:
    """The tasks that have an earlier one in their file: those for which warm differs from cold."""
    seen: set[tuple[str, str]] = set()
    later = []
    for trace in traces:
        place = trace.task.repo, trace.task.path
        if place in seen:
            later.append(trace.task)
        seen.add(place)
    return later


def alone(traces: Sequence[Trace]) -> int:
    """How many tasks are the only one of their file: warm is cold for them."""
    files = Counter((trace.task.repo, trace.task.path) for trace in traces)
    return sum(count == 1 for count in files.values())


def label(name: str) -> str:
    """What tables call a drafter."""
    return ABLATION.get(name, name)


def drafter_names(text: str) -> list[str]:
    """Drafters by `,`; a part that holds no name but `key=value` belongs to the drafter before it.

    A name of `GROUPS` stands for the drafters in it.
    """
    names: list[str] = []
    for part in text.split(","):
        if part in GROUPS:
            names += GROUPS[part]
        elif names and "=" in part and ":" not in part:
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names
