"""`bench keystroke`: a history typed as a person types, against the real server over stdio, one session at a time."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.datasets import histories
from benchmarks.drafting import drafter_names
from benchmarks.harness import Answers, pooled_gain, write
from benchmarks.keystroke_report import figures, ghost_ms, page, tables, timeline
from benchmarks.product import FullAnswer, ServerOptions
from benchmarks.typist import STRICT, TAB, Accepter, Subset, chosen, keys_of, typing_seconds
from benchmarks.typist.ceiling import Ceiling, FullAnswers, Tree, answered_in, ceiling
from benchmarks.typist.replay import Arm, ReplaySession, play
from fastcoder_lsp.bench import report
from fastcoder_lsp.bench.model import BenchModel, find_model
from fastcoder_lsp.bench.report import shown
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model.machine import require_packages

EXAMPLE = "keystroke --replay ../shared/data/replay/structlog --html typing.html"
CEILING_DRAFTER = "suffix"
"""Makes the full answers; any drafter's are those of `none`."""
START_S = 12.0
"""Seconds of a session beside typing: the server's start, the model, the index, the end."""
ALL_ON = "all on"
WITHOUT: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    ALL_ON: ("auto", {}),
    "no drafting": ("none", {}),
    "every step 64 wide": ("auto:width=fixed", {}),
    "nothing learnt": ("auto:learns=false", {}),
    "no search skipped": ("auto:skips=false", {}),
    "no outdated suggestion": ("auto:without=outdated", {}),
    "no recycling": ("auto:without=recycling/recycling-pairs", {}),
    "no datastore": ("auto", {"index.enabled": False}),
    "no background": ("auto", {"budget.background_ms": 1}),
    "no work ahead": ("auto", {"power": "saver"}),
    "no budget": ("auto", {"budget.automatic_ms": 60_000}),
}
"""The ablation: what is off → the drafter and the settings that turn it off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(ServerOptions):
    """Type runs of a recorded history against the real server, at 5 and 10 characters a second.

    Report the time to ghost text, what was accepted, and what it cost. Each drafter at each speed types the same runs
    with the same pauses in a fresh workspace. The plain call types runs of 480 keys in all, chosen by the seed, and
    takes under 20 minutes.
    """

    replay: Path | None = option(
        "NAME.base.tar.gz and NAME.steps.jsonl in DIR (default: structlog)", None, metavar="DIR/NAME"
    )
    limit: int | None = option("type N runs instead, whatever their length", None, metavar="N")
    drafters: str = option("drafters, separated by commas", "none,fastcoder,cacheback,auto", metavar="NAMES")
    speed: str = option("keys a second", "5,10", metavar="KEYS")
    ablation: bool = option("`auto` with each mechanism switched off in turn, too", False)
    edits: str = option(
        "each drafter a second time, with requests for edits of this model: as the setting edits.model",
        "",
        metavar="NAME",
    )
    strict: bool = option(
        "accept only what is right: a text that comes next as a whole, or the rest of the line; 3 characters at least",
        False,
    )
    seed: int = option("seed of the choice and of the pauses", 0, metavar="N")
    against: list[str] = option(
        "type nothing and start no server: what full answers save with this setting and without, run by run, such as "
        "context.enabled=true; may be given again",
        [],
        metavar="NAME=VALUE",
    )
    html: Path | None = option("draw the report into FILE, one page without network", None, metavar="FILE")
    source: Path | None = option("type nothing: draw this JSON report", None, flags=("--from",), metavar="FILE")

    @property
    def taker(self) -> Accepter:
        return STRICT if self.strict else TAB


def run(options: Options) -> int:
    if options.html is not None:
        require_packages("a picture", "matplotlib")
    if options.source is not None:
        if options.html is None:
            raise UsageError("--from draws a page: say where", "Add --html FILE.")
        options.html.write_text(page(json.loads(options.source.read_text(encoding="utf-8"))), encoding="utf-8")
        return 0
    folder, name = histories.named(options.replay)
    subset = chosen(folder, name, options.limit, options.seed)
    files = histories.base(folder, name)
    if options.against:
        return _compare(options, name, subset, files)
    arms, command = _arms(options), options.command()
    _announce(name, subset, arms)
    top = _ceiling(options, subset, files)
    results: dict[Arm, dict[str, Any]] = {}
    sessions: dict[Arm, ReplaySession] = {}
    for arm in arms:
        with shown(f"{arm.name}, {arm.speed:g} a second", subset.keys) as on_key:
            played = play(arm, subset, files, seed=options.seed, on_key=on_key, command=command, taker=options.taker)
        details = {"timeline": timeline(played.requests), "server": dict(played.server)}
        results[arm], sessions[arm] = figures(played, top) | details, played
    full = {
        "history": name,
        "subset": {"runs": len(subset.typed), "of_runs": subset.runs, "keys": subset.keys, "seed": options.seed},
        "speeds": [f"{speed:g}" for speed in _speeds(options.speed)],
        **by_drafter(results),
    }
    for table in tables(full):
        report.print_table(*table)
    if options.edits:
        full["edits"] = with_edits(subset, sessions)
    told = ("model", "engine", "limit", "set", "strict", "server")
    settings = {name: getattr(options, name) for name in told}
    if options.json:
        report.write_json(options.json, "keystroke", settings, full)
    if options.html:
        options.html.write_text(page(report.head("keystroke", settings) | full), encoding="utf-8")
    return 0


def with_edits(subset: Subset, sessions: Mapping[Arm, ReplaySession]) -> dict[str, Any]:
    """What requests for edits change, for each drafter and speed, and print it."""
    found, rows = dict[str, Any](), list[list[object]]()
    for (without, before), (_, after) in pairwise(sessions.items()):
        if without.edits:
            continue
        name = f"{without.name}, {without.speed:g}/s"
        saved = difference(subset, before.saved_in, after.saved_in)
        waits = [ghost_ms(one.requests, one.budget_ms)["p50"] for one in (before, after)]
        tokens = [
            one.work[-1].since(one.work[0]).prefilled / max(one.typed + one.accepts, 1) for one in (before, after)
        ]
        found[name] = asdict(saved) | {"wait_ms": waits, "tokens_a_key": tokens, "edits": after.edits}
        change = f"{saved.difference:+.2f} ± {saved.standard_error:.2f}"
        numbers = (f"{a or 0:.1f} → {b or 0:.1f}" for a, b in (waits, tokens))
        rows.append(
            [name, f"{saved.left:.1f} → {saved.right:.1f}", change, *numbers, "{} of {}".format(*after.edits[::-1])]
        )
    columns = ("drafter", "saved %", "points", "p50 ms", "prompt tokens a key", "edits shown")
    report.print_table("Requests for edits: without → with", columns, rows)
    return found


def _compare(options: Options, name: str, subset: Subset, files: Mapping[str, str]) -> int:
    """The settings of --set against these and those of --against, with no server and no clock."""
    sides = {"without": options.settings(), "with": options.settings(*options.against)}
    model, tops, tokens = find_model(options.model), list[Ceiling](), list[float]()
    for what, settings in sides.items():
        given = settings | {"drafter": CEILING_DRAFTER}
        with tempfile.TemporaryDirectory(prefix="fastcoder-typing-") as folder, shown(what, subset.keys) as on_key:
            tree = Tree(Path(folder).resolve(), files)
            server = FullAnswer(given, tree.root, tree.open_texts)
            try:
                full = FullAnswers(_kept(model), f"{model.files.digest} {server.engine_name}", server)
                tops.append(ceiling(subset, tree, answered_in(tree, full), on_key, options.taker))
                tokens.append(server.computed / max(subset.keys, 1))
            finally:
                server.close()
    found = difference(subset, *(top.saved_in for top in tops))
    rows = [[*row] for row in zip(sides, (found.left, found.right), tokens, strict=True)]
    title = f"{name}, {found.runs} runs, {found.keys} keys: {', '.join(options.against)}"
    report.print_table(title, ["", "keys saved, %", "prompt tokens a key"], rows)
    report.print_table("Difference, points", ["saved", "s.e."], [[found.difference, found.standard_error]])
    write(options, "keystroke", {"history": name, "tokens_a_key": tokens} | asdict(found))
    return 0


@dataclass(frozen=True, slots=True)
class SavedKeysDifference:
    """The difference of two shares of saved keys over the same runs, in points; the error is clustered by run."""

    left: float
    right: float
    difference: float
    standard_error: float
    runs: int
    keys: int


def difference(subset: Subset, left: Mapping[int, int], right: Mapping[int, int]) -> SavedKeysDifference:
    lengths = {place: len(keys_of(step)) for place, step in subset.typed_steps().items()}
    total = sum(lengths.values())
    before, after = (100 * sum(side.values()) / total for side in (left, right))
    saved = ([side[place] for place in lengths] for side in (left, right))
    gained, error = pooled_gain(next(saved), next(saved), [*lengths.values()])
    return SavedKeysDifference(before, after, 100 * gained, 100 * error, len(lengths), total)


def _kept(model: BenchModel) -> Answers:
    return Answers(model.cache / "bench" / "keystroke.jsonl")


def _arms(options: Options) -> list[Arm]:
    given = options.settings()
    speeds, names = _speeds(options.speed), drafter_names(options.drafters)
    arms = [Arm(name, name, speed, given) for name in names for speed in speeds]
    if options.edits:
        asked = given | {"edits.model": options.edits}
        pairs = ((arm, replace(arm, name=f"{arm.name}, edits", settings=asked, edits=True)) for arm in arms)
        arms = [arm for pair in pairs for arm in pair]
    if options.ablation:
        off = WITHOUT.items()
        arms += [Arm(name, drafter, speeds[0], {**given, **more}, is_ablation=True) for name, (drafter, more) in off]
    return arms


def _speeds(text: str) -> list[float]:
    try:
        speeds = [float(speed) for speed in text.split(",")]
    except ValueError:
        speeds = []
    if not speeds or min(speeds) <= 0:
        raise UsageError(f"--speed wants keys a second, such as 5,10: not {text}")
    return speeds


def _ceiling(options: Options, subset: Subset, files: Mapping[str, str]) -> Ceiling:
    model = find_model(options.model)
    server = FullAnswer(options.settings() | {"drafter": CEILING_DRAFTER})
    try:
        ask = FullAnswers(_kept(model), f"{model.files.digest} {server.engine_name}", server)
        with shown("full answers, for the ceiling", subset.keys) as on_key:
            return ceiling(subset, dict(files), ask, on_key, options.taker)
    finally:
        server.close()


def _announce(name: str, subset: Subset, arms: Sequence[Arm]) -> None:
    """Print the sessions to come and their length at most, because accepts make it shorter."""
    strokes = [keys_of(step) for step in subset.typed_steps().values()]
    seconds = sum(typing_seconds(each, arm.speed) for arm in arms for each in strokes) + START_S * len(arms)
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
