"""With the real model: one place has one text, by whatever way it is asked for; chunks of other files are shown."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import CompletionRequest, Snapshot
from fastcoder_lsp.http.forms import (
    CompletionForm,
    ExtraChunk,
    InfillForm,
    OpenAIForm,
    read_completion,
    read_infill,
    read_openai,
)
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
PLACES = (
    "self.items = ",
    "def push(self, item):\n",
    "self.items.append(",
    "return json",
    "    def pop(self):\n        ",
)


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

    def by_http(self, ask: InfillRequest) -> str:
        async def answer() -> str:
            desks = SessionPool(self.open_host, WORDED, SETTINGS.completion_max_tokens)
            gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            try:
                return answer_of(ask, await desks.answer(ask, gone)).text
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


def test_one_place_has_one_text(model: Model) -> None:
    texts = set[str]()
    for place in PLACES:
        at = TEXT.index(place) + len(place)
        before, after = TEXT[:at], TEXT[at:].partition("\n")[1] + TEXT[at:].partition("\n")[2]
        machine, name = Machine(model), "a.py"
        line = before.rfind("\n") + 1
        infill = InfillForm(input_prefix=before[:line], prompt=before[line:], input_suffix=after, filename=name)
        marked = f"<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>"
        asks = [
            read_infill(infill),
            read_openai(OpenAIForm(prompt=before, suffix=after, filename=name)),
            read_completion(CompletionForm(prompt=marked, filename=name)),
        ]
        expected = machine.by_editor(before, after)
        assert [machine.by_http(ask) for ask in asks] == [expected] * 3
        texts.add(expected)
    assert len(texts) > 2, "it says something, and not always the same"


def test_other_texts_are_those_of_an_editor(model: Model) -> None:
    """Who asks for alternatives gets what a key would show, the greedy text first."""
    machine, at = Machine(model), TEXT.index("self.items.append(") + len("self.items.")
    form = InfillForm(input_prefix=TEXT[:at], input_suffix="\n", filename="a.py", alternatives=3)

    async def answer() -> InfillAnswer:
        desks = SessionPool(machine.open_host, WORDED, SETTINGS.completion_max_tokens)
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            return answer_of(read_infill(form), await desks.answer(read_infill(form), gone))
        finally:
            await asyncio.to_thread(desks.close, 10.0)

    several = asyncio.run(answer())
    assert several.text == machine.by_editor(TEXT[:at], "\n")
    assert several.others
    assert several.text not in several.others
    assert len({several.text, *several.others}) == 1 + len(several.others)


def test_chunks_of_other_files_are_shown(model: Model) -> None:
    machine = Machine(model)
    chunks = [ExtraChunk("def rotate_by_quarter(image, turns):\n    return image.rotate(90 * turns)\n", "turn.py")]
    form: dict[str, Any] = {"input_prefix": "from turn import ", "input_suffix": "\n", "input_extra": chunks}
    text = machine.by_http(read_infill(InfillForm(**form)))
    assert text.startswith("rotate_by_quarter")
