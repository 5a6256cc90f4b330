"""A search for code of other files is done in slices: it delays nobody else, and no key repeats it in vain."""

import pytest
from typing_extensions import override

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import Pieces, Snapshot
from fastcoder_lsp.prompt import Prompt
from fastcoder_lsp.scheduling.budget import SLICE_MS
from tests.completion.simulated import STEP_MS, URI, Clock
from tests.completion.toys import ToyPrompts
from tests.scheduling.several_fronts import MODEL, PATIENT, START, WHOLE
from tests.scheduling.shared import Front, Shared, alone, bytes_of

PART_MS, PARTS = 4.0, 20
LONGEST_MS = SLICE_MS + PART_MS
OTHER = "file:///b.py"


class SearchingPrompts(ToyPrompts):
    """Searches for a document's first prompt; `begun`, `ended`: the documents of all searches."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(bytes_of)
        self._clock = clock
        self.begun, self.ended = list[str](), list[str]()

    @override
    def build(self, snapshot: Snapshot, offset: int, **_: object) -> Pieces[Prompt]:
        if snapshot.uri not in self.ended:
            self.begun.append(snapshot.uri)
            for _part in range(PARTS):
                self._clock.passes(PART_MS)
                yield
            self.ended.append(snapshot.uri)
        return (yield from super().build(snapshot, offset))


class Searching:
    """Two people with a model: `one`, whose first prompt at a document is searched for, and another."""

    def __init__(self, policy: Policy = PATIENT) -> None:
        self.shared = Shared(MODEL)
        self.clock = self.shared.clock
        self.one, self.other = self.shared.open(policy), self.shared.open(policy)
        self.prompts = self.one.prompts = SearchingPrompts(self.clock)
        for front in (self.one, self.other):
            front.service.preload()
        self.shared.work()

    def begin(self) -> None:
        """Ask, and do the first slice of the search."""
        self.one.ask(START)
        self.shared.work(pieces=1)
        assert self.prompts.begun == [URI]
        assert not self.prompts.ended

    def answer(self, front: Front, before: str, uri: str = URI) -> str:
        asked = front.ask(before, uri)
        self.shared.work(until=asked.done)
        return asked.result(0).text


@pytest.fixture
def searching() -> Searching:
    return Searching()


def test_another_clients_key_comes_between_two_slices(searching: Searching) -> None:
    searching.begin()
    asked_ms, work = searching.clock.ms, searching.other.ask(START)
    while not searching.other.engine().pieces:
        searching.shared.work(pieces=1)
    assert searching.clock.ms - asked_ms <= LONGEST_MS + 2 * STEP_MS
    assert not searching.prompts.ended
    searching.shared.work()
    assert work.result(0).text == searching.one.asked[0][2].result(0).text == WHOLE == alone(MODEL, START).text


def test_a_slice_is_short(searching: Searching) -> None:
    searching.begin()
    while not searching.prompts.ended:
        before_ms = searching.clock.ms
        searching.shared.work(pieces=1)
        assert searching.clock.ms - before_ms <= LONGEST_MS


def test_a_key_that_appends_goes_on_with_the_search(searching: Searching) -> None:
    searching.begin()
    searching.one.ask(START + WHOLE[:1])
    searching.shared.work(pieces=1)
    assert searching.answer(searching.one, START + WHOLE[:2]) == WHOLE[2:]
    assert searching.prompts.begun == [URI]


def test_a_search_goes_on_without_its_request(searching: Searching) -> None:
    searching.begin()
    searching.one.asked[-1][2].cancel()
    assert searching.answer(searching.other, START) == WHOLE
    searching.shared.work()
    assert searching.prompts.ended == [URI]
    assert searching.answer(searching.one, START) == WHOLE
    assert searching.prompts.begun == [URI]


@pytest.mark.parametrize(("before", "uri"), [("y = 1\n" + START, URI), (START, OTHER)])
def test_a_search_for_another_text_is_given_up(searching: Searching, before: str, uri: str) -> None:
    searching.begin()
    assert searching.answer(searching.one, before, uri) == WHOLE
    assert searching.prompts.ended == [uri]


def test_a_closed_document_is_searched_for_no_more(searching: Searching) -> None:
    searching.begin()
    searching.one.service.document_closed(URI)
    searching.shared.work()
    assert not searching.prompts.ended
    assert searching.answer(searching.one, START, OTHER) == WHOLE


def test_no_slice_begins_that_is_over_after_the_deadline() -> None:
    searching = Searching(Policy(automatic_ms=40))
    assert not searching.answer(searching.one, START)
    assert searching.clock.ms <= 40
    searching.shared.work()
    assert searching.prompts.ended == [URI]
    assert searching.answer(searching.one, START) == WHOLE
