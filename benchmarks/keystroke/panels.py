"""The panels of the report: each a table or pictures, from the figures of all drafters.

Owns which figures stand in which panel; the order is `page`'s.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.keystroke.charts import Segments, Series, bars, distribution, over_time
from benchmarks.keystroke.records import TYPED_THROUGH

Found = Mapping[str, Any]
PARTS = ("queue", "prompt", "prefill", "draft", "verify", "post")
PALETTE = ("c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8")
KNOWN = ("none", "fastcoder", "cacheback", "auto")
OUTCOMES = ("by the model", "typed through", "empty", "cancelled in time", "cancelled late")
MECHANISMS = (
    ("typed_through", "typed through", "keys along the ghost text, answered from memory"),
    ("adopted", "adopted", "requests that went on with a decode that was running already"),
    ("budgeted", "budgeted", "answers that show the beginning of what the budget cut short"),
    ("budgeted_empty", "budgeted, empty", "answers with nothing whole to show at the deadline"),
    ("background", "background", "decodes finished while nobody asked"),
    ("ahead", "ahead", "prompts and completions made before anybody asked"),
    ("suppressed", "suppressed", "requests that a rule kept from showing anything"),
)


def tiles(name: str, speed: str, found: Found) -> str:
    """The figures that matter most, large."""
    ghost, share = found["ghost_ms"], found["accepted_of_ceiling"]
    tiles = (
        (_ms(ghost["p50"]), "time to ghost text, median"),
        (_ms(ghost["p95"]), "time to ghost text, 95 of 100"),
        (_percent(found["within_budget"]), f"answered within {found['budget_ms']:.0f} ms"),
        (_percent(found["accepted_chars_share"]), f"of the characters not typed, {_percent(share)} of the ceiling"),
        (_percent(found["typed_through"]), "of the keys along ghost text needed no model"),
        (f"{found['cpu_seconds_per_char']:.2f} s", "of processor time a key"),
    )
    cells = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(what)}</span></div>' for value, what in tiles
    )
    return f'<div class="tiles">{cells}</div>\n<p class="why">{escape(name)}, at {speed} characters a second.</p>'


def _card(inner: str) -> str:
    return f'<div class="card">{inner}</div>'


def table(rows: Mapping[str, Found], ours: str) -> str:
    """All figures, a line for each drafter and speed; those of `ours` stand out."""
    columns = (
        *("", "keys/s", "ghost p50, ms", "p95", "p99", "within budget", "of these empty", "empty, ceiling shows"),
        *("typed through", "accepted", "ceiling", "prefill tokens/key", "steps/key", "CPU s/key"),
    )
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = []
    for name, row in rows.items():
        for place, (speed, found) in enumerate(row["by_speed"].items()):
            ghost = found["ghost_ms"]
            cells = [
                *(name if place == 0 else "", speed, *(_whole(ghost[share]) for share in ("p50", "p95", "p99"))),
                *(
                    _percent(found[name])
                    for name in ("within_budget", "within_budget_empty", "empty_where_ceiling_shows")
                ),
                *(_percent(found["typed_through"]), _percent(found["accepted_chars_share"])),
                _percent(found["ceiling_chars_share"]),
                *(_plain(found["prefilled_tokens_per_key"]), _plain(found["steps_per_key"])),
                f"{found['cpu_seconds_per_char']:.2f}",
            ]
            mark = ' class="ours"' if name == ours else ""
            first = ' class="first"' if place == 0 else ""
            lines.append(f"<tr{first}>" + "".join(f"<td{mark}>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return _card(
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def distributions(drafters: Mapping[str, Found], speeds: Sequence[str]) -> Iterator[str]:
    """How the ghost times are spread, a picture for each speed."""
    legend = _legend([(name, _class(name)) for name in drafters])
    for place, speed in enumerate(speeds):
        at_speed = {name: row["by_speed"][speed] for name, row in drafters.items()}
        series = [Series(name, _class(name), _ghost_times(found)) for name, found in at_speed.items()]
        budget = max(found["budget_ms"] for found in at_speed.values())
        picture = distribution(f"{speed} characters a second", series, budget)
        yield _card((legend if place == 0 else "") + picture)


def _ghost_times(found: Found) -> list[float]:
    return [
        answer["ms"]
        for answer in found["timeline"]
        if _outcome(answer, found["budget_ms"]) in ("by the model", "cancelled late")
    ]


def spent(drafters: Mapping[str, Found], speed: str) -> str:
    """The parts of every answer of the model, a strip for each drafter."""
    rows = []
    for name, row in drafters.items():
        found = row["by_speed"][speed]
        made = [answer for answer in found["timeline"] if _outcome(answer, found["budget_ms"]) == "by the model"]
        rows.append((name, [answer["parts"] for answer in made]))
    totals = sorted(sum(parts[part] for part in PARTS) for _, answers in rows for parts in answers)
    most = totals[int(0.98 * (len(totals) - 1))] if totals else 1.0
    return _card(_legend([(part, f"part-{part}") for part in PARTS]) + over_time(rows, PARTS, max(most, 1.0)))


def by_source(drafters: Mapping[str, Found], speed: str) -> str:
    """The mean accepted length, by who guessed."""
    tables = {name: row["by_speed"][speed] for name, row in drafters.items()}
    totals: dict[str, int] = {}
    for found in tables.values():
        for source, count in found["accepted_by_source"].items():
            totals[source] = totals.get(source, 0) + count
    sources = sorted(totals, key=lambda source: -totals[source])
    own = "the model's own"
    classes = {own: "rest"} | {source: PALETTE[place % len(PALETTE)] for place, source in enumerate(sources)}
    rows = []
    for name, found in tables.items():
        passes = max(1, found["steps"])
        drafted = {source: found["accepted_by_source"].get(source, 0) / passes for source in sources}
        mat = found["mat"] or 0.0
        rows.append(Segments(name, {own: max(mat - sum(drafted.values()), 0.0)} | drafted, f"MAT {mat:.2f}"))
    legend = _legend([(source, classes[source]) for source in (own, *sources)])
    return _card(legend + bars(rows, classes, "tokens a pass"))


def outcomes(drafters: Mapping[str, Found]) -> str:
    """What became of the requests, as shares."""
    classes = dict(zip(OUTCOMES, ("c2", "c1", "rest", "c8", "late"), strict=True))
    rows = []
    for name, row in drafters.items():
        for speed, found in row["by_speed"].items():
            counts = dict.fromkeys(OUTCOMES, 0)
            for answer in found["timeline"]:
                counts[_outcome(answer, found["budget_ms"])] += 1
            whole = max(1, len(found["timeline"]))
            pieces = {outcome: count / whole for outcome, count in counts.items()}
            rows.append(Segments(f"{name}, {speed}/s", pieces, f"{whole} requests"))
    return _card(_legend(list(classes.items())) + bars(rows, classes, "%", most=1.0))


def _outcome(answer: Found, budget_ms: float) -> str:
    """Which of `OUTCOMES` one request came to."""
    if answer["outcome"] == "cancelled":
        return "cancelled late" if answer["ms"] > budget_ms else "cancelled in time"
    if answer["outcome"] == "empty":
        return "empty"
    return "typed through" if answer["finish"] == TYPED_THROUGH else "by the model"


def accepted(drafters: Mapping[str, Found]) -> str:
    """The characters that accepts brought in, beside the ceiling."""
    rows, marks = [], {}
    for name, row in drafters.items():
        for speed, found in row["by_speed"].items():
            label, share = f"{name}, {speed}/s", found["accepted_chars_share"] or 0.0
            ceiling = found["ceiling_chars_share"]
            note = f"{100 * share:.1f} % of {100 * ceiling:.1f} %"
            rows.append(Segments(label, {_class(name): share}, note))
            marks[label] = ceiling
    classes = {_class(name): _class(name) for name in drafters}
    return _card(bars(rows, classes, "%", most=1.0, marks=marks))


def mechanisms(drafters: Mapping[str, Found]) -> str:
    """The server's own counts, and what they mean."""
    names = [(name, speed, found) for name, row in drafters.items() for speed, found in row["by_speed"].items()]
    head = "".join(f"<th>{escape(name)}, {speed}/s</th>" for name, speed, _ in names)
    lines = []
    for key, name, what in MECHANISMS:
        counts = [
            found["origins"].get(TYPED_THROUGH, 0) if key == "typed_through" else found["mechanisms"].get(key, 0)
            for _, _, found in names
        ]
        cells = "".join(f"<td>{count}</td>" for count in counts)
        lines.append(f'<tr><td title="{escape(what)}">{escape(name)}</td>{cells}</tr>')
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    words = "".join(f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>" for _, name, what in MECHANISMS)
    return _card(f'<div class="scroll">{table}</div>') + f"<dl>{words}</dl>"


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    items = "".join(f'<span><i class="back-{class_}"></i>{escape(name)}</span>' for name, class_ in entries)
    return f'<div class="legend">{items}</div>'


def _class(drafter: str) -> str:
    return drafter if drafter in KNOWN else "other"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} ms"


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"
