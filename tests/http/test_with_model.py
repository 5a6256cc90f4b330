"""With the real model over HTTP: several texts for a place, and chunks of other files.

`tests/remote/test_same_text.py` has one text at one place, by whatever way it is asked for.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import CompletionRequest, Snapshot
from fastcoder_lsp.http.forms import InfillForm, read_infill
from fastcoder_lsp.http.infill import InfillAnswer, InfillRequest, answer_of
from fastcoder_lsp.http.sessions import SessionPool
from fastcoder_lsp.prompt.context import GivenExtras
from fastcoder_lsp.runtime.load import load_model, make_runtime
from fastcoder_lsp.runtime.parts import Model, Runtime, WorkspaceView
from fastcoder_lsp.scheduling.direct import DirectHost

pytestmark = [pytest.mark.model, pytest.mark.ci]

SETTINGS = replace(Settings(), drafter="lookup", context_enabled=True)
WORDED = Policy(in_words=False, in_secrets=False)
TEXT = '''\
import json
from pathlib import Path


class Stack:
    """Last in, first out."""

    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        return self.items.pop()


def load(path):
    return json.loads(Path(path).read_text())
'''


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    loaded = load_model(SETTINGS, lambda _share, _what: None, datastore=False)
    yield loaded
    loaded.close()


class Machine:
    """The model behind desks, and behind an editor's service, each fresh."""

    def __init__(self, model: Model) -> None:
        self.model, self.made = model, list[Runtime]()

    def open_host(self, listener: HostListener) -> DirectHost:
        return DirectHost(listener, self.make)

    def make(self, _: object) -> Runtime:
        around = WorkspaceView(context=GivenExtras())
        self.made.append(make_runtime(self.model, SETTINGS, around, f"{id(self)}-{len(self.made)}"))
        return self.made[-1]

    def by_http(self, ask: InfillRequest) -> InfillAnswer:
        async def answer() -> InfillAnswer:
            desks = SessionPool(self.open_host, WORDED, SETTINGS.completion_max_tokens)
            gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            try:
                return answer_of(ask, await desks.answer(ask, gone))
            finally:
                await asyncio.to_thread(desks.close, 10.0)

        return asyncio.run(answer())

    def by_editor(self, before: str, after: str) -> str:
        service = CompletionService(self.open_host, lambda _: None)
        try:
            snapshot = Snapshot("file:///a.py", None, "python", 1, before + after)
            completion = service.submit(CompletionRequest(snapshot, len(before)), WORDED).result(120)
            return answer_of(InfillRequest(before, after), completion).text
        finally:
            service.shutdown(10.0)


def test_other_texts_are_those_of_an_editor(model: Model) -> None:
    machine, at = Machine(model), TEXT.index("self.items.append(") + len("self.items.")
    form = InfillForm(input_prefix=TEXT[:at], input_suffix="\n", filename="a.py", alternatives=3)
    several = machine.by_http(read_infill(form))
    assert several.text == machine.by_editor(TEXT[:at], "\n")
    assert several.others
    assert several.text not in several.others
    assert len({several.text, *several.others}) == 1 + len(several.others)
