"""The HTML report: one page that needs nothing else."""

import re
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest

from benchmarks.keystroke.ceiling import Ceiling
from benchmarks.keystroke.drawing import steps_up_to
from benchmarks.keystroke.figures import figures, timeline
from benchmarks.keystroke.page import page
from benchmarks.keystroke.records import KeyPosition, Played, Request, ServerWork
from benchmarks.keystroke.run import by_drafter
from benchmarks.keystroke.session import Arm
from fastcoder_lsp.bench import report

PARTS = {"queue": 1.0, "prompt": 1.0, "prefill": 30.0, "draft": 1.0, "verify": 60.0, "post": 1.0, "total": 94.0}
SHOWN = Request(KeyPosition(0, 0), through=False, outcome="shown", ms=95.0, finish="stop", parts=PARTS)
VOID = frozenset({"meta", "br"})


class Outline(HTMLParser):
    """Which elements are open, which classes are used, what is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.classes: set[str] = set()
        self.fetched: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self._look(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self._look(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _look(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "class":
                self.classes |= set((value or "").split())
            elif name in ("src", "href", "data", "action"):
                self.fetched.append(value or "")


def made_up(history: str = "small") -> dict[str, Any]:
    requests = (
        SHOWN,
        Request(KeyPosition(0, 1), False, "cancelled", 500.0),
        Request(KeyPosition(0, 2), False, "empty", 9.0),
    )
    work = (ServerWork(), ServerWork(4, 9, 30, {"prompt": 3, "<b>": 2}, {"adopted": 1}))
    played = Played(requests, work, 3, 5, 1, 400.0, 1.0, 3.0, 1, {"model": "m", "engine": "e"})
    nothing = Played((), (ServerWork(),), 0, 0, 0, 400.0, 0.0, 1.0, 1, {"model": "m", "engine": "e"})
    results = {
        arm: figures(each, Ceiling({}, 8, 6)) | {"timeline": timeline(each.requests), "server": dict(each.server)}
        for arm, each in (
            (Arm("none", "none", 5.0), nothing),
            (Arm("auto", "auto", 5.0), played),
            (Arm("cacheback:leader_length=2", "x", 5.0), played),
            (Arm("all on", "auto", 5.0, is_ablation=True), played),
        )
    }
    subset = {"runs": 1, "of_runs": 1, "keys": 8, "seed": 0}
    return report.head("keystroke", {}) | {"history": history, "subset": subset, "speeds": ["5"]} | by_drafter(results)


def test_the_page_needs_no_network_and_no_script() -> None:
    """Well formed, nothing fetched, and every colour that is used has been given."""
    outline = Outline()
    drawn = page(made_up())
    outline.feed(drawn)
    assert outline.open == []
    assert not outline.fetched
    assert "script" not in outline.seen
    assert not re.findall(r"url\(|@import", drawn)
    style = (files("benchmarks.keystroke") / "page.css").read_text(encoding="utf-8")
    coloured = {name for name in outline.classes if name.startswith(("fill-", "back-", "stroke-"))}
    assert coloured
    assert all(f".{name} " in style for name in coloured)
    used, given = set(re.findall(r"var\((--[\w-]+)\)", style)), re.findall(r"(--[\w-]+):", style)
    assert all(given.count(name) == 2 for name in used), "a colour for light and one for dark"


def test_names_are_written_as_they_are() -> None:
    """What comes out of a history or a server is text, not markup."""
    drawn = page(made_up("<i>odd</i>"))
    assert "<i>odd" not in drawn
    assert "<b>: " not in drawn
    assert "&lt;b&gt;" in drawn


@pytest.mark.parametrize("most", [0.4, 1, 3, 7, 99, 100, 101, 1234.5])
def test_scales_are_round_and_reach_far_enough(most: float) -> None:
    """From zero, in equal steps, the last at or just above the largest value."""
    steps = steps_up_to(most)
    assert steps[0] == 0
    assert steps[-2] < most <= steps[-1] + 1e-9
    assert 2 <= len(steps) <= 7
