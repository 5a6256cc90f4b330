"""The loss curve of a run: a line of JSON for each step, and a picture of them.

Owns both files. A resumed run drops the lines after its checkpoint: the file is what one run would have written.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 860, 420, 64, 44, 150, 48
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # apart for colour-blind eyes too (Okabe and Ito)
_SMOOTHING = 0.9


@dataclass(frozen=True, slots=True)
class Point:
    """After `step` steps, 0 before the first: the mean loss of each term in nats; `held_out`: on text never learnt."""

    step: int
    losses: Mapping[str, float]
    held_out: bool = False


class Curve:
    """The points of a run, in memory and in the file `path`."""

    def __init__(self, path: Path, upto: int) -> None:
        self._path = path
        self.points = [point for point in read_points(path) if point.step <= upto] if upto else []
        path.write_text("".join(map(_line, self.points)), encoding="utf-8")

    def add(self, point: Point) -> None:
        """Keep a point; written before this returns."""
        self.points.append(point)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(point))

    def smoothed(self) -> dict[str, float]:
        """Each term's running mean at the end."""
        return {name: values[-1][1] for name, values in series(self.points, held_out=False).items() if values}

    def ends(self, *, held_out: bool) -> dict[str, tuple[float, float]]:
        """Each term's first and last value (the running mean's last, for training)."""
        found = series(self.points, held_out=held_out)
        return {name: (values[0][1], values[-1][1]) for name, values in found.items() if values}


def series(points: Sequence[Point], *, held_out: bool) -> dict[str, list[tuple[int, float]]]:
    """Term → (step, loss); training's are running means, for single steps jump."""
    found: dict[str, list[tuple[int, float]]] = {}
    for point in points:
        if point.held_out == held_out:
            for name, loss in point.losses.items():
                values = found.setdefault(name, [])
                share = 0.0 if held_out or not values else min(_SMOOTHING, len(values) / (len(values) + 1))
                values.append((point.step, share * values[-1][1] + (1 - share) * loss if values else loss))
    return found


def draw(points: Sequence[Point], title: str) -> str:
    """The curve as SVG: lines for training's running means, dots and dashes for held-out text."""
    trained, held = series(points, held_out=False), series(points, held_out=True)
    every = [value for values in (*trained.values(), *held.values()) for value in values]
    last = max((step for step, _ in every), default=1) or 1
    top = max((loss for _, loss in every), default=1.0) or 1.0
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(step: int, loss: float) -> str:
        return f"{_LEFT + inner_width * step / last:.1f},{_TOP + inner_height * (1 - loss / top):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="26" font-size="16">{escape(title)}</text>',
    ]
    for tick in range(5):
        loss, y = top * tick / 4, _TOP + inner_height * (1 - tick / 4)
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + inner_width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" font-size="12" text-anchor="end">{loss:.2f}</text>')
        step, x = round(last * tick / 4), _LEFT + inner_width * tick / 4
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 24}" font-size="12" text-anchor="middle">{step}</text>')
    parts.append(
        f'<text x="{_LEFT + inner_width / 2}" y="{_HEIGHT - 6}" font-size="12" text-anchor="middle">step</text>'
    )
    for index, name in enumerate(sorted({*trained, *held})):
        colour = _COLOURS[index % len(_COLOURS)]
        for values, dashes in ((trained.get(name, []), ""), (held.get(name, []), ' stroke-dasharray="5 4"')):
            path = " ".join(place(*value) for value in values)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dashes}/>')
        parts += [
            f'<circle cx="{place(*value).split(",")[0]}" cy="{place(*value).split(",")[1]}" r="3" fill="{colour}"/>'
            for value in held.get(name, [])
        ]
        y = _TOP + 8 + 20 * index
        parts.append(f'<text x="{_WIDTH - _RIGHT + 10}" y="{y}" font-size="13" fill="{colour}">{escape(name)}</text>')
    note = "dashed: text never trained on"
    parts.append(f'<text x="{_WIDTH - _RIGHT + 10}" y="{_HEIGHT - _BOTTOM}" font-size="10">{note}</text></svg>\n')
    return "\n".join(parts)


def read_points(path: Path) -> list[Point]:
    """The points in a run's file; none where there is none."""
    points = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the line that a crash cut short
            points.append(Point(row["step"], row["losses"], row["held_out"]))
    return points


def _line(point: Point) -> str:
    row = {"step": point.step, "losses": dict(point.losses), "held_out": point.held_out}
    return json.dumps(row) + "\n"
