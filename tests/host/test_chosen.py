"""The host that the settings choose: opened when needed, told what was told before, another one where they change."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.completion.protocol import (
    Ask,
    AskEdit,
    DocumentChanged,
    DocumentClosed,
    Enable,
    Forget,
    HostListener,
    Load,
    Noticed,
    OpenHost,
    Use,
    Withdraw,
)
from fastcoder_lsp.config import Settings
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.host.selector import BackendSelector
from fastcoder_lsp.workspace.document import OpenTexts
from tests.host.scripted import Heard, ScriptedHost, question

SETTINGS = replace(Settings(), host_enabled=False)
SHARED = replace(SETTINGS, host_enabled=True)
FOLDERS = {Path("/w"): SETTINGS}


class Kinds:
    """Both kinds of hosts, scripted; `gate` lets the next one open."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, ScriptedHost]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None
        self.heard = Heard()
        self.host = BackendSelector(
            self.opens("shared"), self.opens("alone"), self.heard, SETTINGS, FOLDERS, OpenTexts()
        )

    def opens(self, kind: str) -> OpenHost:
        def open_one(
            listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
        ) -> ScriptedHost:
            assert self.gate.wait(60)
            if self.failure is not None:
                raise self.failure
            self.opened.append((kind, ScriptedHost(listener, settings, folders, texts)))
            return self.opened[-1][1]

        return open_one

    def asks(self, number: int, text: str = "value = word") -> str:
        self.host.send(Ask(question(number, text)))
        self.heard.wait(lambda: number in self.heard.answers)
        (answer,) = self.heard.answers[number]
        return answer.candidates[0].text if answer.candidates else answer.outcome

    def calls(self, place: int = -1) -> list[str]:
        return [str(call[0]) for call in self.opened[place][1].calls]


@pytest.fixture
def kinds() -> Kinds:
    return Kinds()


def test_it_is_opened_by_the_settings_that_came_before_the_first_question(kinds: Kinds) -> None:
    kinds.host.send(DocumentChanged(Path("/w/a.py"), "old"))
    kinds.host.send(DocumentChanged(Path("/w/b.py"), "closed"))
    kinds.host.send(DocumentChanged(Path("/w/a.py"), "new"))
    kinds.host.send(DocumentClosed(Path("/w/b.py")))
    kinds.host.send(Noticed(1.0, answered=True))
    kinds.host.send(Forget("file:///w/b.py"))
    kinds.host.send(Use(SHARED, FOLDERS))
    assert not kinds.opened
    assert kinds.host.facts().model == ""
    assert kinds.asks(1) == "WORD"
    ((kind, host),) = kinds.opened
    assert kind == "shared"
    assert host.calls[0] == ("open", SHARED, FOLDERS)
    assert host.texts.copy() == {Path("/w/a.py"): "new"}
    assert kinds.calls()[1:] == ["ask"]
    kinds.heard.wait(lambda: kinds.host.facts().model == "scripted")


def test_what_is_told_while_it_opens_is_told_in_its_order(kinds: Kinds) -> None:
    kinds.gate.clear()
    kinds.host.send(Ask(question(1, "value = hang")))
    kinds.host.send(DocumentChanged(Path("/w/a.py"), "text"))
    kinds.host.send(Withdraw(1))
    kinds.host.send(Load(1))
    kinds.host.send(Enable(enabled=True))
    kinds.host.send(Ask(question(2, "value = word")))
    kinds.gate.set()
    kinds.heard.wait(lambda: 2 in kinds.heard.answers)
    assert kinds.calls() == ["open", "ask", "document_changed", "withdraw", "load", "enable", "ask"]
    assert kinds.heard.loads == [True]


def test_where_the_settings_change_the_other_kind_goes_on(kinds: Kinds) -> None:
    assert kinds.asks(1) == "WORD"
    kinds.host.send(DocumentChanged(Path("/w/a.py"), "text"))
    first = kinds.opened[0][1]
    kinds.host.send(Use(SHARED, FOLDERS))
    kinds.heard.wait(first.closed.is_set)
    first.send(Ask(question(2, "value = late")))
    assert 2 not in kinds.heard.answers
    kinds.gate.clear()
    kinds.host.send(Load(1))
    kinds.host.send(Use(SETTINGS, FOLDERS))
    assert kinds.heard.loads == [False]
    kinds.gate.set()
    assert kinds.asks(3) == "WORD"
    [_, last] = [host for kind, host in kinds.opened if kind == "alone"]  # who is not wanted any more may come later
    assert last.texts.get(Path("/w/a.py")) == "text"
    kinds.heard.wait(lambda: all(host.closed.is_set() for kind, host in kinds.opened if kind == "shared"))


def test_what_cannot_be_opened_is_an_answer_and_tried_again(kinds: Kinds) -> None:
    kinds.failure = OSError("no such thing")
    kinds.gate.clear()
    edit = EditQuestion(1, "file:///w/a.py", "a.py", "python", 1, "x", 0, (), 0.0)
    kinds.host.send(Ask(question(1, "value = word")))
    kinds.host.send(AskEdit(edit))
    kinds.host.send(Load(1))
    kinds.gate.set()
    kinds.heard.wait(lambda: kinds.heard.loads)
    assert "no such thing" in str(kinds.heard.edits[1].reason)
    assert kinds.heard.loads == [False]
    assert [answer.outcome for answer in kinds.heard.answers[1]] == ["failed"]
    assert kinds.heard.statuses[-1].state == "error"
    kinds.failure = None
    assert kinds.asks(2) == "WORD"
    kinds.host.send(AskEdit(replace(edit, number=2)))
    kinds.heard.wait(lambda: 2 in kinds.heard.edits)
    assert kinds.heard.edits[2].source == "scripted"


def test_off_and_on_are_told_where_there_is_nothing_to_switch(kinds: Kinds) -> None:
    kinds.host.send(Enable(enabled=False))
    kinds.host.send(Enable(enabled=True))
    assert [status.state for status in kinds.heard.statuses] == ["off", "starting"]
    assert not kinds.opened


def test_closed_while_it_opens_nothing_stays(kinds: Kinds) -> None:
    kinds.gate.clear()
    kinds.host.send(Load(1))
    kinds.host.close(1.0)
    kinds.host.send(Load(1))
    assert kinds.heard.loads == [False, False]
    kinds.gate.set()
    kinds.heard.wait(lambda: bool(kinds.opened) and kinds.opened[0][1].closed.is_set())
    assert kinds.calls() == ["open", "close"]
