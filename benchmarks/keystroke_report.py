"""The report of `bench keystroke`: the figures of each session, their tables, and a page with pictures.

- *Ghost time*: the age of an answer that shows text which the model made, and of a request at the moment when it was
  cancelled, if its budget had passed by then. Answers from memory (typed through) and empty ones are counted apart, and
  so are requests cancelled before their budget had passed, because no answer was late.
- *Shown*: answers with text that the model made; those from memory are `typed_through_answers`.
- *Within budget*: of all requests that were answered, or cancelled after their budget had passed, those answered in it.
- *Typed through*: keys that were the next character of the suggestion shown; the share of the answered ones among
  their requests for which the server did not ask the model.
- *Accepted share*: keys that accepts made unnecessary, of all keys of the runs.
- *Flawed*: of the texts that the model made, those that are marks alone, right or wrong, or that make a finished word
  longer.
- *Empty where the ceiling shows*: of the answers at places where the full answer shows text, the empty ones.
"""

import base64
import io
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

from benchmarks.harness import number, percent, percentiles, share
from benchmarks.typist.ceiling import Ceiling
from benchmarks.typist.replay import TYPED_THROUGH, ReplaySession, Request
from fastcoder_lsp.observe import SPANS

Found = Mapping[str, Any]
Table = tuple[str, Sequence[str], Sequence[Sequence[object]]]
"""Title, columns and rows."""
PARTS = ("queue", "prompt", "prefill", "draft", "verify", "post")
OUTCOMES = ("by the model", "typed through", "empty", "cancelled in time", "cancelled late")
SHARES = ("within_budget", "within_budget_empty", "empty_where_ceiling_shows", "typed_through")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left }
img { max-width: 100% } p { color: #555 }
"""


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
        **flaws(requests),
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
    }


def flaws(requests: Sequence[Request]) -> dict[str, Any]:
    count = Counter(request.flaw for request in requests if request.by_model)
    return {"flaws": {flaw: count[flaw] for flaw in ("marks", "wrong marks", "longer word")}}


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


def timeline(requests: Sequence[Request]) -> list[dict[str, Any]]:
    return [
        {"outcome": request.outcome, "ms": round(request.ms, 1), "finish": request.finish}
        | {"parts": {span: round(request.parts.get(span, 0.0), 1) for span in SPANS}}
        for request in requests
    ]


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
        f"{title}: what the keys got (texts in the way: percent of the shown)",
        ("drafter", "requests", "no answer", "shown", "from memory", "empty", "marks", "wrong marks", "longer words"),
        [
            (name, *(row[count] for count in counts), *(percent(part) for part in in_the_way(row)))
            for name, row in found.items()
        ],
    )
    yield (
        f"{title}: typing and work",
        ("drafter", "not typed %", "ceiling %", "prefill/key", "steps/key", "MAT", "CPU s/key"),
        [
            (
                name,
                *(percent(row[what]) for what in ("accepted_chars_share", "ceiling_chars_share")),
                *(number(row[what], "g") for what in ("prefilled_tokens_per_key", "steps_per_key")),
                *(number(row[what], ".2f") for what in ("mat", "cpu_seconds_per_char")),
            )
            for name, row in found.items()
        ],
    )


def in_the_way(found: Found) -> tuple[float | None, ...]:
    """Shares of the texts that the model made: marks alone, wrong marks, words made longer."""
    named, wrong = found["flaws"], found["flaws"]["wrong marks"]
    return tuple(share(count, found["shown"]) for count in (named["marks"] + wrong, wrong, named["longer word"]))


def _sessions(full: Found) -> dict[str, Found]:
    return {
        f"{name}, {speed}/s": at_speed
        for table in ("drafters", "ablation")
        for name, row in full[table].items()
        for speed, at_speed in row["by_speed"].items()
    }


def _times(found: Found) -> list[str]:
    return [number(found["ghost_ms"][name], ".0f") for name in ("p50", "p95", "p99")]


def page(report: Found) -> str:
    """Return one well-formed HTML page without script or network, drawn from the JSON report."""
    title, body = escape(f"Typing {report['history']}"), "\n".join(_sections(report))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<title>{title}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def _sections(report: Found) -> Iterator[str]:
    sessions, speeds, machine = _sessions(report), report["speeds"], report["machine"]
    server = next((found["server"] for found in sessions.values()), {"model": "", "engine": ""})
    yield _words(
        f"Typed against the real server at {' and '.join(speeds)} characters a second: an automatic request after each "
        f"key; each edit cancels the one before. {server['model']} on {server['engine']}; {machine['processor']}, "
        f"{machine['cores']} cores; {report['date'][:10]}."
    )
    yield from (_table(*table) for table in tables(report))
    drafters = _sessions({**report, "ablation": {}})
    if drafters:
        first = {name: row["by_speed"][speeds[0]] for name, row in report["drafters"].items()}
        yield _picture(partial(_distributions, drafters), "Time to ghost text, ms: shares of the requests")
        for title, part, found in (
            ("Mean milliseconds of an answer by the model, at the first speed", _parts, first),
            ("Tokens a forward pass, by the source that guessed them", _sources, first),
            ("Shares of the requests, by outcome", _outcomes, drafters),
        ):
            yield _picture(partial(_bars, {name: part(one) for name, one in found.items()}), title)
        mechanisms = {name: dict(found["mechanisms"]) for name, found in drafters.items()}
        counted = dict.fromkeys(what for counts in mechanisms.values() for what in counts)
        counts = [[what, *(counts.get(what, 0) for counts in mechanisms.values())] for what in counted]
        yield _table("The server's counts while typing, by mechanism", ("", *drafters), counts)
    settings = {name: value for name, value in report["settings"].items() if value not in (None, [])}
    told = {
        "seed": report["subset"]["seed"],
        "settings": ", ".join(f"{name} = {value}" for name, value in settings.items()),
        "system": f"{machine['system']}, Python {machine['python']}, {machine['memory_bytes'] / 1e9:.0f} GB",
        "versions": ", ".join(f"{name} {number}" for name, number in report["versions"].items()),
    }
    yield _table("How it was measured", ("", ""), list(told.items()))


def _distributions(sessions: Mapping[str, Found], axes: Any) -> None:
    for name, found in sessions.items():
        wanted = ("by the model", "cancelled late")
        times = sorted(one["ms"] for one in found["timeline"] if outcome(one, found["budget_ms"]) in wanted)
        if times:
            axes.ecdf(times, label=name)
    budget = max(found["budget_ms"] for found in sessions.values())
    axes.axvline(budget, color="grey", linestyle="--", label=f"budget {budget:.0f} ms")
    axes.set_xlim(0, 4 * budget)


def _bars(rows: Mapping[str, Mapping[str, float]], axes: Any) -> None:
    """One bar of pieces for each row, from the top down."""
    left = dict.fromkeys(rows, 0.0)
    for piece in dict.fromkeys(piece for row in rows.values() for piece in row):
        widths = [row.get(piece, 0.0) for row in rows.values()]
        axes.barh(list(rows), widths, left=list(left.values()), label=piece)
        left = {name: start + width for (name, start), width in zip(left.items(), widths, strict=True)}
    axes.invert_yaxis()


def _parts(found: Found) -> dict[str, float]:
    made = [one["parts"] for one in found["timeline"] if outcome(one, found["budget_ms"]) == "by the model"]
    return {part: sum(parts[part] for parts in made) / max(1, len(made)) for part in PARTS}


def _sources(found: Found) -> dict[str, float]:
    drafted = {source: count / max(1, found["steps"]) for source, count in found["accepted_by_source"].items()}
    return {"the model's own": max((found["mat"] or 0.0) - sum(drafted.values()), 0.0)} | drafted


def _outcomes(found: Found) -> dict[str, float]:
    became = [outcome(one, found["budget_ms"]) for one in found["timeline"]]
    return {name: became.count(name) / max(1, len(became)) for name in OUTCOMES}


def outcome(answer: Found, budget_ms: float) -> str:
    if answer["outcome"] == "cancelled":
        return "cancelled late" if answer["ms"] > budget_ms else "cancelled in time"
    if answer["outcome"] == "empty":
        return "empty"
    return "typed through" if answer["finish"] == TYPED_THROUGH else "by the model"


def _picture(draw: Callable[[Any], None], title: str) -> str:
    from matplotlib.figure import Figure

    figure, drawn = Figure(figsize=(9, 3.5), layout="constrained"), io.BytesIO()
    axes = figure.subplots()
    draw(axes)
    axes.legend()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    data = base64.b64encode(drawn.getvalue()).decode()
    return f'<h2>{escape(title)}</h2>\n<img alt="{escape(title)}" src="data:image/svg+xml;base64,{data}"/>'


def _words(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<h2>{escape(title)}</h2>\n<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
