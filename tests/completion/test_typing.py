"""A person at a keyboard, as a state machine: whatever is typed, asked, cancelled, taken or deleted, and whenever.

Three things hold throughout: each request is answered exactly once, in time, and by a beginning of what the model says
without hurry for this text, or for an earlier one from which the user has typed along it.
"""

import hashlib
from concurrent.futures import Future
from functools import cache

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import Completion
from tests.completion.simulated import Simulation, plain

POLICY = Policy(automatic_ms=260, invoked_ms=900, background_ms=1500)
START = "if x:\n    "
LETTERS = "ab()\n"
HASTE_MS = 61.0
"""A piece of work that was begun for somebody else takes no longer."""


def letter(text: str) -> str:
    """A model that says short lines, most of them whole statements, as a function of the line so far."""
    line = text.rpartition("\n")[2]
    if len(line) < 4 and text.count("\n") < 9:
        return " "
    digest = hashlib.sha256(line.encode()).digest()[0]
    return "\n" if len(line) > 9 or line.endswith(")") else "aab(("[digest % 5] if not line.endswith("(") else ")"


@cache
def whole(before: str) -> str:
    return plain(letter, before)


class Typist(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.simulation = Simulation(letter, POLICY)
        self.text = START
        self.asked: list[tuple[str, float, bool, Future[Completion]]] = []
        self.answers: dict[int, int] = {}
        self.shown = ""

    @rule(invoked=st.booleans())
    def ask(self, invoked: bool) -> None:
        number = len(self.asked)
        future = self.simulation.ask(self.text, invoked=invoked)
        future.add_done_callback(lambda _: self.answers.update({number: self.answers.get(number, 0) + 1}))
        self.asked.append((self.text, self.simulation.clock.ms, invoked, future))

    @rule(key=st.sampled_from(LETTERS))
    def type(self, key: str) -> None:
        self.text += key

    @rule(length=st.integers(1, 3))
    def type_along(self, length: int) -> None:
        self.text += whole(self.text)[:length]

    @rule(keys=st.lists(st.sampled_from(["along", *LETTERS]), min_size=1, max_size=5), pieces=st.integers(0, 9))
    def type_on(self, keys: list[str], pieces: int) -> None:
        """As editors do it: each key cancels the last request and sends another."""
        for key in keys:
            if self.asked:
                self.asked[-1][3].cancel()
            self.text += whole(self.text)[:1] if key == "along" else key
            self.ask(False)
            self.work(pieces)
            self.answers_are_beginnings()

    @rule()
    def delete(self) -> None:
        self.text = self.text[: max(len(START), len(self.text) - 1)]

    @precondition(lambda self: self.asked and self.asked[-1][3].done() and not self.asked[-1][3].cancelled())
    @rule()
    def accept(self) -> None:
        before, _, _, future = self.asked[-1]
        if before == self.text and future.result(0).text:
            self.text += future.result(0).text
            self.simulation.service.accepted(self.simulation.request(self.text), POLICY)

    @precondition(lambda self: self.asked)
    @rule()
    def cancel(self) -> None:
        self.asked[-1][3].cancel()

    @rule(pieces=st.integers(1, 12))
    def work(self, pieces: int) -> None:
        self.simulation.work(pieces=pieces)
        self.check()

    @rule(ms=st.sampled_from([50.0, 400.0, 1500.0]))
    def pause(self, ms: float) -> None:
        self.simulation.rest(ms)
        self.check()

    def check(self) -> None:
        now = self.simulation.clock.ms
        for _, asked_ms, invoked, future in self.asked[-1:]:
            budget = POLICY.invoked_ms if invoked else POLICY.automatic_ms
            assert future.done() or now <= asked_ms + budget + HASTE_MS

    @invariant()
    def answers_are_beginnings(self) -> None:
        for before, _, _, future in self.asked[-2:]:
            if future.done() and not future.cancelled() and (text := future.result(0).text):
                assert any(
                    (before[at:] + text) == whole(before[:at])[: len(before) - at + len(text)]
                    for at in range(len(START), len(before) + 1)
                ), (before, text)

    def teardown(self) -> None:
        self.simulation.work(until=lambda: all(future.done() for *_, future in self.asked))
        assert all(self.answers[number] == 1 for number in range(len(self.asked)))
        counts = self.simulation.service.statistics()
        answered = counts.shown + counts.empty + counts.typed_through + counts.superseded + counts.cancelled
        assert counts.requests == answered + counts.failed == len(self.asked)


Typist.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestTypist = Typist.TestCase
