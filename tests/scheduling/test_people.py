"""People at one model, as a state machine and in threads: each request is answered once, by their own text.

Who is alone is answered in time as well.
"""

import hashlib
import random
import threading
import time
from concurrent.futures import Future, wait
from functools import cache

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import Completion
from tests.completion.simulated import URI, plain, script
from tests.examples import examples
from tests.scheduling.shared import Front, Shared

MOST = 4
HASTE_MS = 61.0
"""A piece of work that was begun for another question takes no longer."""
URIS = ("file:///a.py", "file:///b.py", "file:///c.py")
POLICIES = {
    "hurried": Policy(automatic_ms=260, invoked_ms=900, background_ms=1500),
    "patient": Policy(background_ms=1500),
    "everything": Policy(automatic_ms=900, invoked_ms=2000, background_ms=500, alternatives=3),
}
ANYBODY = st.integers(0, 20)
TYPED = st.lists(st.sampled_from(["along", *"ab()\n"]), min_size=1, max_size=3)


def letter(text: str) -> str:
    """A model that says short lines, a function of a text's first line and of this one: others in everybody's texts."""
    whose, line = text.partition("\n")[0], text.rpartition("\n")[2]
    if len(line) < 4 and text.count("\n") < 9:
        return " "
    digest = hashlib.sha256(f"{whose}|{line}".encode()).digest()[0]
    return "\n" if len(line) > 9 or line.endswith(")") else "aab(("[digest % 5] if not line.endswith("(") else ")"


@cache
def whole(before: str) -> str:
    """What is shown after `before` in the end, to somebody who is alone."""
    return plain(letter, before)


def start(front: Front) -> str:
    """What this one's texts begin with."""
    return f"# of {front.name}\nif x:\n    "


class People(RuleBasedStateMachine):
    """Each has a cursor of their own, in one of two or three documents whose names are the same for all."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = Shared(letter)
        self.there: list[Front] = []
        self.all: list[Front] = []
        self.texts: dict[str, str] = {}
        self.off: set[str] = set()
        self.alone = False
        self.limit_ms = 0.0  # of the last request of who is alone

    @initialize(most=st.sampled_from([1, 2, 100]), load_ms=st.sampled_from([0.0, 3000.0]), alone=st.booleans())
    def begin(self, most: int, load_ms: float, alone: bool) -> None:
        self.alone = alone
        self.shared = Shared(letter, most=most, load_ms=0.0 if alone else load_ms)
        self.join("hurried")
        if not alone:
            self.join("patient")

    @precondition(lambda self: not self.alone and len(self.there) < MOST)
    @rule(policy=st.sampled_from(sorted(POLICIES)))
    def join(self, policy: str) -> None:
        front = self.shared.open(POLICIES[policy])
        self.there.append(front)
        self.all.append(front)
        self.texts[front.name] = start(front)

    @precondition(lambda self: self.there)
    @rule(who=ANYBODY, uri=st.sampled_from(URIS), invoked=st.booleans())
    def ask(self, who: int, uri: str, invoked: bool) -> None:
        front = self.one(who)
        self.limit_ms = front.policy.invoked_ms if invoked else front.policy.automatic_ms
        front.ask(self.texts[front.name], uri, invoked=invoked)

    @precondition(lambda self: self.there)
    @rule(who=ANYBODY, keys=TYPED, pieces=st.integers(0, 5))
    def type_on(self, who: int, keys: list[str], pieces: int) -> None:
        """As editors do it: each key cancels the last request and sends another."""
        front = self.one(who)
        for key in keys:
            self.cancel(who)
            self.texts[front.name] += whole(self.texts[front.name])[:1] if key == "along" else key
            self.ask(who, URIS[0], False)
            self.work(pieces)
            self.everybodys_answers_are_their_own()

    @precondition(lambda self: self.there)
    @rule(who=ANYBODY)
    def delete(self, who: int) -> None:
        front = self.one(who)
        self.texts[front.name] = self.texts[front.name][: max(len(start(front)), len(self.texts[front.name]) - 1)]

    @precondition(lambda self: self.there)
    @rule(who=ANYBODY)
    def cancel(self, who: int) -> None:
        if self.one(who).asked:
            self.one(who).asked[-1][2].cancel()

    @precondition(lambda self: self.there)
    @rule(who=ANYBODY)
    def accept(self, who: int) -> None:
        """What is shown, if the text is still the one that it was made for."""
        front = self.one(who)
        if not front.asked or front.name in self.off:
            return
        before, _, future = front.asked[-1]
        if before == self.texts[front.name] and future.done() and not future.cancelled() and future.result(0).text:
            self.texts[front.name] += future.result(0).text
            front.service.accepted(front.request(self.texts[front.name], URIS[0]), front.policy)

    @precondition(lambda self: self.there)
    @rule(who=ANYBODY, uri=st.sampled_from(URIS), other=st.sampled_from(URIS))
    def rename(self, who: int, uri: str, other: str) -> None:
        self.one(who).service.document_renamed(uri, other)

    @precondition(lambda self: self.there)
    @rule(who=ANYBODY, uri=st.sampled_from(URIS))
    def forget(self, who: int, uri: str) -> None:
        self.one(who).service.document_closed(uri)

    @precondition(lambda self: not self.alone)
    @rule(who=ANYBODY)
    def switch(self, who: int) -> None:
        front = self.one(who)
        self.off ^= {front.name}
        front.service.set_enabled(front.name not in self.off)

    @precondition(lambda self: not self.alone)
    @rule(who=ANYBODY)
    def load_anew(self, who: int) -> None:
        self.one(who).service.reload()

    @precondition(lambda self: len(self.there) > 1)
    @rule(who=ANYBODY)
    def leave(self, who: int) -> None:
        front = self.one(who)
        self.there.remove(front)
        front.service.shutdown()

    @rule(pieces=st.integers(1, 12))
    def work(self, pieces: int) -> None:
        self.shared.work(pieces=pieces)

    @rule(ms=st.sampled_from([50.0, 400.0, 1500.0]))
    def pause(self, ms: float) -> None:
        self.shared.rest(ms)

    @invariant()
    def everybodys_answers_are_their_own(self) -> None:
        """Beginnings of the plain answer to their text, or to one that they have typed along from."""
        for front in self.there:
            for before, _, future in front.asked[-2:]:
                self.check(front, before, future)

    @invariant()
    def who_is_alone_is_answered_in_time(self) -> None:
        for _, asked_ms, future in self.there[0].asked[-1:] if self.alone else ():
            assert future.done() or self.shared.clock.ms <= asked_ms + self.limit_ms + HASTE_MS

    def check(self, front: Front, before: str, future: "Future[Completion]") -> None:
        if not future.done() or future.cancelled():
            return
        text = future.result(0).text
        assert not text or any(
            (before[at:] + text) == whole(before[:at])[: len(before) - at + len(text)]
            for at in range(len(start(front)), len(before) + 1)
        ), (before, text)

    def one(self, who: int) -> Front:
        return self.there[who % len(self.there)]

    def teardown(self) -> None:
        """In the end everybody has been answered, once, and who has left has left nothing behind."""
        self.shared.work(until=lambda: all(future.done() for front in self.there for *_, future in front.asked))
        self.shared.scheduler.turn()
        there = {front.name for front in self.there}
        assert {name.partition("\n")[0] for name in self.shared.caches.engines} <= there
        for front in self.all:
            assert [front.answers[number] for number in range(len(front.asked))] == [1] * len(front.asked)
            counts = front.service.statistics()
            answered = counts.shown + counts.empty + counts.typed_through + counts.superseded + counts.cancelled
            assert counts.requests == answered + counts.failed == len(front.asked)
            assert counts.failed == 0


People.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestPeople = People.TestCase


START = "x = "
OTHER = "file:///b.py"
MODEL = script("value = compute()\n", START)
WAIT_S = 60.0


def use(front: Front, seed: int) -> "list[Future[Completion]]":
    chance = random.Random(seed)
    asked: list[Future[Completion]] = []
    for step in range(60):
        match chance.randrange(12):
            case 0:
                front.service.document_renamed(*chance.sample((URI, OTHER), 2))
            case 1:
                front.service.document_closed(chance.choice((URI, OTHER)))
            case 2:
                front.service.set_enabled(False)
                front.service.set_enabled(True)
            case 3:
                asked[-1].cancel() if asked else None
            case 4:
                front.service.preload()
            case 5 if step % 20 == 5:
                front.service.reload()
            case _:
                text = f"# {step}\n{START}" + "value"[: chance.randrange(5)]
                asked.append(front.ask(text, chance.choice((URI, OTHER)), invoked=chance.random() < 0.2))
    return asked


def until_told(front: Front, answers: int) -> None:
    """A future's callbacks come after those who wait for it have been let go."""
    end = time.monotonic() + WAIT_S
    while len(front.answers) < answers:
        assert time.monotonic() < end, front.answers
        time.sleep(0.005)


@pytest.mark.parametrize("seed", range(8))
def test_every_request_of_every_client_ends(seed: int) -> None:
    shared = Shared(MODEL, most=2)
    running = threading.Thread(target=shared.scheduler.run, daemon=True)
    running.start()
    fronts = [shared.open(Policy(automatic_ms=500, invoked_ms=900)) for _ in range(5)]
    asked: dict[int, list[Future[Completion]]] = {}

    def live(number: int) -> None:
        asked[number] = use(fronts[number], 10 * seed + number)
        if number < 2:
            fronts[number].service.shutdown()

    people = [threading.Thread(target=live, args=(number,)) for number in range(len(fronts))]
    for person in people:
        person.start()
    for person in people:
        person.join(WAIT_S)
    futures = [future for one in asked.values() for future in one]
    assert not wait([future for future in futures if not future.cancelled()], WAIT_S).not_done
    for number, front in enumerate(fronts):
        until_told(front, len(asked[number]))
        assert front.answers == dict.fromkeys(range(len(asked[number])), 1)
    late = shared.open(Policy()).ask(START)
    assert late.result(WAIT_S).text == "value = compute()"
    there = {front.name for front in shared.fronts[2:]}
    assert {name.partition("\n")[0] for name in shared.caches.engines} <= there
    shared.scheduler.close()
    running.join(WAIT_S)
    assert not running.is_alive()
    assert shared.caches.closed
