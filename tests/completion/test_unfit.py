"""Where nothing is suggested: in words, in secrets, after many rejections, in doubt; and how each rule is lifted."""

from collections.abc import Mapping

import pytest

from fastcoder_lsp.completion.question import Policy, Quiet, policy_of
from fastcoder_lsp.completion.suggestions import CursorContext, Rejections, in_word
from fastcoder_lsp.config import SettingsLayer, resolve
from tests.completion.simulated import Simulation, script

STRICT = Policy(automatic_ms=4000, invoked_ms=4000, in_words=False, in_secrets=False, rejections=2)
START = "x = "
MODEL = script("abc(def)\n", START)


@pytest.mark.parametrize(
    ("before", "after", "inside"),
    [
        ("foo", "bar", True),
        ("foo_", "1", True),
        ("foo", "(", False),
        ("foo.", "bar", False),
        ("", "", False),
        ("é", "é", True),
    ],
)
def test_the_middle_of_a_word(before: str, after: str, inside: bool) -> None:
    assert in_word(CursorContext(before, after)) == inside


def test_rules_keep_suggestions_away_and_say_so() -> None:
    simulation = Simulation(MODEL, STRICT, after="foo\n")
    assert simulation.answer("x = b").finish == "middle_of_word"
    assert simulation.answer("password = '").finish == "secret"
    counts = simulation.service.statistics()
    assert counts.suppressed == {"middle_of_word": 1, "secret": 1}
    assert counts.requests == counts.empty == 2
    assert simulation.engine.steps == 0


def test_an_invoked_request_gets_all_texts_but_secrets() -> None:
    simulation = Simulation(MODEL, STRICT, after="foo\n")
    assert simulation.answer("x = a", invoked=True).finish != "middle_of_word"
    assert simulation.answer("password = '", invoked=True).finish == "secret"


def test_a_request_after_a_notice_gets_the_better_text() -> None:
    simulation = Simulation(MODEL, STRICT, after="foo\n")
    first = simulation.answer("x = a", invoked=True)
    again = simulation.answer("x = a")
    assert again.finish != "middle_of_word"
    assert again.text == first.text
    assert simulation.answer("x = b").finish == "middle_of_word"


def test_each_rule_has_a_setting() -> None:
    settings, _ = resolve(
        [SettingsLayer("repository", {"where": {"middle_of_word": True, "secrets": True, "rejections": 5}}, False)]
    )
    policy = policy_of(settings)
    assert (policy.in_words, policy.in_secrets, policy.rejections) == (True, False, 5)


def stubborn(text: str) -> str:
    """A model that says `go()` wherever it is asked."""
    return {"g": "o", "o": "(", "(": ")", ")": "\n"}.get(text[-1], "g")


def test_after_rejections_a_line_gets_one_suggestion() -> None:
    simulation = Simulation(stubborn, STRICT)
    assert [simulation.answer(f"x = {typed}").text for typed in ("", "z", "zz", "zzz")] == ["go()", "go()", "", ""]
    assert simulation.answer("x = zz\nx = ").text == "go()"
    assert simulation.answer("x = zz\nx = z").finish == "rejections"
    assert simulation.answer("x = zz\nx = z", invoked=True).text == "go()"
    assert simulation.answer("x = zz\nx = zz").text == "go()"
    assert simulation.service.statistics().suppressed == {"rejections": 3}


def test_a_taken_word_ends_a_streak() -> None:
    rejections, uri = Rejections(), "file:///a.py"

    def reject(times: int) -> None:
        for number in range(times):
            rejections.shown(uri, CursorContext("", ""), f"other {number}")
            rejections.asked(uri, CursorContext("x", ""), 0.0)

    reject(3)
    assert rejections.too_many(uri, CursorContext("x", ""), 3)
    assert not rejections.too_many(uri, CursorContext("x", ""), 4)
    assert not rejections.too_many(uri, CursorContext("x", ""), 0)
    rejections.shown(uri, CursorContext("x", ""), " = first + second")
    rejections.asked(uri, CursorContext("x = fir", ""), 0.0)
    assert rejections.too_many(uri, CursorContext("x = fir", ""), 3)
    rejections.asked(uri, CursorContext("x = first ", ""), 0.0)
    assert not rejections.too_many(uri, CursorContext("x = first ", ""), 1)
    reject(3)
    rejections.asked(uri, CursorContext("x", ""), 30_000.0)
    assert not rejections.too_many(uri, CursorContext("x", ""), 3)


DOUBTFUL = "def f():\n    return "


def _simulation(before: str, says: str, unsure: Mapping[str, Mapping[str, float]]) -> Simulation:
    """A model that says `says` behind `before`, sure of all but what follows the ends of texts in `unsure`."""
    simulation = Simulation(letter := script(says, before), Policy())

    def likely(text: str) -> Mapping[str, float]:
        found = next((shares for end, shares in unsure.items() if text == before + end), None)
        return found or {letter(text) or "\n": 1.0}

    simulation.engine.likely = likely
    return simulation


@pytest.mark.parametrize(
    ("closer", "shown"), [(0.95, "riter)"), (0.6, "riter")], ids=["shown where it is sure", "left out where it is not"]
)
@pytest.mark.parametrize("invoked", [False, True])
def test_a_closer_of_what_the_user_opened(closer: float, shown: str, invoked: bool) -> None:
    simulation = _simulation(DOUBTFUL + "f(W", "riter)\n", {"riter": {")": closer, "(": 1 - closer}})
    assert simulation.answer(DOUBTFUL + "f(W", invoked=invoked).text == shown


def test_a_closer_of_the_texts_own_stays() -> None:
    simulation = _simulation(DOUBTFUL + "W", "riter(a)\n", {"riter(a": {")": 0.5, ",": 0.4}})
    assert simulation.answer(DOUBTFUL + "W").text == "riter(a)"


@pytest.mark.parametrize(
    ("typed", "says", "unsure"),
    [
        ("orders", "et\n", {"": {" ": 0.7, "e": 0.3}}),
        ("pytest", "()\n", {"": {"\n": 0.2, "(": 0.8}}),
        ("f(a", ")\n", {"": {",": 0.5, ")": 0.4}}),
    ],
    ids=["a word made longer", "marks", "a closer alone"],
)
def test_what_the_model_is_not_sure_of_is_shown_by_a_key(
    typed: str, says: str, unsure: Mapping[str, Mapping[str, float]]
) -> None:
    simulation = _simulation(DOUBTFUL + typed, says, unsure)
    for _ in range(2):  # nor is it remembered
        answer = simulation.answer(DOUBTFUL + typed)
        assert (answer.text, answer.reason and answer.reason.code) == ("", "unsure")
    simulation.rest(5_000)
    assert not simulation.late
    assert simulation.answer(DOUBTFUL + typed, invoked=True).text == says.rstrip()


def test_typing_along_a_held_back_text_shows_its_rest() -> None:
    simulation = _simulation(DOUBTFUL + "orders", "et_of(x)\n", {"": {" ": 0.7, "e": 0.3}})
    assert not simulation.answer(DOUBTFUL + "orders").text
    assert simulation.answer(DOUBTFUL + "orderse").text == "t_of(x)"


@pytest.mark.parametrize(
    ("says", "unsure", "held", "more"),
    [
        ("orderset(a)\n", {"orders": {"e": 0.3, "(": 0.7}}, "orders", "e"),
        ("f(a):\n", {"f(a)": {":": 0.8, "\n": 0.2}}, "f(a)", ""),
    ],
    ids=["a word made longer", "marks"],
)
def test_the_rest_of_what_is_typed_along_is_held_back_as_well(
    says: str, unsure: Mapping[str, Mapping[str, float]], held: str, more: str
) -> None:
    simulation = _simulation(DOUBTFUL, says, unsure)
    assert simulation.answer(DOUBTFUL).text == says.rstrip()
    answer = simulation.answer(DOUBTFUL + held)
    assert (answer.text, answer.reason and answer.reason.code) == ("", "unsure")
    assert simulation.answer(DOUBTFUL + held, invoked=True).text == says.rstrip().removeprefix(held)
    assert not more or simulation.answer(DOUBTFUL + held + more).text == says.rstrip().removeprefix(held + more)


@pytest.mark.parametrize(
    ("says", "unsure", "code"),
    [("et\n", {"": {" ": 0.7, "e": 0.3}}, "unsure"), ("", {}, "end")],
    ids=["held back", "no text"],
)
def test_after_a_slow_answer_the_true_reason_is_told(
    says: str, unsure: Mapping[str, Mapping[str, float]], code: str
) -> None:
    """A pause brings no text then, so `why` no longer promises to wait for it."""
    typed = DOUBTFUL + "x = 1\n" * 400 + "orders"
    simulation = _simulation(typed, says, unsure)
    simulation.answer("")  # the model is loaded
    simulation.policy = Policy(100, 100, background_ms=4000)
    answer = simulation.answer(typed)
    assert (answer.reason and answer.reason.code) == "slow"
    simulation.rest(5_000)
    assert not simulation.late
    assert simulation.empty == [code]


BALANCED = Policy(quiet=Quiet(show="balanced"))
BLOCK = "def f():\n    x = "
BODY = "alpha(b)\n    gamma(d)\n    return e\n"


def _judged(
    shares: Mapping[str, Mapping[str, float]], before: str = BLOCK, says: str = BODY, after: str = "\n"
) -> Simulation:
    simulation = _simulation(before, says, shares)
    simulation.policy, simulation.after = BALANCED, after
    return simulation


@pytest.mark.parametrize(
    ("shares", "shown"),
    [
        ({}, BODY.rstrip()),
        ({"": {"a": 0.4, "b": 0.6}}, ""),
        ({"alpha": {"(": 0.8, ".": 0.2}, "alpha(": {"b": 0.3, "c": 0.7}}, "alpha"),
        ({"alpha(b)\n    ": {"g": 0.4, "h": 0.6}}, "alpha(b)"),
    ],
    ids=["all of it", "none of it", "a word", "a line"],
)
def test_as_much_as_is_sure_appears_by_itself(shares: Mapping[str, Mapping[str, float]], shown: str) -> None:
    simulation = _judged(shares)
    for _ in range(2):
        assert simulation.answer(BLOCK).text == shown
    assert simulation.answer(BLOCK, invoked=True).text == BODY.rstrip()


def test_the_rest_follows_as_the_user_accepts() -> None:
    simulation = _judged({"alpha(b)\n    ": {"g": 0.4, "h": 0.6}})
    assert simulation.answer(BLOCK).text == "alpha(b)"
    assert simulation.answer(f"{BLOCK}alpha(b)\n    g").text == "amma(d)\n    return e"


def test_the_rest_of_a_shown_text_does_not_vanish() -> None:
    """A second word that alone would be too unsure to appear stays, as the first one is typed."""
    shares = {"alpha": {"(": 0.84, ".": 0.1, "[": 0.06}, "alpha(b)\n    ": {"g": 0.4, "h": 0.6}}
    simulation, other = _judged(shares), _judged(shares)
    assert simulation.answer(BLOCK).text == "alpha(b)"
    assert simulation.answer(f"{BLOCK}alpha").text == "(b)"
    assert not other.answer(f"{BLOCK}alpha").text


def test_signs_that_alone_would_be_too_short_stay_as_the_user_types_along() -> None:
    simulation, other = (_simulation(BLOCK, "alpha(b)\n\n", {}) for _ in range(2))
    simulation.policy = other.policy = BALANCED
    assert simulation.answer(BLOCK).text == "alpha(b)"
    assert simulation.answer(f"{BLOCK}alpha(b").text == ")"
    assert not other.answer(f"{BLOCK}alpha(b").text


@pytest.mark.parametrize(("share", "rest_ms"), [(0.4, 900), (0.25, 60_000)])
def test_no_work_for_lines_that_would_be_held_back(share: float, rest_ms: float) -> None:
    sure, unsure = _judged({}), _judged({"alpha(b)\n    ": {"g": share, "h": 1 - share}})
    for simulation in (sure, unsure):
        simulation.answer(BLOCK)
        simulation.rest(rest_ms)
    assert unsure.engine.steps < sure.engine.steps - 10


LINE = "alpha(b, gamma(d), epsilon(f), eta)\n"
OTHERS = {"c": 0.7, "b": 0.3}


@pytest.mark.parametrize(
    ("before", "says", "doubt", "after", "shown"),
    [
        (BLOCK, LINE, "alpha(", "\n", "alpha"),
        ("def f():\n    call(", LINE, "alpha(", ")\n", "alpha"),
        (BLOCK, f"({LINE}", "(alpha(", "\n", ""),
    ],
    ids=["a part of a line", "before a closer", "inside a bracket"],
)
def test_no_work_for_words_of_a_line_that_would_be_held_back(
    before: str, says: str, doubt: str, after: str, shown: str
) -> None:
    sure, unsure = _judged({}, before, says, after), _judged({doubt: OTHERS}, before, says, after)
    for simulation in (sure, unsure):
        simulation.answer(before)
    assert unsure.engine.steps <= len(doubt) + 2 < sure.engine.steps - 15
    assert unsure.answer(before).text == shown
    simulation.rest(900)
    assert unsure.engine.steps <= len(doubt) + 2
    assert unsure.answer(before, invoked=True).text == sure.answer(before, invoked=True).text


@pytest.mark.parametrize(
    ("before", "says", "after", "shown"),
    [
        ("def f():\n    ", "alpha(b):\n        gamma(d)\n", "\n", ""),
        (BLOCK, LINE, " + other\n", "alpha"),
    ],
    ids=["it may become a header", "before code"],
)
def test_a_line_that_may_yet_change_is_said_to_its_end(before: str, says: str, after: str, shown: str) -> None:
    simulation = _judged({"alpha(": OTHERS}, before, says, after)
    assert simulation.answer(before).text == shown
    assert simulation.engine.steps >= says.index("\n")


def test_a_part_of_a_line_goes_on_as_the_user_types_along() -> None:
    simulation = _judged({"alpha(": OTHERS}, BLOCK, LINE)
    assert simulation.answer(BLOCK).text == "alpha"
    assert simulation.answer(f"{BLOCK}alp").text == "ha"
    prefilled = simulation.engine.prefilled
    assert simulation.answer(f"{BLOCK}alpha(b").text == LINE.rstrip().removeprefix("alpha(b")
    assert simulation.engine.prefilled == prefilled


def test_no_work_for_a_text_that_would_be_held_back() -> None:
    sure, unsure = _judged({}), _judged({"": {"a": 0.4, "b": 0.6}})
    for simulation in (sure, unsure):
        simulation.answer(BLOCK)
        simulation.rest(60_000)
    assert unsure.engine.steps < sure.engine.steps - 15
    assert unsure.answer(f"{BLOCK}al").text == "pha(b)\n    gamma(d)\n    return e"
    assert unsure.answer(BLOCK, invoked=True).text == BODY.rstrip()


@pytest.mark.parametrize(
    ("shares", "typed", "rested"),
    [
        ({"": {"a": 0.4, "b": 0.6}}, "", ""),
        ({"": {"a": 0.6, "b": 0.4}}, "", BODY.rstrip()),
        ({"alpha(b)\n    ": {"g": 0.45, "h": 0.55}}, "alpha(b)", BODY.rstrip()),
        ({"alpha(b)\n    ": {"g": 0.25, "h": 0.75}}, "alpha(b)", "alpha(b)"),
    ],
    ids=["unlikely", "half likely", "more lines", "unlikely lines"],
)
@pytest.mark.parametrize("known", [False, True])
def test_more_appears_where_the_user_rests(
    shares: Mapping[str, Mapping[str, float]], typed: str, rested: str, known: bool
) -> None:
    place = f"alpha = gamma = 1\n{BLOCK}"
    simulation = _judged(shares, place)
    if known:
        simulation.answer(place, invoked=True)
        simulation.answer("")
    assert simulation.answer(place).text == typed
    simulation.rest(5_000)
    assert bool(simulation.late) == (rested != typed)
    assert simulation.answer(place).text == rested
    if rested != typed:
        assert simulation.answer(f"{place}alph").text == rested.removeprefix("alph")
