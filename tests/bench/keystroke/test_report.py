"""The report of `bench keystroke` on made-up sessions: its figures, and a page that needs nothing else."""

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.datasets.histories import RecordedEdit
from benchmarks.keystroke import by_drafter, with_edits
from benchmarks.keystroke_report import figures, in_the_way, page, timeline
from benchmarks.typist import KeyPosition, Subset
from benchmarks.typist.ceiling import Ceiling
from benchmarks.typist.replay import Arm, ReplaySession, Request, ServerWork
from fastcoder_lsp.bench import report

BUDGET_MS = 400.0
SHOWN = Request(KeyPosition(0, 0), through=False, outcome="shown", ms=100.0, finish="stop")
EMPTY = replace(SHOWN, outcome="empty", ms=50.0)
THROUGH = replace(SHOWN, through=True, ms=1.0, finish="typed-through")
EARLY = replace(SHOWN, outcome="cancelled", ms=90.0, finish="")
LATE = replace(EARLY, ms=450.0)


def test_the_figures_of_a_session() -> None:
    work = tuple(
        ServerWork(steps, 3 * steps, prefilled, {"prompt": 2 * steps}, {"adopted": 0})
        for steps, prefilled in ((10, 500), (11, 501), (12, 502), (16, 900))
    )
    late = replace(SHOWN, ms=401.0, flaw="marks")
    played = ReplaySession(
        requests=(SHOWN, EMPTY, THROUGH, replace(THROUGH, outcome="cancelled", ms=0.0), EARLY, LATE, late),
        work=work,
        typed=6,
        saved=4,
        accepts=2,
        budget_ms=BUDGET_MS,
        cpu_s=4.0,
    )
    found = figures(played, Ceiling({KeyPosition(0, 0): "x"}, keys=10, saved_in={0: 5}))
    assert found["ghost_ms"] == {"p50": 401.0, "p95": 450.0, "p99": 450.0, "count": 3}
    assert (found["shown"], found["empty"], found["cancelled"], found["cancelled_late"]) == (2, 1, 3, 1)
    assert found["within_budget"] == pytest.approx(3 / 5)
    assert found["within_budget_empty"] == pytest.approx(1 / 3)
    assert (found["accepted_chars_share"], found["ceiling_chars_share"]) == (0.4, 0.5)
    assert found["empty_where_ceiling_shows"] == 0.25
    assert found["origins"] == {"stop": 2, "typed-through": 1, "empty": 1, "cancelled": 3}
    assert in_the_way(found) == (0.5, 0.0, 0.0)
    assert found["typed_through"] == 1.0
    assert (found["prefilled_tokens_per_key"], found["steps_per_key"]) == (1, 1)
    assert found["cpu_seconds_per_char"] == 0.5
    assert found["mat"] == 3.0
    assert found["accepted_by_source"] == {"prompt": 12}


def test_a_session_in_which_nothing_happened() -> None:
    played = ReplaySession((), (ServerWork(),), 0, 0, 0, BUDGET_MS, 0.0)
    found = figures(played, Ceiling({}, keys=0, saved_in={}))
    assert found["ghost_ms"] == {"p50": None, "p95": None, "p99": None, "count": 0}
    assert (found["within_budget"], found["typed_through"], found["prefilled_tokens_per_key"]) == (None, None, None)


def test_what_requests_for_edits_change() -> None:
    subset = Subset((RecordedEdit("a.py", 0, 0, "abcd\n", typed=True),), frozenset({0}), 1, 4)
    work = ServerWork(), ServerWork(prefilled=30)
    off = ReplaySession((SHOWN,), work, 6, 4, 0, BUDGET_MS, 1.0, saved_in={0: 1})
    on = replace(off, requests=(replace(SHOWN, ms=104.0),), saved_in={0: 2}, edits=(3, 1))
    arm = Arm("auto", "auto", 5.0)
    found = with_edits(subset, {arm: off, replace(arm, name="auto, edits", edits=True): on})["auto, 5/s"]
    assert (found["left"], found["right"], found["wait_ms"]) == (25.0, 50.0, [100.0, 104.0])
    assert (found["tokens_a_key"], found["edits"]) == ([5.0, 5.0], (3, 1))


PARTS = {"queue": 1.0, "prompt": 1.0, "prefill": 30.0, "draft": 1.0, "verify": 60.0, "post": 1.0, "total": 94.0}
IN_PARTS = Request(KeyPosition(0, 0), through=False, outcome="shown", ms=95.0, finish="stop", parts=PARTS)


def made_up(history: str = "small") -> dict[str, Any]:
    pytest.importorskip("matplotlib")
    requests = (
        IN_PARTS,
        Request(KeyPosition(0, 1), False, "cancelled", 500.0),
        Request(KeyPosition(0, 2), False, "empty", 9.0),
    )
    work = (ServerWork(), ServerWork(4, 9, 30, {"prompt": 3, "<b>": 2}, {"adopted": 1}))
    played = ReplaySession(requests, work, 3, 5, 1, 400.0, 1.0, {"model": "m", "engine": "e"})
    nothing = ReplaySession((), (ServerWork(),), 0, 0, 0, 400.0, 0.0, {"model": "m", "engine": "e"})
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
