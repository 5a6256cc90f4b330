"""Running `bench keystroke`: the history, the ceiling, every session, the reports.

Owns their order. Sessions run one after the other; each has the machine to itself.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.common.answers import Answers
from benchmarks.common.product import FullAnswer
from benchmarks.common.progress import shown
from benchmarks.common.server import server_command, server_settings
from benchmarks.datasets import histories
from benchmarks.drafting.drafters import drafter_names
from benchmarks.keystroke import ablation, against, hands
from benchmarks.keystroke.ceiling import Ceiling, FullAnswers, ceiling
from benchmarks.keystroke.figures import figures, timeline
from benchmarks.keystroke.page import page
from benchmarks.keystroke.session import Arm, play
from benchmarks.keystroke.subset import Subset, choose_runs
from fastcoder_lsp.bench import report
from fastcoder_lsp.bench.model import find_model
from fastcoder_lsp.errors import UsageError

CEILING_DRAFTER = "suffix"
"""Makes the full answers; any drafter's are those of `none`."""
SHARES = ("within_budget", "within_budget_empty", "empty_where_ceiling_shows", "typed_through")
START_S = 12.0
"""What a session takes beside typing: the server's start, the model, the index, the end."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.source is not None:
        return _draw_again(arguments.source, arguments.html)
    folder, name = histories.named(arguments.replay)
    subset = choose_runs(tuple(histories.steps(folder, name)), arguments.limit, arguments.seed)
    if not subset.typed:
        raise UsageError(f"no run of {name} can be typed", "Without --limit only short runs are.")
    if arguments.against:
        return _compare(arguments, name, subset, histories.base(folder, name))
    files, arms, taker = histories.base(folder, name), _arms(arguments), _taker(arguments)
    command = server_command(arguments.server, arguments.here)
    _announce(name, subset, arms)
    top = _ceiling(arguments, subset, files)
    results: dict[Arm, dict[str, Any]] = {}
    for arm in arms:
        with shown(f"{arm.name}, {arm.speed:g} a second", subset.keys) as on_key:
            played = play(arm, subset, files, seed=arguments.seed, on_key=on_key, command=command, taker=taker)
        details = {"timeline": timeline(played.requests), "server": dict(played.server)}
        results[arm] = figures(played, top) | details
    full = {
        "history": name,
        "subset": {"runs": len(subset.typed), "of_runs": subset.runs, "keys": subset.keys, "seed": arguments.seed},
        "speeds": [f"{speed:g}" for speed in _speeds(arguments.speed)],
        **by_drafter(results),
    }
    _print(full)
    told = ("model", "engine", "limit", "set", "strict", "server")
    settings = {name: getattr(arguments, name) for name in told}
    if arguments.json:
        report.write_json(arguments.json, "keystroke", settings, full)
    if arguments.html:
        arguments.html.write_text(page(report.head("keystroke", settings) | full), encoding="utf-8")
    return 0


def _compare(arguments: argparse.Namespace, name: str, subset: Subset, files: Mapping[str, str]) -> int:
    """The settings of --set against these and those of --against, with no server and no clock."""
    model, ways, taker = find_model(arguments.model), [], _taker(arguments)
    kept = Answers(model.cache / "bench" / "keystroke.jsonl")
    for what, pairs in (("without", []), ("with", arguments.against)):
        given = server_settings(arguments.model, arguments.engine, [*arguments.set, *pairs])
        given["drafter"] = CEILING_DRAFTER
        with tempfile.TemporaryDirectory(prefix="fastcoder-typing-") as folder, shown(what, subset.keys) as on_key:
            root = Path(folder).resolve()
            ways.append(against.answered(subset, files, root, given, kept, model.files.digest, on_key, taker))
    found = against.difference(subset, *(way.saved for way in ways))
    rows = [
        [what, share, way.tokens_a_key]
        for what, share, way in zip(("without", "with"), (found.left, found.right), ways, strict=True)
    ]
    title = f"{name}, {found.runs} runs, {found.keys} keys: {', '.join(arguments.against)}"
    report.print_table(title, ["", "keys saved, %", "prompt tokens a key"], rows)
    report.print_table("Difference, points", ["saved", "s.e."], [[found.difference, found.standard_error]])
    if arguments.json:
        settings = {name: getattr(arguments, name) for name in ("model", "set", "against", "strict")}
        tokens = [way.tokens_a_key for way in ways]
        report.write_json(
            arguments.json, "keystroke", settings, {"history": name, "tokens_a_key": tokens} | found.to_json()
        )
    return 0


def _draw_again(source: Path, target: Path | None) -> int:
    if target is None:
        raise UsageError("--from draws a page: say where", "Add --html FILE.")
    target.write_text(page(json.loads(source.read_text(encoding="utf-8"))), encoding="utf-8")
    return 0


def _arms(arguments: argparse.Namespace) -> list[Arm]:
    """Each drafter at each speed; the ablation at the first speed."""
    given = server_settings(arguments.model, arguments.engine, arguments.set)
    speeds, names = _speeds(arguments.speed), drafter_names(arguments.drafters)
    arms = [Arm(name, name, speed, given) for name in names for speed in speeds]
    if arguments.ablation:
        arms += ablation.arms(speeds[0], given)
    return arms


def _taker(arguments: argparse.Namespace) -> hands.Taker:
    return hands.STRICT if arguments.strict else hands.TAB


def _speeds(text: str) -> list[float]:
    try:
        speeds = [float(speed) for speed in text.split(",")]
    except ValueError:
        speeds = []
    if not speeds or min(speeds) <= 0:
        raise UsageError(f"--speed wants keys a second, such as 5,10: not {text}")
    return speeds


def _ceiling(arguments: argparse.Namespace, subset: Subset, files: Mapping[str, str]) -> Ceiling:
    """The full answers for every place of the subset; the model is in this process as long as that takes."""
    model = find_model(arguments.model)
    given = server_settings(arguments.model, arguments.engine, arguments.set)
    server = FullAnswer(given | {"drafter": CEILING_DRAFTER})
    try:
        answers = Answers(model.cache / "bench" / "keystroke.jsonl")
        ask = FullAnswers(answers, f"{model.files.digest} {server.engine_name}", server)
        with shown("full answers, for the ceiling", subset.keys) as on_key:
            return ceiling(subset, files, ask, on_key, taker=_taker(arguments))
    finally:
        server.close()


def _announce(name: str, subset: Subset, arms: Sequence[Arm]) -> None:
    """What is to come, and how long it will take; accepts make it shorter."""
    strokes = [hands.keys(step.text.removesuffix("\n")) for step in subset.typed_steps()]
    seconds = sum(hands.typing_seconds(each, arm.speed) for arm in arms for each in strokes) + START_S * len(arms)
    Console(stderr=True).print(
        f"{name}: {len(subset.typed)} of {subset.runs} runs, {subset.keys} keys, in {len(arms)} sessions: "
        f"about {seconds / 60:.1f} minutes, and the ceiling's answers where they are not known yet",
        highlight=False,
        soft_wrap=True,
    )


def by_drafter(results: Mapping[Arm, Mapping[str, Any]]) -> dict[str, Any]:
    """`drafters` and `ablation`: name → the figures at the first speed, and all of them in `by_speed`."""
    tables: dict[str, dict[str, Any]] = {"drafters": {}, "ablation": {}}
    for arm, found in results.items():
        rows = tables["ablation" if arm.is_ablation else "drafters"]
        plain = {name: value for name, value in found.items() if name not in ("timeline", "server")}
        row = rows.setdefault(arm.name, plain | {"by_speed": {}})
        row["by_speed"][f"{arm.speed:g}"] = dict(found)
    return tables


def _print(full: Mapping[str, Any]) -> None:
    """Three short tables: what a person feels, what is shown, and what it takes."""
    subset = full["subset"]
    found = {
        f"{name}, {speed}/s": at_speed
        for table in ("drafters", "ablation")
        for name, row in full[table].items()
        for speed, at_speed in row["by_speed"].items()
    }
    title = f"{full['history']}: {subset['runs']} of {subset['of_runs']} runs, {subset['keys']} keys"
    report.print_table(
        f"{title}: ghost text (percent but for times)",
        ("drafter", "p50 ms", "p95 ms", "p99 ms", "in budget", "of these empty", "empty, ceiling shows", "through"),
        [(name, *_times(row), *(_percent(row[share]) for share in SHARES)) for name, row in found.items()],
    )
    report.print_table(
        f"{title}: what the keys got (texts in the way: percent of the shown)",
        (
            "drafter",
            "requests",
            "no answer",
            "shown",
            "from memory",
            "empty",
            "marks",
            "wrong marks",
            "longer words",
        ),
        [
            (
                name,
                *(row[count] for count in ("requests", "cancelled", "shown", "typed_through_answers", "empty")),
                *(_percent(share) for share in in_the_way(row)),
            )
            for name, row in found.items()
        ],
    )
    report.print_table(
        f"{title}: typing and work",
        ("drafter", "not typed %", "ceiling %", "prefill/key", "steps/key", "MAT", "CPU s/key"),
        [
            (
                name,
                *(_percent(row["accepted_chars_share"]), _percent(row["ceiling_chars_share"])),
                *(_plain(row["prefilled_tokens_per_key"]), _plain(row["steps_per_key"])),
                *("–" if row["mat"] is None else row["mat"], row["cpu_seconds_per_char"]),
            )
            for name, row in found.items()
        ],
    )


def in_the_way(found: Mapping[str, Any]) -> tuple[float | None, ...]:
    """Of the texts that the model made: marks alone, those of them that were wrong, words made longer."""
    flaws, shown = found["flaws"], found["shown"]
    wrong = flaws["wrong marks"]
    return tuple(count / shown if shown else None for count in (flaws["marks"] + wrong, wrong, flaws["longer word"]))


def _times(found: Mapping[str, Any]) -> list[str]:
    return ["–" if ms is None else f"{ms:.0f}" for ms in (found["ghost_ms"][name] for name in ("p50", "p95", "p99"))]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"
