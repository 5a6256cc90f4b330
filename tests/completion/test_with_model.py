"""Budgets, adoption and alternatives with the real model: exact for what is complete, beginnings for what is not."""

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import pytest

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion, CompletionRequest, Snapshot
from fastcoder_lsp.runtime.load import load_runtime
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.direct import DirectHost
from tests.completion.simulated import Clock, TurnByTurn

pytestmark = pytest.mark.model

BEFORE = '''\
class Stack:
    """Last in, first out."""

    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
'''
AFTER = "\n\n\nstack = Stack()\n"


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    """The model as the server runs it, but for the drafter, which reads nothing of earlier tests."""
    made = load_runtime(replace(Settings(), drafter="lookup"), lambda _share, _what: None)
    yield made
    made.close()


class Ticking(Clock):
    """A millisecond between any two looks: no test hangs on the machine's speed."""

    def __call__(self) -> float:
        self.ms += 1.0
        return self.ms


class Person(TurnByTurn):
    def __init__(self, runtime: Runtime) -> None:
        runtime.engine_for("file:///stack.py").prefill([], lambda: False)
        runtime.prompts.forget("file:///stack.py")
        self.runtime, self.clock = runtime, Ticking()
        self.service = CompletionService(self.open_host, clock=self.clock)

    def open_host(self, listener: HostListener) -> DirectHost:
        self.host = DirectHost(listener, lambda _: self.runtime, clock=self.clock, threaded=False)
        self.scheduler = self.host.scheduler
        return self.host

    def ask(self, before: str, policy: Policy, *, invoked: bool = False) -> "Future[Completion]":
        snapshot = Snapshot("file:///stack.py", None, "python", len(before), before + AFTER)
        return self.service.submit(CompletionRequest(snapshot, len(before), invoked=invoked), policy)

    def answer(self, before: str, policy: Policy, *, invoked: bool = False) -> Completion:
        future = self.ask(before, policy, invoked=invoked)
        self.work(pieces=1000, until=future.done)
        return future.result(0)


def test_typing_along_makes_no_step_twice(runtime: Runtime) -> None:
    undisturbed = Person(runtime)
    plain = undisturbed.answer(BEFORE, Policy())
    person, typed, future = Person(runtime), "", None
    while future is None or not future.done():
        if future is not None:
            future.cancel()
        future = person.ask(BEFORE + typed, Policy())
        person.work(pieces=3)
        task = person.host.client.generation
        assert task is not None
        typed += task.said()[len(typed) : len(typed) + 1]
    last = future.result(0)
    assert plain.text.endswith(last.text)
    assert last.text
    there, here = undisturbed.service.statistics(), person.service.statistics()
    assert (here.steps, here.prefilled) == (there.steps, there.prefilled)
    assert here.adopted > 0


def test_alternatives_differ_and_the_first_is_the_plain_one(runtime: Runtime) -> None:
    plain = Person(runtime).answer(BEFORE, Policy())
    person = Person(runtime)
    answer = person.answer(BEFORE, Policy(alternatives=3), invoked=True)
    texts = [answer.text, *(other.text for other in answer.others)]
    assert texts[0] == plain.text
    assert 1 < len(texts) == len(set(texts)) <= 3
    assert answer.counts.prefilled == plain.counts.prefilled
    assert person.service.statistics().prefilled <= plain.counts.prefilled + 5 * 9
