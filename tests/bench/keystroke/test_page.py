"""The HTML report: one page that needs nothing else."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.keystroke import by_drafter
from benchmarks.keystroke_report import figures, page, timeline
from benchmarks.typist.ceiling import Ceiling
from benchmarks.typist.replay import Arm, ReplaySession, Request, ServerWork
from benchmarks.typist.typist import KeyPosition
from fastcoder_lsp.bench import report

pytest.importorskip("matplotlib")
PARTS = {"queue": 1.0, "prompt": 1.0, "prefill": 30.0, "draft": 1.0, "verify": 60.0, "post": 1.0, "total": 94.0}
SHOWN = Request(KeyPosition(0, 0), through=False, outcome="shown", ms=95.0, finish="stop", parts=PARTS)


def made_up(history: str = "small") -> dict[str, Any]:
    requests = (
        SHOWN,
        Request(KeyPosition(0, 1), False, "cancelled", 500.0),
        Request(KeyPosition(0, 2), False, "empty", 9.0),
    )
    work = (ServerWork(), ServerWork(4, 9, 30, {"prompt": 3, "<b>": 2}, {"adopted": 1}))
    played = ReplaySession(requests, work, 3, 5, 1, 400.0, 1.0, 3.0, 1, {"model": "m", "engine": "e"})
    nothing = ReplaySession((), (ServerWork(),), 0, 0, 0, 400.0, 0.0, 1.0, 1, {"model": "m", "engine": "e"})
    results = {
        arm: figures(each, Ceiling({}, 8, {0: 6})) | {"timeline": timeline(each.requests), "server": dict(each.server)}
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
    drawn = page(made_up())
    elements = list(ET.fromstring(drawn.removeprefix("<!doctype html>\n")).iter())
    assert "script" not in {element.tag for element in elements}
    fetched = [element.get(name, "data:image/") for element in elements for name in ("src", "href", "data", "action")]
    assert all(address.startswith("data:image/") for address in fetched)
    assert not re.findall(r"url\(|@import", drawn)
    assert [element.tag for element in elements].count("img") == 4
    assert [element.tag for element in elements].count("table") == 5


def test_names_are_written_as_they_are() -> None:
    drawn = page(made_up("<i>odd</i>"))
    assert "<i>odd" not in drawn
    assert "&lt;i&gt;odd" in drawn
    assert "<b>" not in drawn
