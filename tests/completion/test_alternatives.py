"""Other candidates: distinct, the plain answer first, from the prompt that is in the KV cache already."""

import numpy as np
import pytest

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import DraftTree
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.scheduling.request import Branch, branches, from_branch
from tests.completion.simulated import NextLetter, SimulatedEngine, Simulation, plain
from tests.fake_engine import Ranked

START = "x = "
POLICY = Policy(automatic_ms=4000, invoked_ms=4000, background_ms=0, alternatives=3)


def rival(text: str) -> str:
    """Says `abc`, and goes on with whatever else was said instead of its first or second letter."""
    said = text.rpartition(START)[2]
    return "" if len(said) > 8 else "\n" if len(said) == 5 else chr(ord(said[-1]) + 1) if said else "a"


class DoubtfulEngine(SimulatedEngine):
    """Tells of every row its choice, and two letters that it found a little less likely."""

    def ranked(self, tree: DraftTree, top_k: int) -> Ranked:
        ids = np.array([[self.choose(text, ()), ord("m"), ord("p")] for text in self.texts(tree)])
        logits = np.array([[9.0, 9.0 - 1 - row, 9.0 - 5 - row] for row in range(len(tree))], dtype=np.float32)
        return ids, logits


def simulation(letter: NextLetter = rival, policy: Policy = POLICY) -> Simulation:
    made = Simulation(letter, policy)
    made.engine = DoubtfulEngine(made.clock, letter)
    return made


def test_an_invoked_request_gets_three_the_plain_one_first() -> None:
    made = simulation()
    answer = made.answer(START, invoked=True)
    texts = [answer.text, *(other.text for other in answer.others)]
    assert texts[0] == plain(rival, START) == "abcde"
    assert len(set(texts)) == 3
    assert texts[1] == "mnopq"
    assert made.engine.prefilled - len(START) <= 3 * 8  # rows of the first pass, and branches that ride along
    assert made.service.statistics().alternatives == 2


def test_cycling_asks_no_model() -> None:
    made = simulation()
    first = made.answer(START, invoked=True)
    steps = made.engine.steps
    again = made.answer(START, invoked=True)
    assert [again.text, *(other.text for other in again.others)] == [first.text, *(one.text for one in first.others)]
    assert made.answer(START + "mn").text == "opq"
    assert made.engine.steps == steps


def test_after_an_automatic_answer_no_prompt_is_prefilled_again() -> None:
    made = simulation()
    made.answer(START)
    before = made.engine.prefilled
    answer = made.answer(START, invoked=True)
    assert len(answer.others) == 2
    assert answer.counts.prefilled == answer.counts.steps == 0
    assert made.engine.prefilled - before <= 3 * 8


def test_automatic_requests_get_one() -> None:
    assert simulation().answer(START).others == ()


@pytest.mark.parametrize("budget_ms", range(100, 600, 50))
def test_alternatives_keep_the_budget(budget_ms: int) -> None:
    made = simulation(policy=Policy(budget_ms, budget_ms, 0, alternatives=3))
    answer = made.answer(START, invoked=True)
    assert made.clock.ms <= budget_ms
    assert not answer.others or answer.text == "abcde"


def request(healing: bytes = b"", says: bytes = b"") -> DecodeRequest:
    return DecodeRequest(
        prompt=(1, 2),
        max_tokens=10,
        end_ids=frozenset({0}),
        piece=lambda token: bytes([token]),
        allow=lambda _: np.arange(256),
        cut=lambda text: text.find("\n") if "\n" in text else None,
        healing=healing,
    )


def test_branches_are_ordered_by_how_near_they_were() -> None:
    found = branches(request(), (97, 98), [[97, 109, 0], [98, 110, 111]], [[9, 7, 8], [9, 8, 7]])
    assert found == [Branch((97, 110), 1), Branch((109,), 2), Branch((97, 111), 2)]


def test_what_the_user_typed_is_not_contradicted() -> None:
    assert branches(request(healing=b"a"), (97, 98), [[97, 109], [98, 110]], [[9, 8], [9, 7]]) == [Branch((97, 110), 2)]


def test_a_branch_is_a_request_of_its_own() -> None:
    begun = from_branch(request(healing=b"a"), Branch((97, 98), 1))
    assert begun is not None
    head, made = begun
    assert (head, made.prompt, made.max_tokens, made.healing) == ("b", (1, 2, 97, 98), 8, b"")
    assert made.cut("cd\n") == 2
    assert from_branch(request(), Branch((97, 10), 1)) is None
    assert from_branch(request(), Branch((0xC3,), 1)) is None
