"""Runs `bench typing`: every part with code of other files and without, in turn, and what that is worth."""

import argparse
from dataclasses import replace
from functools import partial

from benchmarks.datasets import histories
from benchmarks.datasets.folder import require
from benchmarks.sharing.reckoned import AMX, VNNI
from benchmarks.typing.comparison import compared
from benchmarks.typing.desk import Desk, Typed
from benchmarks.typing.history_parts import history_parts
from benchmarks.typing.kept_parts import keep_part, known_parts
from fastcoder_lsp.bench import report
from fastcoder_lsp.completion.question import policy_of
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.prompt import Context
from fastcoder_lsp.runtime.load import load_model, make_runtime
from fastcoder_lsp.runtime.parts import Model, Runtime, Surroundings

WAYS = (False, True)
"""Values of `context.enabled`."""
_SAME = ("model", "costs", "slower", "speed", "seed")
"""Options that decide what typing a part comes to."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    typed = _typed(arguments)
    names = [name for name in arguments.histories.split(",") if any(one == name for one, _ in typed)]
    rows = {
        name: compared(*([typed[one][way] for one in typed if name in (one[0], "all")] for way in WAYS))
        for name in (*names, "all")
    }
    table = [
        [
            name,
            *(row.keys, row.left, row.right, f"{row.gained:+.2f} ± {row.error:.2f}"),
            f"{row.tokens_left:.1f} → {row.tokens_right:.1f}",
            f"{row.wait_left_ms:.0f} → {row.wait_right_ms:.0f}",
            f"{row.mean_left_ms:.0f} → {row.mean_right_ms:.0f}",
            f"{row.mat_left:.2f} → {row.mat_right:.2f}",
        ]
        for name, row in rows.items()
    ]
    columns = ("history", "keys", "off %", "on %", "points", "tokens a key", "text, ms", "mean", "tokens a pass")
    report.print_table("Accepted share, code of other files off and on", columns, table)
    if arguments.json:
        given = {name: getattr(arguments, name) for name in (*_SAME, "histories", "keys")}
        report.write_json(arguments.json, "typing", given, {name: row.to_json() for name, row in rows.items()})
    return 0


def _typed(arguments: argparse.Namespace) -> dict[tuple[str, int], dict[bool, Typed]]:
    """(history, part) → what it came to in both ways; the parts that all histories have first."""
    folder = require("replay")
    parts = {
        (name, number): part
        for name in arguments.histories.split(",")
        for number, part in enumerate(
            history_parts(tuple(histories.steps(folder, name)), arguments.keys, arguments.seed)
        )
    }
    if not parts:
        raise UsageError("nothing can be typed", "Name a history with typed runs, and some keys: --keys N")
    same = {name: getattr(arguments, name) for name in _SAME}
    # Another bound on the keys cuts the last parts elsewhere: they are other parts of the same number.
    lengths = {name: part.keys for name, part in parts.items()}
    known = {
        name: kept
        for name, kept in known_parts(arguments.answers, same)
        if kept.keys == lengths.get((name[0], name[1]))
    }
    settings = replace(Settings(), model=arguments.model, threads=arguments.threads)
    costs = _slower({"amx": AMX, "vnni": VNNI}[arguments.costs], arguments.slower)
    model = load_model(settings, lambda _share, _what: None)
    desk = Desk(model, costs, policy_of(settings), speed=arguments.speed, seed=arguments.seed)
    typed: dict[tuple[str, int], dict[bool, Typed]] = {}
    try:
        for name, number in sorted(parts, key=lambda one: one[::-1]):
            for way in WAYS:
                if (name, number, way) not in known:
                    known[name, number, way] = desk.type(
                        parts[name, number],
                        histories.base(folder, name),
                        partial(_runtime, replace(settings, context_enabled=way)),
                    )
                    keep_part(arguments.answers, same, (name, number, way), known[name, number, way])
            typed[name, number] = {way: known[name, number, way] for way in WAYS}
    finally:
        model.close()
    return typed


def _runtime(settings: Settings, model: Model, context: Context) -> Runtime:
    return make_runtime(model, settings, Surroundings(context=context))


def _slower(costs: StepCosts, factor: float) -> StepCosts:
    return StepCosts(costs.widths, tuple(factor * ms for ms in costs.ms), factor * costs.prefill_ms)
