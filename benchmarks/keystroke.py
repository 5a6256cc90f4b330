"""`bench keystroke`: a history typed as a person types, against the real server over stdio, one session at a time.

- *Ghost time*: the age of an answer that shows text which the model made, and of a request at the moment when it was
  cancelled, if its budget had passed by then. Answers from memory (typed through) and empty ones are counted apart, and
  so are requests cancelled before their budget had passed, because no answer was late.
- *Shown*: answers with text that the model made; those from memory are `typed_through_answers`.
- *Within budget*: of all requests that were answered, or cancelled after their budget had passed, those answered in it.
- *Typed through*: keys that were the next character of the suggestion shown; the share of the answered ones among
  their requests for which the server did not ask the model.
- *Accepted share*: keys that accepts made unnecessary, of all keys of the runs.
- *First word right*, *first line right*, *lines right*: of all texts shown, from the model or from memory, those whose
  first word or line is typed next; of all lines shown, those that are, counted from the top of each text.
- *Changed*: texts that replaced another one, along which the user had just typed, and do not begin with it.
- *Empty where the ceiling shows*: of the answers at places where the full answer shows text, the empty ones.
"""

import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.datasets import histories
from benchmarks.drafting import drafter_names
from benchmarks.harness import Answers, number, percent, percentiles, pooled_gain, share
from benchmarks.product import FullAnswer, ServerOptions
from benchmarks.typist import STRICT, TAB, Accepter, Subset, chosen, keys_of, typing_seconds
from benchmarks.typist.ceiling import Ceiling, FullAnswers, ceiling
from benchmarks.typist.replay import TYPED_THROUGH, Arm, ReplaySession, Request, play
from fastcoder_lsp.bench import report
from fastcoder_lsp.bench.model import BenchModel, find_model
from fastcoder_lsp.bench.report import shown
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.errors import UsageError

EXAMPLE = "keystroke --replay ../shared/data/replay/structlog --json typing.json"
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

    @property
    def taker(self) -> Accepter:
        return STRICT if self.strict else TAB


def run(options: Options) -> int:
    folder, name = histories.named(options.replay)
    subset = chosen(folder, name, options.limit, options.seed)
    files = histories.base(folder, name)
    arms, command = _arms(options), options.command()
    _announce(name, subset, arms)
    top = _ceiling(options, subset, files)
    results: dict[Arm, dict[str, Any]] = {}
    sessions: dict[Arm, ReplaySession] = {}
    for arm in arms:
        with shown(f"{arm.name}, {arm.speed:g} a second", subset.keys) as on_key:
            played = play(arm, subset, files, seed=options.seed, on_key=on_key, command=command, taker=options.taker)
        results[arm], sessions[arm] = figures(played, top) | {"server": dict(played.server)}, played
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
        plain = {name: value for name, value in found.items() if name != "server"}
        row = rows.setdefault(arm.name, plain | {"by_speed": {}})
        row["by_speed"][f"{arm.speed:g}"] = dict(found)
    return tables


Found = Mapping[str, Any]
Table = tuple[str, Sequence[str], Sequence[Sequence[object]]]
"""Title, columns and rows."""
SHARES = ("within_budget", "within_budget_empty", "empty_where_ceiling_shows", "typed_through")


def figures(played: ReplaySession, ceiling: Ceiling) -> dict[str, Any]:
    requests, budget = played.requests, played.budget_ms
    answered = [request for request in requests if request.outcome != "cancelled"]
    late = [request for request in requests if request.outcome == "cancelled" and request.ms > budget]
    inside = [request for request in answered if request.ms <= budget]
    keys = played.typed + played.saved
    pressed = played.typed + played.accepts
    work = played.work[-1].since(played.work[0])
    each = [after.since(before) for before, after in zip(played.work, played.work[1:], strict=False)]
    return {
        "ghost_ms": ghost_ms(requests, budget),
        "shown": sum(request.by_model for request in requests),
        "empty": sum(request.outcome == "empty" for request in requests),
        **rightness(requests),
        "within_budget": share(len(inside), len(answered) + len(late)),
        "within_budget_empty": share(sum(request.outcome == "empty" for request in inside), len(inside)),
        "typed_through": typed_through(requests),
        "typed_through_answers": sum(request.finish == TYPED_THROUGH for request in requests),
        "accepted_chars_share": share(played.saved, keys),
        "ceiling_chars_share": ceiling.share,
        "empty_where_ceiling_shows": empty_where_shown(requests, ceiling),
        "prefilled_tokens_per_key": _median([part.prefilled for part in each]),
        "steps_per_key": _median([part.steps for part in each]),
        "cpu_seconds_per_char": played.cpu_s / max(1, pressed),
        "cpu_seconds_per_saved_char": played.cpu_s / max(1, played.saved),
        "budget_ms": budget,
        "requests": len(requests),
        "cancelled": len(requests) - len(answered),
        "cancelled_late": len(late),
        "keys": {"all": keys, "typed": played.typed, "saved": played.saved, "accepts": played.accepts},
        "origins": origins(requests),
        "mat": share(work.tokens, work.steps),
        "steps": work.steps,
        "tokens": work.tokens,
        "accepted_by_source": {name: count for name, count in work.accepted_by_source.items() if count},
        "mechanisms": dict(work.mechanisms),
        "cpu_by_cause": cpu_by_cause(played, work.cpu_s),
    }


CAUSES: Mapping[str, str] = {
    "prompt": "building prompts",
    "prefill_used": "prefill at keys, used",
    "prefill_unused": "prefill at keys, unused",
    "prefetch_used": "prefetch, used",
    "prefetch_unused": "prefetch, unused",
    "steps_shown": "steps shown",
    "steps_unseen": "steps never shown",
    "edits": "next edits",
    "other": "answers, waiting",
    "index": "reading and indexing folders",
    "front": "the editor's process",
    "rest": "rest",
}
UNSEEN = ("prefill_unused", "prefetch_unused", "steps_unseen")


def cpu_by_cause(played: ReplaySession, told: Mapping[str, float]) -> dict[str, float]:
    """CPU seconds by the names of `CAUSES`, which add up to those of all processes."""
    found = {name: told.get(name, 0.0) for name in CAUSES}
    # One process alone has the model, too: what is known of its work is no work of the editor's.
    shared = played.cpu_s > played.front_s
    found["front"] = played.front_s if shared else 0.0
    return found | {"rest": played.cpu_s - sum(found.values())}


def rightness(requests: Sequence[Request]) -> dict[str, Any]:
    texts = [request.shown for request in requests if request.shown is not None]
    lines = sum(text.lines for text in texts)
    return {
        "texts_shown": len(texts),
        "texts_per_key": share(len(texts), len(requests)),
        "first_word_right": share(sum(text.first_word for text in texts), len(texts)),
        "first_line_right": share(sum(text.right > 0 for text in texts), len(texts)),
        "lines_right": share(sum(text.right for text in texts), lines),
        "changed_per_100_keys": share(100 * sum(text.changed for text in texts), len(requests)),
    }


def ghost_ms(requests: Sequence[Request], budget_ms: float) -> dict[str, float | int | None]:
    """p50, p95 and p99 of the ghost times, and how many there are."""
    times = [
        request.ms
        for request in requests
        if request.by_model or (request.outcome == "cancelled" and request.ms > budget_ms)
    ]
    found: dict[str, float | int | None] = {"p50": None, "p95": None, "p99": None}
    return found | (percentiles(times, 50, 95, 99) if times else {}) | {"count": len(times)}


def typed_through(requests: Sequence[Request]) -> float | None:
    """The share of requests answered without the model, among those after a key along the ghost text."""
    through = [request for request in requests if request.through and request.outcome != "cancelled"]
    return share(sum(request.finish == TYPED_THROUGH for request in through), len(through))


def empty_where_shown(requests: Sequence[Request], ceiling: Ceiling) -> float | None:
    """The share of empty answers at places where the full answer shows text."""
    answers = [
        request
        for request in requests
        if request.outcome != "cancelled" and request.place is not None and ceiling.answers.get(request.place)
    ]
    return share(sum(request.outcome == "empty" for request in answers), len(answers))


def origins(requests: Sequence[Request]) -> dict[str, int]:
    return dict(Counter(one.finish or "shown" if one.outcome == "shown" else one.outcome for one in requests))


def _median(values: Sequence[int]) -> float | None:
    return statistics.median(values) if values else None


def tables(full: Found) -> Iterator[Table]:
    """The tables of all sessions: time to ghost text, outcomes of the requests, typing and work."""
    subset, found = full["subset"], _sessions(full)
    title = f"{full['history']}: {subset['runs']} of {subset['of_runs']} runs, {subset['keys']} keys"
    yield (
        f"{title}: ghost text (percent but for times)",
        ("drafter", "p50 ms", "p95 ms", "p99 ms", "in budget", "of these empty", "empty, ceiling shows", "through"),
        [(name, *_times(row), *(percent(row[what]) for what in SHARES)) for name, row in found.items()],
    )
    counts = ("requests", "cancelled", "shown", "typed_through_answers", "empty")
    yield (
        f"{title}: what the keys got",
        ("drafter", "requests", "no answer", "shown", "from memory", "empty"),
        [(name, *(row[count] for count in counts)) for name, row in found.items()],
    )
    right = ("first_word_right", "first_line_right", "lines_right")
    yield (
        f"{title}: of all texts shown, right (percent)",
        ("drafter", "texts/key", "first word", "first line", "lines", "changed/100 keys"),
        [
            (
                name,
                number(row["texts_per_key"], ".2f"),
                *(percent(row[what]) for what in right),
                number(row["changed_per_100_keys"], ".1f"),
            )
            for name, row in found.items()
        ],
    )
    yield (
        f"{title}: typing and work",
        ("drafter", "not typed %", "ceiling %", "prefill/key", "steps/key", "MAT", "CPU s/key", "CPU s/saved"),
        [
            (
                name,
                *(percent(row[what]) for what in ("accepted_chars_share", "ceiling_chars_share")),
                *(number(row[what], "g") for what in ("prefilled_tokens_per_key", "steps_per_key")),
                *(number(row[what], ".2f") for what in ("mat", "cpu_seconds_per_char", "cpu_seconds_per_saved_char")),
            )
            for name, row in found.items()
        ],
    )
    yield cpu_table(title, found)


def cpu_table(title: str, found: Mapping[str, Found]) -> Table:
    def row(told: str, names: Collection[str]) -> list[str]:
        cells = [told]
        for one in found.values():
            pressed, spent = max(1, one["keys"]["typed"] + one["keys"]["accepts"]), one["cpu_by_cause"]
            seconds = sum(spent[name] for name in names)
            cells.append(f"{1e3 * seconds / pressed:.1f} ({percent(share(seconds, sum(spent.values())))})")
        return cells

    rows = [row(told, [name]) for name, told in CAUSES.items()]
    rows += [row("all", CAUSES), row("of these, seen by nobody", UNSEEN)]
    return f"{title}: CPU, ms a key (percent of all)", ("cause", *found), rows


def _sessions(full: Found) -> dict[str, Found]:
    return {
        f"{name}, {speed}/s": at_speed
        for table in ("drafters", "ablation")
        for name, row in full[table].items()
        for speed, at_speed in row["by_speed"].items()
    }


def _times(found: Found) -> list[str]:
    return [number(found["ghost_ms"][name], ".0f") for name in ("p50", "p95", "p99")]
