"""The report of `bench keystroke` on made-up sessions."""

from dataclasses import replace

import pytest

from benchmarks.keystroke import CAUSES, cpu_table, figures
from benchmarks.typist import KeyPosition
from benchmarks.typist.ceiling import Ceiling
from benchmarks.typist.replay import ReplaySession, Request, ServerWork, ShownText, judged

BUDGET_MS = 400.0
SHOWN = Request(KeyPosition(0, 0), through=False, outcome="shown", ms=100.0, finish="stop")
EMPTY = replace(SHOWN, outcome="empty", ms=50.0)
THROUGH = replace(SHOWN, through=True, ms=1.0, finish="typed-through")
EARLY = replace(SHOWN, outcome="cancelled", ms=90.0, finish="")
LATE = replace(EARLY, ms=450.0)


def test_the_figures_of_a_session() -> None:
    work = tuple(
        ServerWork(
            steps, 3 * steps, prefilled, {"prompt": 2 * steps}, {"adopted": 0}, {"steps_unseen": 0.25 * steps - 1}
        )
        for steps, prefilled in ((10, 500), (11, 501), (12, 502), (16, 900))
    )
    late = replace(SHOWN, ms=401.0, shown=ShownText(first_word=True, lines=2, right=1))
    played = ReplaySession(
        requests=(SHOWN, EMPTY, THROUGH, replace(THROUGH, outcome="cancelled", ms=0.0), EARLY, LATE, late),
        work=work,
        typed=6,
        saved=4,
        accepts=2,
        budget_ms=BUDGET_MS,
        cpu_s=4.0,
        front_s=1.0,
    )
    found = figures(played, Ceiling({KeyPosition(0, 0): "x"}, keys=10, saved_in={0: 5}))
    assert found["ghost_ms"] == {"p50": 401.0, "p95": 450.0, "p99": 450.0, "count": 3}
    assert (found["shown"], found["empty"], found["cancelled"], found["cancelled_late"]) == (2, 1, 3, 1)
    assert found["within_budget"] == pytest.approx(3 / 5)
    assert found["within_budget_empty"] == pytest.approx(1 / 3)
    assert (found["accepted_chars_share"], found["ceiling_chars_share"]) == (0.4, 0.5)
    assert found["empty_where_ceiling_shows"] == 0.25
    assert found["origins"] == {"stop": 2, "typed-through": 1, "empty": 1, "cancelled": 3}
    assert (found["texts_shown"], found["first_word_right"], found["lines_right"]) == (1, 1.0, 0.5)
    assert found["typed_through"] == 1.0
    assert (found["prefilled_tokens_per_key"], found["steps_per_key"]) == (1, 1)
    assert (found["texts_per_key"], found["first_line_right"], found["changed_per_100_keys"]) == (1 / 7, 1.0, 0.0)
    assert (found["cpu_seconds_per_char"], found["cpu_seconds_per_saved_char"]) == (0.5, 1.0)
    assert found["cpu_by_cause"] == dict.fromkeys(CAUSES, 0.0) | {"steps_unseen": 1.5, "front": 1.0, "rest": 1.5}
    _, columns, rows = cpu_table("small", {"auto, 5/s": found})
    assert columns == ("cause", "auto, 5/s")
    assert ["steps never shown", "187.5 (37.5)"] in rows
    assert rows[-2:] == [["all", "500.0 (100.0)"], ["of these, seen by nobody", "187.5 (37.5)"]]
    assert found["mat"] == 3.0
    assert found["accepted_by_source"] == {"prompt": 12}


@pytest.mark.parametrize(
    ("shown", "coming", "right"),
    [
        ("size(a)\n", "size(b)\n", ShownText(first_word=True, lines=1, right=0)),
        ("size", "sizes", ShownText(first_word=False, lines=1, right=0)),
        ("a = 1\nb = 2", "a = 1\nb = 3\n", ShownText(first_word=True, lines=2, right=1)),
        (" = 1", " = 1\n", ShownText(first_word=True, lines=1, right=1)),
    ],
)
def test_what_is_right_of_a_shown_text(shown: str, coming: str, right: ShownText) -> None:
    assert judged(shown, coming) == right


@pytest.mark.parametrize(
    ("left", "shown", "changed"),
    [("", "x", False), ("ab", "abc", False), ("abc", "a", True), ("ab", "ac", True)],
)
def test_a_text_that_changes_under_the_eyes(left: str, shown: str, changed: bool) -> None:
    assert judged(shown, "abc", left).changed is changed
