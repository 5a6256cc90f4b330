"""Two people at a real model, a piece each in turn: the tokens of each alone, and no key costs more of a prompt."""

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import pytest

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion, CompletionRequest, Snapshot
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.runtime.load import load_model, make_runtime
from fastcoder_lsp.runtime.parts import ALONE, Model
from fastcoder_lsp.scheduling.direct import SchedulerHost
from fastcoder_lsp.scheduling.scheduler import Scheduler

pytestmark = pytest.mark.ci

SETTINGS = replace(Settings(), model="wheels:smollm2")
STACK = '''\
class Stack:
    """Last in, first out."""

    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
'''
MEAN = '''\
def total(numbers):
    """The sum."""
    result = 0
    for number in numbers:
        result += number
    return result


def mean(numbers):
    """The arithmetic mean."""
'''
AFTER = "\n\n\nprint(1)\n"


@pytest.fixture(scope="module")
def model(llama_model: ModelFiles) -> Iterator[Model]:
    made = load_model(SETTINGS, lambda _share, _what: None)
    yield made
    made.close()


class Table:
    """A scheduler over a model that outlives it, driven by the test; a millisecond passes between any two looks."""

    def __init__(self, model: Model) -> None:
        self.model, self.ms = model, 0.0
        self.scheduler: Scheduler[Kept] = Scheduler(lambda _: Kept(model), self.clock)

    def clock(self) -> float:
        self.ms += 1.0
        return self.ms

    def work(self, *futures: "Future[Completion]") -> None:
        while not all(future.done() for future in futures):
            assert self.scheduler.turn() == 0


class Kept:
    """A model that is not closed with the scheduler."""

    def __init__(self, model: Model) -> None:
        self.model, self.costs = model, model.costs

    def close(self) -> None:
        pass


class Person:
    """One front, and what its editor shows."""

    def __init__(self, table: Table, name: str, text: str) -> None:
        self.table, self.name, self.text, self.version = table, name, text, 0

        def open_host(listener: HostListener) -> SchedulerHost:
            return SchedulerHost(
                table.scheduler, listener, lambda kept: make_runtime(kept.model, SETTINGS, ALONE, name)
            )

        self.service = CompletionService(open_host, lambda _: None, clock=table.clock)

    def ask(self, typed: str = "") -> "Future[Completion]":
        self.version += 1
        before = self.text + typed
        snapshot = Snapshot("file:///same.py", None, "python", self.version, before + AFTER)
        return self.service.submit(CompletionRequest(snapshot, len(before)), Policy())

    def leave(self) -> None:
        self.service.shutdown()
        self.table.scheduler.turn()


def answers(model: Model, *texts: str) -> list[Completion]:
    """What so many people are answered who ask at once."""
    table = Table(model)
    people = [Person(table, f"{len(texts)} {number}", text) for number, text in enumerate(texts)]
    futures = [person.ask() for person in people]
    table.work(*futures)
    for person in people:
        person.leave()
    return [future.result(0) for future in futures]


def pieces(completion: Completion) -> list[bytes]:
    """The bytes of every token of an answer, whoever guessed it."""
    return [token.piece for step in completion.trace for token in step.tokens]


def test_in_turns_each_is_told_what_they_are_told_alone(model: Model) -> None:
    alone = [answers(model, text)[0] for text in (STACK, MEAN)]
    together = answers(model, STACK, MEAN)
    assert all(one.text for one in alone)
    for single, shared in zip(alone, together, strict=True):
        assert (shared.text, shared.finish) == (single.text, single.finish)
        assert pieces(shared) == pieces(single)
