"""What the model was not sure of: closers in the way, marks and words grown longer are shown by a key alone, or not."""

from collections.abc import Mapping

import pytest

from fastcoder_lsp.completion.question import Policy
from tests.completion.simulated import Simulation, script

START = "def f():\n    return "


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
    """The text goes up to it where the model would as likely go on inside."""
    simulation = _simulation(START + "f(W", "riter)\n", {"riter": {")": closer, "(": 1 - closer}})
    assert simulation.answer(START + "f(W", invoked=invoked).text == shown


def test_a_closer_of_the_texts_own_stays() -> None:
    """It is the text's end that the model is sure of, not of what the user opened."""
    simulation = _simulation(START + "W", "riter(a)\n", {"riter(a": {")": 0.5, ",": 0.4}})
    assert simulation.answer(START + "W").text == "riter(a)"


@pytest.mark.parametrize(
    ("typed", "says", "unsure"),
    [
        ("orders", "et\n", {"": {" ": 0.7, "e": 0.3}}),
        ("pytest", "()\n", {"": {"\n": 0.6, "(": 0.4}}),
        ("f(a", ")\n", {"": {",": 0.5, ")": 0.4}}),
    ],
    ids=["a word made longer", "marks", "a closer alone"],
)
def test_what_the_model_is_not_sure_of_is_shown_by_a_key(
    typed: str, says: str, unsure: Mapping[str, Mapping[str, float]]
) -> None:
    """Nobody is shown it who only types, and `why` says so."""
    simulation = _simulation(START + typed, says, unsure)
    for _ in range(2):  # nor is it remembered
        answer = simulation.answer(START + typed)
        assert (answer.text, answer.reason and answer.reason.code) == ("", "unsure")
    simulation.rest(5_000)
    assert not simulation.late
    assert simulation.answer(START + typed, invoked=True).text == says.rstrip()


def test_who_types_along_what_was_held_back_is_shown_its_rest() -> None:
    """The doubt was about the first letter."""
    simulation = _simulation(START + "orders", "et_of(x)\n", {"": {" ": 0.7, "e": 0.3}})
    assert not simulation.answer(START + "orders").text
    assert simulation.answer(START + "orderse").text == "t_of(x)"


@pytest.mark.parametrize(
    ("says", "unsure", "code"),
    [("et\n", {"": {" ": 0.7, "e": 0.3}}, "unsure"), ("", {}, "end")],
    ids=["held back", "no text"],
)
def test_after_a_slow_answer_the_true_reason_is_told(
    says: str, unsure: Mapping[str, Mapping[str, float]], code: str
) -> None:
    """A pause brings no text then, so `why` no longer promises to wait for it."""
    typed = START + "x = 1\n" * 400 + "orders"
    simulation = _simulation(typed, says, unsure)
    simulation.answer("")  # the model is loaded
    simulation.policy = Policy(100, 100, background_ms=4000)
    answer = simulation.answer(typed)
    assert answer.reason is not None
    assert answer.reason.code == "slow"
    simulation.rest(5_000)
    assert not simulation.late
    assert simulation.empty == [code]
