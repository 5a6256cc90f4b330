"""Code of other files, prepared beside: no key pays for it, it comes to be shown, and what does not hold never is."""

from typing import Any

import pytest

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import Late, Snapshot, at_once
from fastcoder_lsp.prompt import ContextSnippet, PromptBuilder
from fastcoder_lsp.runtime.parts import FEW
from fastcoder_lsp.scheduling import prefetch
from fastcoder_lsp.scheduling.budget import FIRST_INVOKED_MS, FIRST_MS
from fastcoder_lsp.scheduling.prefetch import STAYS
from tests.completion.simulated import COSTS
from tests.prompt.test_context import SECOND, SNIPPETS, Given
from tests.scheduling import typists
from tests.scheduling.shared import Slot
from tests.scheduling.typists import END, KEY_MS, QWEN, WORDS, Typist

TEXT = "    value = one(two)\n    other = three(four)\n    last = five\n"
SHOWN = ["lib/high.py", "lib/low.py"]
LONG = (ContextSnippet("lib/long.py", "def long():\n" + "    return [1, 2, 3, 4, 5]\n" * 28, 1.0, "/w/long.py"),)


@pytest.fixture(autouse=True)
def _prepares_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "STAYS", 0)


def test_the_whole_prompt_is_prepared_for_a_user_who_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "STAYS", STAYS)
    passing, typing, resting = (Typist(given=Given(LONG), budget=600) for _ in range(3))
    for one in (passing, typing, resting):
        one.type("    value = one(two)")
        one.rest(200)
        assert not one.prepared()
    typing.type(" + three(four) + five(six) + seven(eight)")
    typing.rest(200)
    assert typing.prepared()
    resting.rest(5000)
    assert resting.shown() == ["lib/long.py"]


def preparing(tokens: int) -> Typist:
    """A typist who was answered, for whom so many tokens are prepared already."""
    one = Typist(given=Given(LONG), budget=600)
    one.answer()
    while one.prepared() < tokens:
        one.scheduler.turn()
    return one


def test_a_second_cache_costs_keys_nothing_and_code_is_shown() -> None:
    off, on = Typist(0), Typist()
    for one in (off, on):
        one.type(TEXT)
    assert on.shown() == SHOWN
    assert on.costs == off.costs
    assert not on.prepared(), "it is the first one now"


def test_a_first_text_comes_as_soon_as_without() -> None:
    off, on, quick = Typist(0), Typist(), Typist(later=False)
    for one in (off, on, quick):
        one.answer()
    assert on.costs == off.costs
    assert (on.shown(), quick.shown()) == ([], SHOWN)


@pytest.mark.parametrize(("more", "invoked"), [({}, True), ({"policy": Policy()}, False), ({"edited": False}, False)])
def test_a_request_without_a_key_gets_the_whole_prompt(more: dict[str, Any], invoked: bool) -> None:
    one = Typist(**more)
    one.answer(invoked=invoked)
    assert one.shown() == SHOWN


def test_nothing_is_exchanged_inside_a_line_while_typing() -> None:
    one = Typist(given=Given(LONG), budget=600)
    one.type("    value = one(two) + three(four) + five(six)")
    assert one.prepared() > 300
    assert one.shown() == []
    while one.prepared() < 1000:
        one.type(" + seven(eight)")
    assert one.shown() == []
    one.type("\n")
    assert one.shown() == ["lib/long.py"]


def test_after_a_pause_the_text_is_the_one_of_a_first_question() -> None:
    changed = 0
    for number in range(12):
        late: list[Late] = []
        one = Typist(whole=True, lates=late)
        one.type(f"    v{number} = ")
        typed = one.answer()
        assert one.shown() == []
        one.rest(5000)
        assert one.shown() == SHOWN
        first = Typist(whole=True, before=one.before, edited=False, policy=Policy())
        expected = first.answer()
        assert first.shown() == SHOWN
        if not expected.text:
            continue  # what is shown is not taken away
        again = one.answer()
        assert (again.text, sorted(again.context), one.costs[-1]) == (expected.text, SHOWN, 0)
        if not typed.text.startswith(expected.text):
            changed += 1
            assert [place.offset for place in late][-1:] == [len(one.before)]
    assert changed


@pytest.mark.parametrize("candidates", [1, 3])
def test_a_second_key_waits_for_the_text_of_the_whole_prompt(candidates: int) -> None:
    long, changed = "".join(f"value_{number} = compute({number})\n" for number in range(400)), 0
    for number in range(8):
        before = f"{long}    v{number} = "
        whole = Typist(before=before, budget=0, slower=6.0, whole=True, edited=False, policy=Policy()).answer().text
        policy = Policy(invoked_ms=0, alternatives=candidates)
        one = Typist(before=before, budget=0, slower=6.0, whole=True, policy=policy)
        first = one.answer(invoked=True).text
        if not (whole and first):
            continue
        assert one.answer(invoked=True).text == whole
        assert one.ask(invoked=True).done()
        changed += first != whole
        hasty = Typist(before=before, budget=0, slower=6.0, whole=True, policy=Policy(invoked_ms=9000))
        first = hasty.answer(invoked=True).text
        hasty.policy = Policy(invoked_ms=300)
        assert hasty.answer(invoked=True).text == first
    assert changed


def test_elsewhere_in_a_known_file_the_first_text_is_interim() -> None:
    """The prompt there still holds the code that was found for the last place."""
    changed = 0
    for number in range(8):
        given = Given(SNIPPETS)
        one = Typist(whole=True, given=given, policy=Policy(automatic_ms=260, invoked_ms=0))
        one.answer(invoked=True)
        one.rest(5000)
        assert one.shown() == SHOWN
        given.snippets = SECOND
        one.before += f"v{number} = "
        first = one.answer(invoked=True).text
        whole = Typist(before=one.before, whole=True, edited=False, given=Given(SECOND), policy=Policy()).answer().text
        if first and whole:
            assert one.answer(invoked=True).text == whole
            changed += first != whole
    assert changed


def test_a_short_window_gives_way_in_the_middle_of_a_line() -> None:
    long = "".join(f"value_{number} = compute({number})\n" for number in range(400))
    one = Typist(before=long + "    value = one", budget=0, slower=6.0)
    one.answer()
    assert one.builder.is_short(one.uri)
    one.type("".join(f"(two) + three{number}" for number in range(20)))
    assert not one.builder.is_short(one.uri)
    assert max(one.costs[1:]) <= FEW


@pytest.mark.parametrize("times", [1, 6, 8])
def test_code_read_on_a_busy_machine_is_followed_by_its_text(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Typist(given=Given(LONG), budget=600, whole=True, edited=False, policy=Policy())
    expected.before += "    v0 = "
    whole = expected.answer().text
    plain = Slot._pass
    monkeypatch.setattr(Slot, "_pass", lambda slot, ms: plain(slot, times * ms))
    one = Typist(given=Given(LONG), budget=600, whole=True, policy=Policy(automatic_ms=260, invoked_ms=900))
    one.before = expected.before
    one.answer()
    one.rest(60_000)
    assert one.shown() == ["lib/long.py"]
    again = one.ask()
    assert again.done(), "it is there"
    assert again.result(0).text == whole


def test_a_first_text_waits_only_for_a_prompt_read_in_time() -> None:
    long = "".join(f"value_{number} = compute({number})\n" for number in range(400))
    waits = {True: FIRST_INVOKED_MS, False: FIRST_MS}
    for invoked, most_ms in waits.items():
        one = Typist(before=long, budget=0, slower=6.0)
        one.answer(invoked=invoked)
        assert one.costs[-1] * 6.0 * COSTS.prefill_ms <= most_ms
        one.rest(9000)
        whole = one.prompt()
        fresh = at_once(
            PromptBuilder(QWEN, one.builder.options).build(
                Snapshot(one.uri, "/main.py", "python", 1, one.before + one.after), len(one.before)
            )
        )
        assert whole.tokens == len(fresh.tokens) > 1.5 * one.costs[-1]


def test_a_question_waits_for_one_piece_at_most() -> None:
    one = Typist(given=Given(LONG), budget=600)
    one.answer()
    one.do()
    while not one.shown():
        one.scheduler.turn()
        turn = one.clock.ms
        one.scheduler.turn()
        assert one.clock.ms - turn <= 61.0


def test_an_exchange_changes_no_text() -> None:
    one = Typist(whole=True)
    one.type("    value = one(two)\n")
    one.rest(3000)
    assert one.shown() == SHOWN
    plain = Typist(whole=True, prompts=one.builder, before=one.before, policy=Policy())
    for key in "    v = one(":
        for other in (one, plain):
            other.before += key
            other.version += 10
        whole = plain.answer()
        shown = one.answer()
        assert whole.text.startswith(shown.text)
        assert shown.text == whole.text or shown.finish == "budget"


@pytest.mark.parametrize("far", [False, True])
def test_an_outdated_plan_is_made_anew_and_keeps_its_beginning(far: bool) -> None:
    one = preparing(500)
    held, before = one.prepared(), one.computed()
    if far:
        one.before, one.after = one.before[:400], one.before[400:] + one.after
        one.before = one.before[: one.before.rindex("\n") + 1]
    else:
        one.after = "\nz = 2\nw = 3\n"
    first = one.ask()
    while not first.done():
        one.scheduler.turn()
    asked = one.computed()
    one.rest(4000)
    assert one.shown() == ["lib/long.py"]
    assert held >= 400
    assert one.computed() - asked <= one.prompt().tokens - 300, "not all of it"
    assert one.computed() > before


def test_what_may_not_be_shown_any_more_is_never_exchanged() -> None:
    for pieces in (2, 200):
        given = Given((ContextSnippet("a.py", "def forbidden_one(): ...\n" * 9, 2.0, "/w/a.py"), *SNIPPETS))
        one = Typist(given=given)
        one.type("    x")
        for _ in range(pieces):
            one.scheduler.turn()
        assert one.prepared()
        given.forbidden = frozenset({"/w/a.py"})
        one.type("\n    y\n")
        one.rest(9000)
        assert "a.py" not in one.shown()
        assert one.shown() == SHOWN, "what may be is"


def test_other_code_that_is_worth_more_comes_in_the_same_way() -> None:
    off, on = Typist(0), Typist()
    for one in (off, on):
        one.type(TEXT)
        one.rest(3000)
    on.given.snippets = SECOND
    for one in (off, on):
        one.type("\n")
        one.rest(1200)
        one.type(TEXT)
    assert on.shown() == ["lib/second.py"]
    assert on.costs == off.costs


def test_where_there_is_no_room_the_old_prompt_goes_on() -> None:
    off, on = Typist(0), Typist()
    on.caches.full = True
    for one in (off, on):
        one.type(TEXT)
    assert (on.shown(), on.costs) == ([], off.costs)
    on.caches.full = False
    on.type(TEXT)
    assert on.shown() == SHOWN


def test_a_closed_document_is_prepared_no_more() -> None:
    one = preparing(200)
    one.service.document_closed(one.uri)
    one.do()
    assert one.prepared() == 0
    one.rest(9000)
    assert one.prepared() == 0


def test_a_renamed_document_takes_what_is_prepared_along() -> None:
    one = preparing(400)
    held, one.given.content = one.prepared(), True
    one.service.document_renamed(one.uri, "file:///other.py")
    one.uri = "file:///other.py"
    one.do()
    assert one.prepared() == held
    before = one.computed()
    one.type("\n", 900)
    shown = one.prompt()
    assert shown.found.snippets
    assert one.computed() - before - one.costs[-1] <= shown.tokens - held + 200


def test_another_model_begins_anew() -> None:
    one = preparing(200)
    one.service.set_enabled(enabled=False)
    one.do()
    assert not one.caches.spare
    one.service.set_enabled(enabled=True)
    one.type("    a\n")
    one.rest(4000)
    assert one.shown() == ["lib/long.py"]


def test_where_one_works_nothing_is_prepared_unasked() -> None:
    one = Typist(policy=Policy(automatic_ms=260, invoked_ms=900, background_ms=4000, ahead=False))
    one.type(TEXT)
    one.rest(9000)
    assert (one.shown(), one.prepared()) == ([], 0)


def test_what_is_done_beside_is_bounded() -> None:
    one = Typist(given=Given(LONG), budget=600, policy=Policy(automatic_ms=260, invoked_ms=900, background_ms=700))
    one.answer()
    answered = one.clock.ms
    while one.scheduler.turn() <= 0:
        assert one.clock.ms - answered <= 700 + 61
    assert 0 < one.prepared() < 600
    one.before += "\n"
    for _ in range(12):
        one.type("\n", KEY_MS)
    assert one.shown() == ["lib/long.py"]


@pytest.mark.parametrize("pause_ms", [500, 4000])
def test_other_candidates_come_from_the_prompt_of_the_document(pause_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typists, "WORDS", [*WORDS[:2], *WORDS[:2], END])
    monkeypatch.setattr(typists, "hash", lambda heard: len(heard) % 5, raising=False)
    policy = Policy(automatic_ms=1000, invoked_ms=9000, background_ms=4000, alternatives=3)
    one = Typist(given=Given(LONG), budget=600, policy=policy)
    one.before += "    value = one(two)\n"
    assert one.answer().text
    one.rest(pause_ms)
    assert bool(one.shown()) == (pause_ms > 1000)
    assert one.answer(invoked=True).text
    assert one.shown(), "who asks again by a key waits for what is not read yet"
    one.type("a")
    assert max(one.costs[1 if pause_ms > 1000 else 2 :]) < 10


def test_a_document_that_is_opened_again_keeps_its_state() -> None:
    """Its prompt with other code is in the cache still, so that one without would be read anew."""
    off, on = Typist(0), Typist()
    for one in (off, on):
        one.type(TEXT)
        one.service.document_closed(one.uri)
        one.rest(5000)
        one.type("    a")
    assert on.shown() == SHOWN
    assert on.costs == off.costs
