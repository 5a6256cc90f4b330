"""`bench draft`: drafters replayed over what the model said, without the model.

What the model says to each task is recorded once (`drafting.traces`).
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.datasets import PROMPT_TOKENS, FunctionTask
from benchmarks.drafting import (
    LEAKAGE,
    DrafterParts,
    DraftOptions,
    TaskParts,
    TaskPin,
    document_of,
    drafter_names,
    label,
    load_parts,
    make,
)
from benchmarks.drafting.traces import ReplayPass, Trace, record, replay
from benchmarks.harness import percentiles, write
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.draft.base import Drafter
from fastcoder_lsp.model.machine import require_packages

EXAMPLE = "draft --nodes 16 --drafters fastcoder,cacheback:follower_length=4"
COLUMNS, LINES = 13, 16
"""The heat map's size: token indexes 0–12, as in the paper, and the first lines of the output."""
Shares = npt.NDArray[np.float64]
"""[LINES, COLUMNS], NaN where no token ever stood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(DraftOptions):
    """Record what the model says to each task once, then replay drafters over it.

    Nodes are rows verified in one pass, the root included. Warm: tasks in the order of their file, the caches keep what
    the earlier ones left. The target's body is in no index of ours and no prompt.
    """

    nodes: int = option("rows of one verification", 64, metavar="N")
    others: bool = option("also replay each repository's tasks after those of all other repositories", False)
    heatmap: Path | None = option("draw where retrieval succeeds into FILE (SVG)", None, metavar="FILE")


def run(options: Options) -> int:
    if options.heatmap:
        require_packages("a picture", "matplotlib")
    parts = load_parts(options)
    names = drafter_names(options.drafters)
    parts.require(names)
    traces = record(parts, options.setting)
    warm = options.cache == "warm"
    done = {name: replay_all(name, parts, traces, options.nodes, warm=warm) for name in names}
    results = {name: replayed.figures() for name, replayed in done.items()}
    if options.others:
        for name in names:
            results[name]["after_others"] = after_others(name, parts, traces, options.nodes)
    if warm:
        later = not_alone(traces)
        for name, replayed in done.items():
            results[name]["mat_with_predecessor"] = replayed.mat([task.id for task in later])
    _print(traces, options, results)
    if options.heatmap:
        piece = parts.tokenizer.piece
        shares = {label(name): retrieved_share(traces, replayed.steps, piece) for name, replayed in done.items()}
        draw({"white space": blank_share(traces, piece)} | shares, options.heatmap)
    write(
        options,
        "draft",
        {"drafters": results} | ({"tasks_with_predecessor": len(not_alone(traces))} if warm else {}),
        model=parts.model.files.name,
        prompt_tokens=PROMPT_TOKENS,
        corpus_tokens=parts.stores.corpus_tokens(),
        tasks=[trace.task.id for trace in traces],
        leakage=LEAKAGE,
    )
    return 0


def _print(traces: Sequence[Trace], options: Options, results: Mapping[str, Any]) -> None:
    counted = f", {len(not_alone(traces))} of them after another of their file" if options.cache == "warm" else ""
    print_table(
        f"{len(traces)} tasks{counted}, {sum(len(trace.tokens) for trace in traces)} tokens, {options.setting}, "
        f"{options.nodes} nodes, {options.cache}",
        ("drafter", "MAT", "mean", "median", "p50 µs", "p99 µs", "drafted", "hit"),
        [
            (label(name), r["mat"], r["mat_mean"], r["mat_median"], *r["draft_us"].values(), r["drafted"], r["hit"])
            for name, r in results.items()
        ],
    )
    if options.others:
        print_table(
            "MAT with a fresh drafter for each task, and with one that has drafted for all other repositories",
            ("drafter", "fresh", "after others", "share"),
            [(label(name), *r["after_others"].values()) for name, r in results.items()],
        )
    if retrievals := {name: r["retrievals"] for name, r in results.items() if "retrievals" in r}:
        print_table(
            "Retrievals: the share spared by skip tokens and missing table, and answered by the CACHE",
            ("drafter", "retrievals", "spared", "CACHE", "most sequences"),
            [(label(name), r["asked"], r["saved"], r["from_cache"], r["sequences"]) for name, r in retrievals.items()],
        )


@dataclass(frozen=True, slots=True)
class Replayed:
    drafter: Drafter
    steps: Mapping[str, Sequence[ReplayPass]]

    def mat(self, tasks: Sequence[str] | None = None) -> float:
        chosen = [self.steps[task] for task in (tasks if tasks is not None else self.steps)]
        passes = sum(map(len, chosen))
        return sum(step.emitted for steps in chosen for step in steps) / passes if passes else 0.0

    def figures(self) -> dict[str, Any]:
        each = [sum(step.emitted for step in steps) / len(steps) for steps in self.steps.values()]
        every = [step for steps in self.steps.values() for step in steps]
        figures: dict[str, Any] = {
            "mat": self.mat(),
            "mat_mean": statistics.mean(each),
            "mat_median": statistics.median(each),
            "draft_us": percentiles([step.us for step in every], 50, 99),
            "drafted": sum(step.drafted > 0 for step in every) / len(every),
            "hit": sum(step.emitted > 1 for step in every) / len(every),
        }
        if "asked" in (counted := self.drafter.figures()):
            figures["retrievals"] = counted
        return figures


def replay_all(name: str, parts: TaskParts, traces: Sequence[Trace], nodes: int, *, warm: bool) -> Replayed:
    """Replay one drafter over all traces; cold: each task is a document of its own."""
    pin = TaskPin(parts.stores, traces[0].task)
    given = DrafterParts(pin, parts.tokenizer.piece, smaller=parts.lend)
    drafter = make(name, given)
    vocabulary = parts.tokenizer.vocabulary
    # The first replay compiles: it has a drafter of its own and is not counted.
    replay(make(name, given), traces[0].text, nodes, "", vocabulary)
    steps = {}
    for trace in traces:
        task = pin.task = trace.task
        document = document_of(task, warm=warm)
        steps[task.id] = replay(drafter, trace.text, nodes, document, vocabulary)
        if not warm:
            drafter.forget(document)
    return Replayed(drafter, steps)


def after_others(name: str, parts: TaskParts, traces: Sequence[Trace], nodes: int) -> dict[str, float]:
    """MAT over all tasks, fresh and after unrelated ones, each task a document of its own."""
    pin = TaskPin(parts.stores, traces[0].task)
    given, vocabulary = DrafterParts(pin, parts.tokenizer.piece, smaller=parts.lend), parts.tokenizer.vocabulary

    def passes(drafter: Drafter, some: Iterable[Trace]) -> int:
        count = 0
        for trace in some:
            pin.task = trace.task
            count += len(replay(drafter, trace.text, nodes, document_of(trace.task, warm=False), vocabulary))
        return count

    fresh = sum(passes(make(name, given), [trace]) for trace in traces)
    after = 0
    for repo in sorted({trace.task.repo for trace in traces}):
        drafter = make(name, given)
        passes(drafter, (trace for trace in traces if trace.task.repo != repo))
        after += passes(drafter, (trace for trace in traces if trace.task.repo == repo))
    tokens = sum(len(trace.tokens) for trace in traces)
    return {"fresh": tokens / fresh, "after": tokens / after, "share": fresh / after}


def not_alone(traces: Sequence[Trace]) -> list[FunctionTask]:
    """The tasks that have an earlier one in their file: those for which warm differs from cold."""
    seen: set[tuple[str, str]] = set()
    later = []
    for trace in traces:
        place = trace.task.repo, trace.task.path
        if place in seen:
            later.append(trace.task)
        seen.add(place)
    return later


def positions(tokens: Iterable[int], piece: Callable[[int], bytes]) -> list[tuple[int, int]]:
    """(line, index in the line) of each token; a token with a line end in it closes its line."""
    found, line, index = [], 0, 0
    for token in tokens:
        found.append((line, index))
        ends = piece(token).count(b"\n")
        line, index = (line + ends, 0) if ends else (line, index + 1)
    return found


def retrieved_share(
    traces: Sequence[Trace], steps: Mapping[str, Sequence[ReplayPass]], piece: Callable[[int], bytes]
) -> Shares:
    marks = [np.zeros(len(trace.tokens), np.bool_) for trace in traces]
    for trace, accepted in zip(traces, marks, strict=True):
        for step in steps[trace.task.id]:
            accepted[step.position : step.position + step.emitted - 1] = True
    return _shares(traces, marks, piece)


def blank_share(traces: Sequence[Trace], piece: Callable[[int], bytes]) -> Shares:
    return _shares(traces, [np.array([not piece(token).strip() for token in t.tokens]) for t in traces], piece)


def _shares(traces: Sequence[Trace], marks: Sequence[npt.NDArray[np.bool_]], piece: Callable[[int], bytes]) -> Shares:
    seen, marked = np.zeros((LINES, COLUMNS)), np.zeros((LINES, COLUMNS))
    for trace, mark in zip(traces, marks, strict=True):
        for (line, index), is_marked in zip(positions(trace.tokens, piece), mark, strict=True):
            if line < LINES and index < COLUMNS:
                seen[line, index] += 1
                marked[line, index] += is_marked
    with np.errstate(invalid="ignore"):
        shares: Shares = marked / seen
    return shares


def draw(panels: Mapping[str, Shares], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(panels), 5), layout="constrained")
    for axes, (title, shares) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.set(title=title, xlabel="token in its line", ylabel="line of the output, percent")
        for line, column in np.argwhere(~np.isnan(shares)).tolist():
            share = float(shares[line, column])
            ink = "white" if share > 0.6 else "black"
            axes.text(column, line, f"{100 * share:.0f}", ha="center", va="center", size=7, color=ink)
    figure.savefig(path, format="svg")
