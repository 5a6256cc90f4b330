"""The pictures of the report, each from plain numbers.

Owns what each picture shows. Series and categories are named by CSS classes: a picture holds no colour.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.keystroke.drawing import WIDTH, bar, element, line, picture, steps_up_to, text

LEFT, RIGHT = 130.0, 20.0
"""Room for the names of rows, and for what stands over the right edge."""


@dataclass(frozen=True, slots=True)
class Series:
    """Some numbers under a name; `class_`: their colour."""

    name: str
    class_: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Segments:
    """A bar made of pieces: category → length. `note` stands behind it."""

    name: str
    pieces: Mapping[str, float]
    note: str = ""


def distribution(title: str, series: Sequence[Series], budget_ms: float) -> str:
    """Which share of the ghost texts was there by when: one rising line for each series, and the budget."""
    left, top, bottom = 56.0, 34.0, 250.0
    most = max((value for each in series for value in each.values), default=0.0)
    ticks = steps_up_to(max(min(most, 4 * budget_ms), 1.25 * budget_ms), 8)
    width = WIDTH - left - RIGHT

    def x_of(ms: float) -> float:
        return left + width * min(ms, ticks[-1]) / ticks[-1]

    def y_of(share: float) -> float:
        return bottom - (bottom - top) * share

    parts = [text(left, 18, title, "heading")]
    for share in (0.0, 0.25, 0.5, 0.75, 0.95):
        parts += [
            line(left, y_of(share), WIDTH - RIGHT, y_of(share), "grid"),
            text(left - 8, y_of(share) + 4, f"{100 * share:.0f} %", "tick", "end"),
        ]
    for ms in ticks:
        last = ms == ticks[-1]
        words, anchor = (f"{ms:.0f} ms", "end") if last else (f"{ms:.0f}", "middle")
        parts.append(text(x_of(ms), bottom + 18, words, "tick", anchor))
    parts += [
        line(x_of(budget_ms), top - 6, x_of(budget_ms), bottom, "budget"),
        text(x_of(budget_ms) + 6, bottom - 8, f"budget {budget_ms:.0f} ms", "note"),
    ]
    for each in series:
        ordered = sorted(each.values)
        if not ordered:
            continue
        points, before = [f"{x_of(ordered[0]):.1f},{y_of(0):.1f}"], 0.0
        for place, value in enumerate(ordered, 1):
            points += [f"{x_of(value):.1f},{y_of(before):.1f}", f"{x_of(value):.1f},{y_of(place / len(ordered)):.1f}"]
            before = place / len(ordered)
        points.append(f"{WIDTH - RIGHT:.1f},{y_of(1):.1f}")
        parts.append(element("polyline", points=" ".join(points), class_=f"curve stroke-{each.class_}"))
    return picture(bottom + 30, parts, f"{title}: distribution of the time to ghost text")


def over_time(rows: Sequence[tuple[str, Sequence[Mapping[str, float]]]], categories: Sequence[str], most: float) -> str:
    """The parts of every answer, in the order of the session: one strip of bars for each row, all on one scale.

    Args:
        rows: name → for each answer the milliseconds of its parts.
        categories: the parts, from the ground up; also their colours.
        most: the top of the scale, milliseconds.
    """
    height, gap, parts = 92.0, 26.0, []
    ticks = steps_up_to(most, 2)
    width = WIDTH - LEFT - RIGHT
    for row, (name, answers) in enumerate(rows):
        ground = 14 + (row + 1) * height + row * gap
        scale = height / ticks[-1]
        parts.append(text(LEFT - 54, ground - height / 2 + 4, name, "name", "end"))
        for ms in ticks:
            parts += [
                line(LEFT, ground - ms * scale, WIDTH - RIGHT, ground - ms * scale, "grid"),
                text(LEFT - 6, ground - ms * scale + 4, f"{ms:.0f}", "tick", "end"),
            ]
        each = width / max(1, len(answers))
        for place, answer in enumerate(answers):
            top = ground
            told = ", ".join(f"{part} {answer[part]:.0f}" for part in categories if answer[part] >= 0.5)
            for part in categories:
                size = min(answer[part] * scale, top - (ground - height))
                if size < 0.2:
                    continue
                top -= size
                parts.append(
                    bar(
                        LEFT + place * each,
                        top,
                        max(each - 0.6, 0.6),
                        size,
                        f"fill-part-{part}",
                        f"answer {place + 1}: {told} ms",
                    )
                )
        parts.append(text(LEFT, ground + 14, "first answer", "tick"))
        parts.append(text(WIDTH - RIGHT, ground + 14, f"answer {len(answers)}", "tick", "end"))
    total = 14 + len(rows) * (height + gap) + 4
    return picture(total, parts, "The parts of every answer's time, in the order of the session")


def bars(
    rows: Sequence[Segments],
    classes: Mapping[str, str],
    unit: str,
    most: float | None = None,
    marks: Mapping[str, float] | None = None,
) -> str:
    """Draw one bar of pieces for each row.

    Args:
        rows: from the top down.
        classes: category → colour.
        unit: what a length is, for the tooltips; "%" writes shares of 1 as percent.
        most: the right end; the longest bar by default.
        marks: row → a length that a line across its bar marks.
    """
    height, gap, right = 20.0, 12.0, 150.0
    marks = marks or {}
    longest = max([sum(row.pieces.values()) for row in rows] + list(marks.values()), default=1.0)
    scale = (WIDTH - LEFT - right) / ((most or longest) or 1.0)
    parts = []
    for place, row in enumerate(rows):
        y, x = 4 + place * (height + gap), LEFT
        parts.append(text(LEFT - 10, y + 14, row.name, "name", "end"))
        for name, length in row.pieces.items():
            told = f"{100 * length:.1f} %" if unit == "%" else f"{length:.2f} {unit}"
            parts.append(bar(x, y, length * scale - 1, height, f"fill-{classes[name]}", f"{row.name}: {name}, {told}"))
            x += length * scale
        if row.name in marks:
            at = LEFT + marks[row.name] * scale
            parts.append(line(at, y - 4, at, y + height + 4, "mark"))
            x = max(x, at)
        parts.append(text(x + 8, y + 14, row.note, "note"))
    return picture(8 + len(rows) * (height + gap), parts, "; ".join(f"{row.name}: {row.note}" for row in rows))
