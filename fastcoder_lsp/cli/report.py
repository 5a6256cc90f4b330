"""`fastcoder-lsp report`: months of use on one page, from the counts on this machine."""

import argparse
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from html import escape
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from fastcoder_lsp.config import usage_folder
from fastcoder_lsp.core.files import private_folder, write_whole
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.usage import WAIT_MS, CountKey, UsageStore

SOURCES: Final[Mapping[str, str]] = {
    "model": "the model generated it for this request",
    "cache": "it was ready: computed ahead, or shown before",
    "edit": "a next edit",
}
_RIGHT: Final[Mapping[str, tuple[str, str]]] = {
    "first_word_right": ("word right", "compared"),
    "first_line_right": ("line right", "compared"),
    "lines_right": ("lines right", "lines"),
}
_TYPING: Final[Mapping[str, tuple[str, str]]] = {
    "shown_per_typed": ("shown", "typed"),
    "changed_per_typed": ("changed", "typed"),
    "cpu_ms_per_typed": ("cpu", "typed"),
    "cpu_ms_per_saved": ("cpu", "characters"),
}
"""Name → the counts whose ratio it is."""
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 160, 44, 22
_MOST_WEEKS: Final = 58
_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1f2328;--faint:#6e7781;--back:#fff;--panel:#f6f8fa;--line:#d0d7de;--bar:#2f6feb;
--second:#1a7f37}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--faint:#8b949e;--back:#0d1117;--panel:#161b22;--line:#30363d;
--bar:#4493f8;--second:#3fb950}}
body{margin:2rem auto;max-width:48rem;padding:0 1rem;background:var(--back);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.3rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .3rem}p{color:var(--faint);margin:.2rem 0 .8rem}
.facts{display:flex;flex-wrap:wrap;gap:.8rem;margin:1rem 0}
.facts div{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:.6rem .9rem}
.facts b{display:block;font-size:1.3rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:right;padding:.25rem .5rem;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--faint)}
.bar{fill:var(--bar)}.second{fill:var(--second)}.axis{stroke:var(--line)}
@media(max-width:36rem){table{display:block;overflow-x:auto}p,h1,h2{overflow-wrap:anywhere}}
"""


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """Counts that belong together: of a language, a week, a source, or of everything."""

    counts: Counter[str] = field(default_factory=Counter)

    @property
    def shown(self) -> int:
        """Suggestions that were shown."""
        return self.counts["shown"]

    @property
    def accepted(self) -> int:
        """Suggestions that were accepted, whole or in part."""
        return self.counts["accepted"]

    @property
    def characters(self) -> int:
        """Characters that accepting inserted."""
        return self.counts["characters"]

    @property
    def accepted_share(self) -> float | None:
        """Of the shown suggestions, those accepted; None if none was shown."""
        return self.accepted / self.shown if self.shown else None

    @property
    def kept_share(self) -> float | None:
        """Of the accepted suggestions, those that still stood there after a minute; None if none was judged."""
        judged = self.counts["judged"]
        return self.counts["kept"] / judged if judged else None

    def ratio(self, part: str, whole: str) -> float | None:
        """One count divided by another; None by none."""
        return self.counts[part] / self.counts[whole] if self.counts[whole] else None

    @property
    def waits(self) -> list[int]:
        """Suggestions in each class of waiting times; the last one is the longest."""
        return [self.counts[f"wait {bound}"] for bound in (*WAIT_MS, "more")]

    @property
    def half_wait_ms(self) -> int | None:
        """The upper bound of the class with half of the waits; None beyond all bounds, or without waits."""
        waits = self.waits
        so_far = accumulate(waits)
        return next(
            (ms for ms, number in zip(WAIT_MS, so_far, strict=False) if number and 2 * number >= sum(waits)), None
        )

    def to_json(self) -> dict[str, Any]:
        """The counts, for programs."""
        return {
            "shown": self.shown,
            "accepted": self.accepted,
            "characters": self.characters,
            "kept_share": self.kept_share,
            "wait_ms": dict(zip([*map(str, WAIT_MS), "more"], self.waits, strict=True)),
        }


@dataclass(frozen=True, slots=True)
class Usage:
    """The counts by what the page asks. `weeks`: the latest with counts, by Monday, in order.

    `typed`: of the days on which typed characters were counted, which older versions do not.
    """

    all: UsageTotals
    typed: UsageTotals
    languages: Mapping[str, UsageTotals]
    sources: Mapping[str, UsageTotals]
    weeks: Mapping[date, UsageTotals]
    first: date | None
    last: date | None

    def to_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "first_day": self.first and self.first.isoformat(),
            "last_day": self.last and self.last.isoformat(),
            "all": self.all.to_json(),
            "shown_right": {name: self.all.ratio(*counts) for name, counts in _RIGHT.items()},
            "typing": {name: self.typed.ratio(*counts) for name, counts in _TYPING.items()},
            "languages": {name: totals.to_json() for name, totals in self.languages.items()},
            "sources": {name: totals.to_json() for name, totals in self.sources.items()},
            "weeks": {day.isoformat(): totals.to_json() for day, totals in self.weeks.items()},
        }


def summed(counts: Mapping[CountKey, int]) -> Usage:
    """Sum counts up; languages with the most shown suggestions come first."""
    everything, typed = UsageTotals(), UsageTotals()
    typed_days = {key.day for key in counts if key.what == "typed"}
    languages: defaultdict[str, UsageTotals] = defaultdict(UsageTotals)
    sources: defaultdict[str, UsageTotals] = defaultdict(UsageTotals)
    weeks: defaultdict[date, UsageTotals] = defaultdict(UsageTotals)
    days = set[date]()
    for key, number in counts.items():
        try:
            day = date.fromisoformat(key.day)
        except ValueError:
            continue  # a damaged row
        days.add(day)
        monday = day - timedelta(days=day.weekday())
        for totals in (everything, languages[key.language], sources[key.source], weeks[monday]):
            totals.counts[key.what] += number
        if key.day in typed_days:
            typed.counts[key.what] += number
    return Usage(
        everything,
        typed,
        dict(sorted(((name, of) for name, of in languages.items() if of.shown), key=lambda one: -one[1].shown)),
        {name: sources[name] for name in SOURCES if name in sources},
        # Not all weeks between: a clock that was ahead once would leave nothing but empty ones.
        {monday: weeks[monday] for monday in sorted(weeks)[-_MOST_WEEKS:]},
        min(days, default=None),
        max(days, default=None),
    )


def page(usage: Usage) -> str:
    """The page, complete and self-contained."""
    whole = usage.all
    facts = (
        ("accepted", f"{_percent(whole.accepted_share)} of {whole.shown:,} shown"),
        ("characters not typed", f"{whole.characters:,}"),
        ("kept after a minute", _percent(whole.kept_share)),
        ("half come within", _bound(whole.half_wait_ms)),
    )
    right = [whole.ratio(*counts) for counts in _RIGHT.values()]
    shown, changed, cpu, saved = (usage.typed.ratio(*counts) for counts in _TYPING.values())
    typing = (
        ("shown", _number(shown, 100, "a hundred typed characters")),
        ("changed under your eyes", _number(changed, 100, "a hundred typed characters")),
        ("CPU", _number(cpu, 1, "ms a typed character")),
        ("CPU", _number(saved, 1, "ms a character not typed")),
    )
    period = f"{usage.first} to {usage.last}." if usage.first else "Nothing was counted yet."
    weeks = list(usage.weeks.items())
    labels = [f"{monday:%d %b}" for monday, _ in weeks]
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"><title>fastcoder-lsp report</title>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<style>{_STYLE}</style></head><body>",
            f"<h1>fastcoder-lsp report</h1><p>{escape(period)} Counted on this machine alone.</p>",
            '<div class="facts">',
            *_boxes(facts),
            "</div>",
            "<h2>Is it right?</h2>",
            "<p>Suggestions that were shown, compared with what stood there a minute later.</p>",
            '<div class="facts">',
            *_boxes(zip(("first word right", "first line right", "lines right"), map(_percent, right), strict=True)),
            "</div>",
            "<h2>Does it disturb?</h2>",
            "<p>How often something appears or changes while you type, and how much the processor works for it.</p>",
            '<div class="facts">',
            *_boxes(typing),
            "</div>",
            "<h2>Is it worth it?</h2>",
            "<p>By language. <i>Kept</i>: of the accepted ones, those whose text was still there after a minute.</p>",
            _table(usage.languages),
            "<h2>Is it getting better?</h2><p>Share of the shown suggestions that were accepted, by week.</p>",
            _bars(labels, [totals.accepted_share or 0.0 for _, totals in weeks], _percent, highest=1.0),
            "<p>Characters that accepting inserted, by week.</p>",
            _bars(labels, [float(totals.characters) for _, totals in weeks], "{:,.0f}".format, kind="second"),
            "<h2>What is slow?</h2><p>Milliseconds from the request to the suggestion, by source.</p>",
            *(_waits(name, totals) for name, totals in usage.sources.items() if any(totals.waits)),
            "</body></html>\n",
        )
    )


def _boxes(facts: Iterable[tuple[str, str]]) -> list[str]:
    return [f"<div>{escape(name)}<b>{escape(value)}</b></div>" for name, value in facts]


def _table(languages: Mapping[str, UsageTotals]) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{totals.shown:,}</td><td>{_percent(totals.accepted_share)}</td>"
        f"<td>{totals.characters:,}</td><td>{_percent(totals.kept_share)}</td></tr>"
        for name, totals in languages.items()
    )
    head = "<tr><th>language</th><th>shown</th><th>accepted</th><th>characters</th><th>kept</th></tr>"
    return f"<table>{head}{rows}</table>"


def _waits(name: str, totals: UsageTotals) -> str:
    waits, labels = totals.waits, [*(f"≤ {bound}" for bound in WAIT_MS), "more"]
    shares = [number / sum(waits) for number in waits]
    heading = f"<p><b>{escape(name)}</b>: {escape(SOURCES[name])} ({sum(waits):,})</p>"
    return heading + _bars(labels, shares, _percent, highest=max(shares))


def _bars(
    labels: Sequence[str], values: Sequence[float], written: Any, *, highest: float | None = None, kind: str = "bar"
) -> str:
    """Bars with labels below them and the highest value at the axis; few labels where there are many bars."""
    if not values:
        return ""
    top, inner = highest or max(values) or 1.0, _HEIGHT - _BOTTOM
    step = (_WIDTH - _LEFT) / len(values)
    every = -(-len(labels) // 10)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="bars">',
        f'<text x="{_LEFT - 6}" y="12" text-anchor="end">{escape(written(top))}</text>',
        f'<line class="axis" x1="{_LEFT}" y1="{inner}" x2="{_WIDTH}" y2="{inner}"/>',
    ]
    for number, (label, value) in enumerate(zip(labels, values, strict=True)):
        tall, x = (inner - 4) * min(value / top, 1.0), _LEFT + number * step
        title = f"<title>{escape(label)}: {escape(written(value))}</title>"
        parts.append(
            f'<rect class="{kind}" x="{x + 0.15 * step:.1f}" y="{inner - tall:.1f}" width="{0.7 * step:.1f}" '
            f'height="{tall:.1f}">{title}</rect>'
        )
        if number % every == 0:
            middle = x + step / 2
            parts.append(f'<text x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(label)}</text>')
    return "".join([*parts, "</svg>"])


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _number(ratio: float | None, times: int, what: str) -> str:
    return "–" if ratio is None else f"{times * ratio:.1f} {what}"


def _bound(ms: int | None) -> str:
    return "–" if ms is None else f"{ms} ms"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report",
        help="show months of use: shown, accepted and kept suggestions, and waits",
        description="Draw a page from the counts that your editors' servers keep on this machine: numbers by day and "
        "language, no text and no paths. The setting `usage.enabled` turns counting off.",
        epilog="Example: fastcoder-lsp report --open",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the page goes (default: the cache folder)")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.add_argument("--json", action="store_true", help="print the counts instead, as JSON")
    parser.add_argument("--delete", action="store_true", help="delete all counts")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    folder = usage_folder()
    store = UsageStore(folder)
    if arguments.delete:
        try:
            there = store.delete()
            (folder / "report.html").unlink(missing_ok=True)
        except (OSError, sqlite3.Error) as error:
            raise ResourceError(f"the counts in {folder} cannot be deleted: {error}", _hint(error)) from error
        print("All counts are deleted." if there else "There are no counts.")
        return 0

    try:
        usage = summed(store.read())
    except (OSError, sqlite3.Error) as error:
        hint = _hint(error) or "Delete them: fastcoder-lsp report --delete"
        raise ResourceError(f"the counts in {folder} cannot be read: {error}", hint) from error
    if arguments.json:
        print(json.dumps(usage.to_json(), indent=1))
        return 0
    if usage.first is None:
        print("Nothing was counted yet. Use an editor with the setting `usage.enabled`, which is on by default.")
        return 0
    out: Path = arguments.out or private_folder(folder) / "report.html"
    try:
        write_whole(out, page(usage))
    except OSError as error:
        raise ResourceError(f"{out} cannot be written: {error.strerror}", "Name another file with --out.") from error
    _print_summary(usage)
    print(out)
    if arguments.open:
        import webbrowser

        webbrowser.open(out.absolute().as_uri())
    return 0


def _print_summary(usage: Usage) -> None:
    whole = usage.all
    share = "" if whole.accepted_share is None else f" ({100 * whole.accepted_share:.0f} %)"
    kept = "" if whole.kept_share is None else f", {100 * whole.kept_share:.0f} % of them kept after a minute"
    print(f"{usage.first} to {usage.last}: {whole.shown:,} shown, {whole.accepted:,} accepted{share}{kept}")
    print(f"{whole.characters:,} characters were not typed")
    word, line, lines = (_percent(whole.ratio(*counts)) for counts in _RIGHT.values())
    if whole.counts["compared"]:
        print(f"of what was shown, {word} of first words, {line} of first lines and {lines} of all lines were right")
    shown, changed, cpu, saved = (usage.typed.ratio(*counts) for counts in _TYPING.values())
    if shown is not None and changed is not None:
        print(f"a hundred typed characters: {100 * shown:.1f} suggestions, {100 * changed:.1f} changed while shown")
    if cpu is not None:
        print(f"CPU: {_number(cpu, 1, 'ms a typed character')}, {_number(saved, 1, 'ms a character not typed')}")


def _hint(error: Exception) -> str:
    busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
    return "An editor writes them: run the command again." if busy else ""
