"""Where in a line retrieval succeeds: the paper's heat maps, as an SVG picture.

Owns the counting by place (token index in its line × line of the output) and the drawing. A token counts as retrieved
where it was an accepted draft.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.drafting.replay import Step
from benchmarks.drafting.traces import Trace

COLUMNS, LINES = 13, 16
"""Token indexes 0–12, as in the paper, and the first lines of the output."""
_CELL, _MARGIN = 22, 46

Shares = npt.NDArray[np.float64]
"""[LINES, COLUMNS], NaN where no token ever stood."""


def positions(tokens: Iterable[int], piece: Callable[[int], bytes]) -> list[tuple[int, int]]:
    """(line, index in the line) of each token; a token with a line end in it closes its line."""
    found, line, index = [], 0, 0
    for token in tokens:
        found.append((line, index))
        ends = piece(token).count(b"\n")
        line, index = (line + ends, 0) if ends else (line, index + 1)
    return found


def retrieved_share(
    traces: Sequence[Trace], steps: Mapping[str, Sequence[Step]], piece: Callable[[int], bytes]
) -> Shares:
    """The share of the tokens at each place that were accepted drafts."""
    marks = []
    for trace in traces:
        accepted = np.zeros(len(trace.tokens), np.bool_)
        for step in steps[trace.task.id]:
            accepted[step.position : step.position + len(step.sources)] = True
        marks.append(accepted)
    return _shares(traces, marks, piece)


def blank_share(traces: Sequence[Trace], piece: Callable[[int], bytes]) -> Shares:
    """The share of the tokens at each place that are white space."""
    return _shares(traces, [np.array([not piece(token).strip() for token in t.tokens]) for t in traces], piece)


def _shares(traces: Sequence[Trace], marks: Sequence[npt.NDArray[np.bool_]], piece: Callable[[int], bytes]) -> Shares:
    seen, marked = np.zeros((LINES, COLUMNS)), np.zeros((LINES, COLUMNS))
    for trace, mark in zip(traces, marks, strict=True):
        for (line, index), is_marked in zip(positions(trace.tokens, piece), mark, strict=True):
            if line < LINES and index < COLUMNS:
                seen[line, index] += 1
                marked[line, index] += is_marked
    with np.errstate(invalid="ignore"):
        shares: Shares = marked / seen
    return shares


def draw(panels: Mapping[str, Shares], path: Path) -> None:
    """One panel beside the other: darker is more; the share in percent in each cell."""
    width = len(panels) * (COLUMNS * _CELL + _MARGIN) + 8
    height = LINES * _CELL + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
        f'<path d="M0 0h{width}v{height}H0z" fill="#fff"/>',
    ]
    for number, (title, shares) in enumerate(panels.items()):
        left = number * (COLUMNS * _CELL + _MARGIN) + _MARGIN
        parts += [f'<g transform="translate({left} {_MARGIN})" font-size="9">', *_panel(title, shares), "</g>"]
    path.write_text("\n".join([*parts, "</svg>\n"]), encoding="utf-8")


def _panel(title: str, shares: Shares) -> list[str]:
    """Draw one panel, its first cell at the origin."""
    below = LINES * _CELL + 16
    parts = [
        f'<text y="-28" font-size="13">{escape(title)}</text>',
        f'<text y="{below}">token in its line → / line of the output ↓, percent</text>',
        *(f'<text x="{column * _CELL + 8}" y="-6">{column}</text>' for column in range(COLUMNS)),
        '<g text-anchor="end">',
        *(f'<text x="-5" y="{line * _CELL + 15}">{line}</text>' for line in range(LINES)),
        '</g><g text-anchor="middle" font-size="8">',
    ]
    for line, column in np.argwhere(~np.isnan(shares)).tolist():
        x, y, share = column * _CELL, line * _CELL, float(shares[line, column])
        ink = ' fill="#fff"' if share > 0.6 else ""
        parts.append(
            f'<path d="M{x} {y}h{_CELL}v{_CELL}h-{_CELL}z" fill="{_shade(share)}"/>'
            f'<text x="{x + _CELL // 2}" y="{y + 14}"{ink}>{round(100 * share)}</text>'
        )
    return [*parts, "</g>"]


def _shade(share: float) -> str:
    """The colour of a value, from nearly white to dark blue."""
    light, dark = (0xF0, 0xF5, 0xFC), (0x14, 0x46, 0xA0)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(light, dark, strict=True))
