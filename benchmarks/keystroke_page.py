"""The HTML report of `bench keystroke`: one page without script or network, drawn from the JSON report."""

import base64
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.typist.replay import TYPED_THROUGH

Found = Mapping[str, Any]
PARTS = ("queue", "prompt", "prefill", "draft", "verify", "post")
OUTCOMES = ("by the model", "typed through", "empty", "cancelled in time", "cancelled late")
MECHANISMS = {
    "typed through": "keys along the ghost text, answered from memory",
    "adopted": "requests that went on with a decode that was running already",
    "budgeted": "answers that show the beginning of what the budget cut short",
    "budgeted_empty": "answers with nothing whole to show at the deadline",
    "background": "decodes finished while nobody asked",
    "ahead": "prompts and completions made before anybody asked",
    "suppressed": "requests that a rule kept from showing anything",
}
COLUMNS = (
    *("", "keys/s", "ghost p50, ms", "p95", "p99", "within budget", "of these empty", "empty, ceiling shows"),
    *("typed through", "accepted", "ceiling", "prefill tokens/key", "steps/key", "CPU s/key"),
)
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left }
img { max-width: 100% } dt { font-weight: 600 } p { color: #555 }
"""
WITH_TAB = (
    "A suggestion that agrees with what comes next for at least one whole word is accepted with Tab; what is wrong of "
    "it is deleted."
)
STRICTLY = "A suggestion is accepted where all of it comes next; its first line, where that is the rest of the line."


def page(report: Found) -> str:
    """Return the whole page."""
    title, body = escape(f"Typing {report['history']}"), "\n".join(_sections(report))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def _sections(report: Found) -> Iterator[str]:
    drafters, speeds, subset, machine = report["drafters"], report["speeds"], report["subset"], report["machine"]
    every = [row for table in ("drafters", "ablation") for row in report[table].values()]
    server = next((next(iter(row["by_speed"].values()))["server"] for row in every), {"model": "", "engine": ""})
    yield _words(
        f"{subset['runs']} of {subset['of_runs']} recorded runs, {subset['keys']} keys, typed against the real server "
        f"at {' and '.join(speeds)} characters a second. {server['model']} on {server['engine']}; "
        f"{machine['processor']}, {machine['cores']} cores; {report['date'][:10]}."
    )
    if drafters:
        yield from _of_drafters(drafters, speeds)
    if report["ablation"]:
        yield _heading("Each mechanism switched off in turn", f"At {speeds[0]} characters a second.")
        yield _figures(report["ablation"])
    strict = report["settings"].get("strict")
    settings = ", ".join(f"{name} = {value}" for name, value in report["settings"].items() if value not in (None, []))
    yield _heading("How it was measured", "An automatic request after each key; each edit cancels the one before.")
    yield _list(
        {
            "accepting": STRICTLY if strict else WITH_TAB,
            "ceiling": "The full answers of plain decoding at the same places, by the same rule.",
            "seed": str(subset["seed"]),
            "settings": settings,
            "system": f"{machine['system']}, Python {machine['python']}, {machine['memory_bytes'] / 2**30:.0f} GiB",
            "versions": ", ".join(f"{name} {number}" for name, number in report["versions"].items()),
        }
    )


def _of_drafters(drafters: Mapping[str, Found], speeds: Sequence[str]) -> Iterator[str]:
    sessions = {
        f"{name}, {speed}/s": found for name, row in drafters.items() for speed, found in row["by_speed"].items()
    }
    first = {name: row["by_speed"][speeds[0]] for name, row in drafters.items()}
    yield _heading("The figures", "Each drafter typed the same runs, with the same pauses, in a workspace of its own.")
    yield _figures(drafters)
    yield _heading(
        "How soon ghost text is there",
        "Answers that show text which the model made, and requests that were cancelled after their budget had passed, "
        "at their age then. Further left is sooner.",
    )
    yield _picture("time to ghost text", lambda axes: _distributions(axes, sessions))
    yield _heading(
        "What the time of an answer is spent on",
        f"Every answer that the model gave, at {speeds[0]} characters a second: the mean of its parts.",
    )
    yield _picture("milliseconds", lambda axes: _bars(axes, {name: _parts(found) for name, found in first.items()}))
    yield _heading(
        "Tokens a forward pass, and who guessed them",
        "A pass gives one token of the model's own and the drafts that it accepts: together the mean accepted length.",
    )
    yield _picture("tokens", lambda axes: _bars(axes, {name: _sources(found) for name, found in first.items()}))
    yield _heading("What became of the requests", "One automatic request after each key.")
    yield _picture("share", lambda axes: _bars(axes, {name: _outcomes(found) for name, found in sessions.items()}))
    yield _heading("What each mechanism contributed", "Counts of the server, while typing.")
    counts = [[name, *(str(_count(found, name)) for found in sessions.values())] for name in MECHANISMS]
    yield _table(("", *sessions), counts) + _list(MECHANISMS)


def _distributions(axes: Any, sessions: Mapping[str, Found]) -> None:
    for name, found in sessions.items():
        wanted = ("by the model", "cancelled late")
        times = sorted(one["ms"] for one in found["timeline"] if outcome(one, found["budget_ms"]) in wanted)
        if times:
            axes.ecdf(times, label=name)
    budget = max(found["budget_ms"] for found in sessions.values())
    axes.axvline(budget, color="grey", linestyle="--", label=f"budget {budget:.0f} ms")
    axes.set_xlim(0, 4 * budget)
    axes.legend()


def _bars(axes: Any, rows: Mapping[str, Mapping[str, float]]) -> None:
    """One bar of pieces for each row, from the top down."""
    left = dict.fromkeys(rows, 0.0)
    for piece in dict.fromkeys(piece for row in rows.values() for piece in row):
        widths = [row.get(piece, 0.0) for row in rows.values()]
        axes.barh(list(rows), widths, left=list(left.values()), label=piece)
        left = {name: start + width for (name, start), width in zip(left.items(), widths, strict=True)}
    axes.invert_yaxis()
    axes.legend()


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
    """Which of `OUTCOMES` one request of a timeline came to."""
    if answer["outcome"] == "cancelled":
        return "cancelled late" if answer["ms"] > budget_ms else "cancelled in time"
    if answer["outcome"] == "empty":
        return "empty"
    return "typed through" if answer["finish"] == TYPED_THROUGH else "by the model"


def _count(found: Found, mechanism: str) -> int:
    counts = {"typed through": found["origins"].get(TYPED_THROUGH, 0)} | found["mechanisms"]
    return int(counts.get(mechanism, 0))


def _figures(rows: Mapping[str, Found]) -> str:
    shares = ("within_budget", "within_budget_empty", "empty_where_ceiling_shows", "typed_through")
    lines = []
    for name, row in rows.items():
        for speed, found in row["by_speed"].items():
            percents = [found[share] for share in (*shares, "accepted_chars_share", "ceiling_chars_share")]
            lines.append(
                [
                    *(name, speed, *(_number(found["ghost_ms"][share], "{:.0f}") for share in ("p50", "p95", "p99"))),
                    *(_number(share, "{:.1%}") for share in percents),
                    *(_number(found[each], "{:g}") for each in ("prefilled_tokens_per_key", "steps_per_key")),
                    _number(found["cpu_seconds_per_char"], "{:.2f}"),
                ]
            )
    return _table(COLUMNS, lines)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _picture(label: str, draw: Callable[[Any], None]) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    axes = figure.subplots()
    draw(axes)
    axes.set_xlabel(label)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    return f'<img alt="{escape(label)}" src="data:image/svg+xml;base64,{base64.b64encode(drawn.getvalue()).decode()}">'


def _heading(title: str, why: str) -> str:
    return f"<h2>{escape(title)}</h2>\n{_words(why)}"


def _words(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _list(entries: Mapping[str, str]) -> str:
    inner = "".join(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in entries.items())
    return f"<dl>{inner}</dl>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
