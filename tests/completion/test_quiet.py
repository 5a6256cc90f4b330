"""When suggestions stay away that nobody asked for by key: each rule, what it lets through, and what lifts it."""

from dataclasses import replace
from typing import Any

import pytest

from fastcoder_lsp.completion.question import Policy, policy_of
from fastcoder_lsp.config import SettingsLayer, resolve
from fastcoder_lsp.core import Completion
from tests.completion.simulated import Simulation, script

START = "x = "
LINE = "first(a, b)"
MODEL = script(f"{LINE}\n", START)
BLOCK = "if x:\n    "
LINES = "one()\n    two()\n    three()"
LONG_MODEL = script(f"{LINES}\nrest()", BLOCK)


def policy(values: dict[str, Any], **more: Any) -> Policy:
    settings, problems = resolve([SettingsLayer("editor", values, trusted=True)])
    assert not problems
    return replace(Policy(), quiet=policy_of(settings, **more).quiet)


def answer(simulation: Simulation, before: str, *, invoked: bool = False, **snapshot: Any) -> Completion:
    request = simulation.request(before, invoked=invoked)
    request = replace(request, snapshot=replace(request.snapshot, **snapshot))
    future = simulation.service.submit(request, simulation.policy)
    simulation.work(until=future.done)
    return future.result(0)


MARKDOWN = "# Title\n\n```python\nx = 1\n```\n"


@pytest.mark.parametrize(
    ("values", "before", "snapshot", "code"),
    [
        ({"quiet.mode": "invoked"}, START, {}, "by-key"),
        ({"quiet.deletions": True}, START, {"deleted": True}, "deletion"),
        ({"quiet.deletions": True}, START, {}, None),
        ({"quiet.min_characters": 11}, START, {}, "short"),
        ({"quiet.min_characters": 10}, START, {}, None),  # blanks are not counted
        ({"where.comments": "invoked"}, f"y  # {START}", {}, "in-comment"),
        ({"where.comments": "invoked"}, f"y  #\n{START}", {}, None),
        ({"where.comments": "invoked"}, f"/* y\n{START}", {"language": "c"}, "in-comment"),
        ({"where.comments": "invoked"}, f"'#' {START}", {}, None),
        ({"where.strings": "invoked"}, f"y = '{START}", {}, "in-string"),
        ({"where.strings": "invoked"}, f'"""y\n{START}', {}, "in-string"),
        ({"where.strings": "invoked"}, f"# it's {START}", {}, None),
        ({"where.strings": "invoked"}, f"`${{{START}", {"language": "typescript"}, None),
        ({"where.prose": "invoked"}, MARKDOWN + START, {"language": "markdown"}, "in-prose"),
        ({"where.prose": "invoked"}, MARKDOWN[:-4] + START, {"language": "markdown"}, None),
        ({"where.prose": "invoked"}, START, {"language": "gitcommit"}, "in-prose"),
        ({"where.prose": "invoked"}, START, {"language": "python", "path": "/a/.git/COMMIT_EDITMSG"}, "in-prose"),
        ({"where.comments": "invoked", "where.prose": "invoked"}, START, {}, None),
    ],
)
def test_a_rule_keeps_suggestions_away_but_not_from_the_key(
    values: dict[str, Any], before: str, snapshot: dict[str, Any], code: str | None
) -> None:
    simulation = Simulation(MODEL, policy(values))
    for _ in range(2):  # the second time from the cache
        shown = answer(simulation, before, **snapshot)
        assert (shown.reason and shown.reason.code) == code
        assert (shown.text == LINE) == (code is None)
    simulation.rest(2_000)
    assert simulation.late == []
    assert answer(simulation, before, invoked=True, **snapshot).text == LINE


@pytest.mark.parametrize("where", ["comments", "strings", "prose"])
def test_never_holds_for_the_key_as_well(where: str) -> None:
    before, language = {"comments": (f"# {START}", "python"), "strings": (f"'{START}", "python")}.get(
        where, (START, "markdown")
    )
    simulation = Simulation(MODEL, policy({f"where.{where}": "never"}))
    for invoked in (False, True):
        shown = answer(simulation, before, invoked=invoked, language=language)
        assert shown.reason is not None
        assert shown.reason.code == f"in-{where.removesuffix('s')}"
        assert f"where.{where}" in shown.reason.text
    assert simulation.engine.steps == 0


def test_snoozed_nothing_is_prepared_either() -> None:
    simulation = Simulation(MODEL, policy({}, snoozed=True))
    shown = answer(simulation, START)
    assert (shown.reason and shown.reason.code) == "snoozed"
    simulation.service.accepted(simulation.request(START), simulation.policy)
    simulation.rest(2_000)
    assert simulation.engine.steps == 0
    assert answer(simulation, START, invoked=True).text == LINE


@pytest.mark.parametrize(
    "values", [{"quiet.mode": "invoked"}, {"quiet.min_characters": 1000}, {"quiet.delay_ms": 500}, {"quiet.lines": 1}]
)
def test_what_a_key_brought_stays_while_it_is_typed_along(values: dict[str, Any]) -> None:
    simulation = Simulation(LONG_MODEL, policy(values))
    assert answer(simulation, BLOCK, invoked=True).text == LINES
    for typed in (1, 2, 6, 10, 20):
        assert answer(simulation, BLOCK + LINES[:typed]).text == LINES[typed:]


@pytest.mark.parametrize("ahead", [True, False])
def test_a_suggestion_waits_for_the_rest_and_is_made_meanwhile(ahead: bool) -> None:
    simulation = Simulation(MODEL, replace(policy({"quiet.delay_ms": 300}), ahead=ahead))
    simulation.answer("y", invoked=True)
    steps, first = simulation.engine.steps, simulation.ask("x =")
    simulation.rest(200)
    second = simulation.ask(START)
    assert first.result(0).finish == "superseded"
    simulation.rest(299)
    assert not second.done()
    assert (simulation.engine.steps > steps) == ahead
    simulation.rest(2)
    assert second.done() == ahead, "it was made meanwhile, unless power is to be saved"
    simulation.work(until=second.done)
    assert second.result(0).text == LINE
    along = simulation.ask(START + "f")
    assert along.done()
    assert along.result(0).text == LINE[1:]
    left = simulation.ask(START + "p")
    assert left.cancel()
    simulation.rest(1_000)
    counts = simulation.service.statistics()
    assert (counts.superseded, counts.cancelled) == (1, 1)


def test_the_mode_resting_rests_for_a_while() -> None:
    assert policy({"quiet.mode": "resting"}).quiet.delay_ms == 700
    assert policy({"quiet.mode": "resting", "quiet.delay_ms": 900}).quiet.delay_ms == 900


def test_lines_beyond_the_limit_follow_after_acceptance() -> None:
    simulation = Simulation(LONG_MODEL, policy({"quiet.lines": 1}))
    assert answer(simulation, BLOCK).text == "one()"
    steps = simulation.engine.steps
    assert answer(simulation, BLOCK + "one").text == "()"
    assert answer(simulation, BLOCK + "one()").text == "\n    two()"
    assert answer(simulation, BLOCK + "one()\n    two()").text == "\n    three()"
    assert simulation.engine.steps == steps
    simulation.rest(2_000)
    assert simulation.late == []
    assert answer(simulation, BLOCK, invoked=True).text == LINES


@pytest.mark.parametrize(
    ("says", "shown", "replaces"),
    [("a, b):\n    pass", "a, b):", 1), ("name,\n    b)", "name,", 0)],
    ids=["closed", "open"],
)
def test_an_editors_closing_bracket_stays_until_its_line(says: str, shown: str, replaces: int) -> None:
    simulation = Simulation(script(f"f({says}\n\n", START), policy({"quiet.lines": 1}), after=")\n")
    first = answer(simulation, START + "f(")
    assert (first.text, first.end - first.start) == (shown, replaces)


@pytest.mark.parametrize(("show", "is_shown"), [("balanced", False), ("sure", False), ("eager", True)])
def test_a_text_that_saves_no_key_comes_by_key_only(show: str, is_shown: bool) -> None:
    simulation = Simulation(script("nt\n", "total: i"), policy({"quiet.show": show}), after="\n")
    assert answer(simulation, "total: i").text == ("nt" if is_shown else "")
    assert answer(simulation, "total: i", invoked=True).text == "nt"


OPENED = "  f(a) {"
BODY = "\n    one();\n    two();\n  }"


@pytest.mark.parametrize(
    ("after", "lines", "shown", "replaces"),
    [("}\n", 1, "\n    one();\n  ", 0), ("}\n", 0, BODY, 1), ("\n", 1, "\n    one();", 0)],
    ids=["a part", "all", "no closer"],
)
def test_a_closing_bracket_goes_below_the_lines_of_its_pair(after: str, lines: int, shown: str, replaces: int) -> None:
    simulation = Simulation(script(f"{BODY}\n\n", OPENED), policy({"quiet.lines": lines}), after)
    first = answer(simulation, OPENED, language="javascript")
    assert (first.text, first.end - first.start) == (shown, replaces)
    if first.text.endswith("  "):  # accepted, the text goes on in the same way
        assert answer(simulation, OPENED + shown, language="javascript").text == "  two();\n  "


@pytest.mark.parametrize(
    ("power", "on_battery", "ahead"),
    [("normal", True, True), ("saver", False, False), ("auto", False, True), ("auto", True, False)],
)
def test_on_battery_less_is_prepared(power: str, on_battery: bool, ahead: bool) -> None:
    settings, _ = resolve([SettingsLayer("editor", {"power": power}, trusted=True)])
    assert policy_of(settings, on_battery=on_battery).ahead == ahead
