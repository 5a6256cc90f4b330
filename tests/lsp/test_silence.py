"""A silent minute as the client hears of it: the real reporter and connection, time handed in."""

import io
import json

import pytest
from pygls.lsp.server import LanguageServer

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import Reason
from fastcoder_lsp.lsp.client import EditorFeatures
from fastcoder_lsp.lsp.endpoint import Endpoint, make_converter
from fastcoder_lsp.lsp.outcomes import Outcomes
from fastcoder_lsp.lsp.status import Reporter
from fastcoder_lsp.lsp.wire import Writer, read_bodies
from fastcoder_lsp.workspace.positions import Position

URI = "file:///project/a.py"
HERE = Position(0, 4)
MISSING = Status("error", message="the model is missing", hint="fastcoder-lsp model pull")


class Typing:
    """A session in which nothing is shown, a key a second."""

    def __init__(self) -> None:
        self._wire = io.BytesIO()
        server = LanguageServer("test", "0", protocol_cls=Endpoint, converter_factory=make_converter)
        endpoint = server.protocol
        assert isinstance(endpoint, Endpoint)
        endpoint.set_writer(Writer(self._wire, lambda: None), include_headers=False)
        self.reporter = Reporter(endpoint)
        self.reporter.open(EditorFeatures())
        self._now_s = 1000.0
        self.outcomes = Outcomes(self.reporter, lambda: self._now_s)

    def silent(self, seconds: int, reason: Reason) -> None:
        for _ in range(seconds):
            self._now_s += 1
            self.outcomes.empty(URI, HERE, reason)

    def notices(self) -> list[str]:
        told = [json.loads(body) for body in read_bodies(io.BytesIO(self._wire.getvalue()))]
        return [message["params"]["message"] for message in told if message["method"] == "window/showMessage"]


@pytest.fixture
def typing() -> Typing:
    """Nothing was asked yet."""
    return Typing()


def test_it_is_told_once_with_what_to_do(typing: Typing) -> None:
    """The most frequent reason and its hint, as one message a session."""
    slow = reasons.slow("", 150, 80, invoked=False)
    typing.silent(300, slow)
    [notice] = typing.notices()
    assert slow.text in notice
    assert slow.hint in notice


def test_a_suggestion_begins_the_minute_anew(typing: Typing) -> None:
    """Nothing is told of silences that were broken."""
    for _ in range(5):
        typing.silent(50, reasons.models_end())
        typing.outcomes.shown(URI, HERE)
    assert typing.notices() == []


def test_what_was_said_when_it_broke_is_not_said_again(typing: Typing) -> None:
    """A missing model had its notice at once."""
    typing.reporter.status(MISSING)
    typing.silent(300, reasons.failed(MISSING))
    assert len(typing.notices()) == 1


def test_why_knows_them_all(typing: Typing) -> None:
    """Each empty answer is kept, one entry for the same at the same place."""
    typing.silent(5, reasons.models_end())
    [kept] = typing.outcomes.reasons.silences(URI)
    assert (kept.reason.code, kept.times) == ("end", 5)
