"""`bench papers`: every named method on all tasks, with the model: milliseconds a token and tokens a pass.

The tasks are RepoEval's functions, each with its repository, and HumanEval's, which have none. Each is decoded plainly,
by every method, and plainly once more: a time is compared with the mean of both. Each task's rows are kept, so that an
interrupted run goes on where it ended. The order of the tasks is drawn, so that those done so far speak for all.
"""

import hashlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.datasets import body_prompt, function_end, humaneval_prompts, require
from benchmarks.drafting import (
    ABLATION,
    LEAKAGE,
    LONG_ENOUGH,
    PAPER_TOKENS,
    Run,
    TaskOptions,
    TaskParts,
    all_names,
    drafter_names,
    label,
    load_parts,
    make,
    run_once,
    warm_up,
)
from benchmarks.harness import NODES, KeptRows, decode_request, number, write
from benchmarks.product import measure_costs
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.core import Engine, StepCosts
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.draft.base import Drafter, NoDrafter, Pinned

EXAMPLE = "papers --out papers.jsonl --max-minutes 120"
AUTO_NODES = 64
HUMANEVAL = "HumanEval"
_LEFT_OUT = {"none", "rewrite", "fastcoder-paper"}
"""Not methods of papers, or a row of the ablation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TaskOptions):
    """Decode all tasks of RepoEval and HumanEval by every named method, resumably.

    Greedy, the function's end or 512 tokens, caches cold. `auto` takes as many rows as pay. Worst: the lowest speed-up
    of a task of at least 48 tokens. The order of the tasks is drawn once for all runs: a limit takes its first ones.
    """

    drafters: str = option("names, as for `bench draft`, or `all`", "all", metavar="NAMES")
    nodes: int = option("rows of one verification; at most 64 for `auto`", NODES, metavar="N")
    out: Path = option("the file that keeps each task's rows", Path("papers.jsonl"), metavar="FILE")
    max_minutes: int | None = option("begin no further task after that", None, metavar="N")
    markdown: Path | None = option("write the tables to FILE", None, metavar="FILE")


@dataclass(frozen=True, slots=True)
class PaperTask:
    """A function to write; `group`: its repository, or HumanEval."""

    id: str
    group: str
    request: DecodeRequest
    pin: Callable[[], Pinned]


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One task by one method, and plainly."""

    group: str
    task: str
    tokens: int
    steps: int
    ms: float
    plain_ms: float
    identical: bool


def run(options: Options) -> int:
    parts = load_parts(options)
    names = methods(options.drafters, parts)
    parts.require(names)
    tasks, kept = paper_tasks(parts, options.limit), KeptRows(options.out)
    prefix = f"{hashlib.sha256(parts.identity.encode()).hexdigest()[:12]} {options.nodes}"
    engine = parts.engine()
    try:
        costs = measure_costs(engine)
        _fill(MethodRuns(parts, engine, costs, options.nodes), tasks, names, kept, prefix, options.max_minutes)
    finally:
        engine.close()
        parts.smaller.close()
    rows = {name: [row for task in tasks if (row := kept_row(kept, prefix, name, task)) is not None] for name in names}
    results = {name: figures(of_name) for name, of_name in rows.items() if of_name}
    _print(results, len(tasks), options, engine.info.name)
    write(
        options,
        "papers",
        {"drafters": results},
        model=parts.model.files.name,
        engine=engine.info.name,
        corpus_tokens=parts.stores.corpus_tokens(),
        costs={"widths": costs.widths, "ms": costs.ms},
        leakage=LEAKAGE,
    )
    return 0


def methods(text: str, parts: TaskParts) -> list[str]:
    if text != "all":
        return drafter_names(text)
    return [*(name for name in all_names(parts.trained, len(parts.smaller)) if name not in _LEFT_OUT), *ABLATION]


def paper_tasks(parts: TaskParts, limit: int | None) -> list[PaperTask]:
    """All tasks, or `limit` of them, in a drawn order that is always the same."""

    def request(before: str, name: str) -> DecodeRequest:
        prompt = body_prompt(parts.tokenizer, before)
        return decode_request(parts.tokenizer, prompt, PAPER_TOKENS, cut=function_end, document=f"task:{name}")

    found = [
        PaperTask(task.id, task.repo, request(parts.tasks.before(task), task.id), partial(parts.stores.pin, task))
        for task in parts.tasks.tasks
    ]
    for name, before in humaneval_prompts(require("humaneval_infilling")).items():
        found.append(PaperTask(name, HUMANEVAL, request(before, name), parts.stores.common))
    random.Random(0).shuffle(found)  # noqa: S311 a reproducible draw, no secret
    return found[:limit]


class MethodRuns:
    """Runs tasks by methods, each drafter made once."""

    def __init__(self, parts: TaskParts, engine: Engine, costs: StepCosts, nodes: int) -> None:
        self._parts, self._engine, self._costs, self._nodes = parts, engine, costs, nodes
        self._drafters = dict[str, Drafter]()
        self._pin: Callable[[], Pinned] = Pinned

    def rows(self, task: PaperTask, names: Sequence[str]) -> dict[str, MethodRow]:
        """Decode plainly, by each method, and plainly again."""
        self._pin = task.pin
        request = replace(task.request, nodes=self._nodes)
        first = run_once(self._engine, NoDrafter(), request)
        runs = {name: self._by(name, request) for name in names}
        plain_ms = (first.ms + run_once(self._engine, NoDrafter(), request).ms) / 2
        if not first.emitted:
            return {}
        return {
            name: MethodRow(
                task.group, task.id, one.emitted, one.steps, one.ms, plain_ms, identical=one.tokens == first.tokens
            )
            for name, one in runs.items()
        }

    def _by(self, name: str, request: DecodeRequest) -> Run:
        drafter = self._drafters.get(name)
        if drafter is None:
            given = self._parts.drafter_parts(lambda _document: self._pin(), self._costs)
            drafter = self._drafters[name] = make(name, given)
            warm_up(drafter)
        nodes = AUTO_NODES if drafter.traits.weighs_costs else self._nodes
        one = run_once(self._engine, drafter, replace(request, nodes=nodes))
        drafter.forget(request.document)
        return one


def _fill(
    runs: MethodRuns, tasks: Sequence[PaperTask], names: Sequence[str], kept: KeptRows, prefix: str, minutes: int | None
) -> None:
    """Make the rows that are missing, until all are there or the time is over."""
    begun = time.monotonic()
    left = [task for task in tasks if any(kept_row(kept, prefix, name, task) is None for name in names)]
    for done, task in enumerate(left, 1):
        if minutes is not None and time.monotonic() - begun >= 60 * minutes:
            break
        missing = [name for name in names if kept_row(kept, prefix, name, task) is None]
        for name, row in runs.rows(task, missing).items():
            values = {field: getattr(row, field) for field in MethodRow.__slots__}
            kept.put(_key(prefix, name, task), **values)
        each_s = (time.monotonic() - begun) / done
        print(f"{done} of {len(left)} tasks, some {each_s * (len(left) - done) / 60:.0f} minutes left", flush=True)


def _key(prefix: str, name: str, task: PaperTask) -> str:
    return f"{prefix} {name} {task.group}/{task.id}"


def kept_row(kept: KeptRows, prefix: str, name: str, task: PaperTask) -> MethodRow | None:
    row = kept.rows.get(_key(prefix, name, task))
    return None if row is None else MethodRow(**{field: row[field] for field in MethodRow.__slots__})


def figures(rows: Sequence[MethodRow]) -> dict[str, Any]:
    """Of at least one row: pooled times and tokens, the worst task, and the speed-up of each group."""
    groups: dict[str, list[MethodRow]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    long = [row for row in rows if row.tokens >= LONG_ENOUGH]
    worst = min(long, key=lambda row: row.plain_ms / row.ms, default=None)
    tokens = sum(row.tokens for row in rows)
    return {
        "tasks": len(rows),
        "tokens": tokens,
        "ms_per_token": sum(row.ms for row in rows) / tokens,
        "plain_ms_per_token": sum(row.plain_ms for row in rows) / tokens,
        "speedup": _speedup(rows),
        "tokens_a_pass": tokens / sum(row.steps for row in rows),
        "worst_speedup": worst.plain_ms / worst.ms if worst else None,
        "worst_task": worst.task if worst else None,
        "identical": all(row.identical for row in rows),
        "groups": {
            group: {"tasks": len(some), "speedup": _speedup(some), "tokens_a_pass": _mat(some)}
            for group, some in sorted(groups.items())
        },
    }


def _speedup(rows: Sequence[MethodRow]) -> float:
    return sum(row.plain_ms for row in rows) / sum(row.ms for row in rows)


def _mat(rows: Sequence[MethodRow]) -> float:
    return sum(row.tokens for row in rows) / sum(row.steps for row in rows)


def tables(results: Mapping[str, Any]) -> list[tuple[Sequence[str], list[Sequence[str]]]]:
    """Columns and rows: all tasks, then each group's speed-up and tokens a pass."""
    columns = ("method", "tasks", "ms a token", "plain", "speed-up", "tokens a pass", "worst", "task", "identical")
    forms = (("ms_per_token", ".1f"), ("plain_ms_per_token", ".1f"), ("speedup", ".2f"), ("tokens_a_pass", ".2f"))
    all_tasks: list[Sequence[str]] = [
        (
            label(name),
            str(found["tasks"]),
            *(number(found[key], form) for key, form in forms),
            number(found["worst_speedup"], ".2f"),
            found["worst_task"] or "–",
            "yes" if found["identical"] else "no",
        )
        for name, found in results.items()
    ]
    groups = sorted({group for found in results.values() for group in found["groups"]})

    def cell(found: Mapping[str, Any], group: str) -> str:
        of_group = found["groups"].get(group)
        return "–" if of_group is None else f"{of_group['speedup']:.2f} / {of_group['tokens_a_pass']:.2f}"

    by_group: list[Sequence[str]] = [
        (label(name), *(cell(found, group) for group in groups)) for name, found in results.items()
    ]
    return [(columns, all_tasks), (("speed-up / tokens a pass", *groups), by_group)]


def _print(results: Mapping[str, Any], tasks: int, options: Options, engine: str) -> None:
    titles = f"{tasks} tasks wanted, {options.nodes} rows (auto: what pays), cold, {engine}", "By repository"
    written = []
    for title, (columns, rows) in zip(titles, tables(results), strict=True):
        print_table(title, columns, rows)
        written.append("\n".join("| " + " | ".join(row) + " |" for row in (columns, ["---"] * len(columns), *rows)))
    if options.markdown:
        options.markdown.write_text("\n\n".join(written) + "\n", encoding="utf-8")
