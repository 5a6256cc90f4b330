"""The model on this machine goes on while the server does not, and gives way once the server is there again."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fastcoder_lsp.completion.protocol import Answered, DocumentChanged, HostListener, StatusChanged, Use
from fastcoder_lsp.completion.question import Answer, Question
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.workspace.document import OpenTexts
from tests.host.scripted import ScriptedHost
from tests.opened import until
from tests.remote.front import Fronts
from tests.remote.scripted_server import LlamaServer, Serve, as_json


class Local:
    """Opens local models: each says the last word in capitals."""

    def __init__(self, kind: type[ScriptedHost] = ScriptedHost) -> None:
        self.kind, self.opened = kind, list[ScriptedHost]()

    def __call__(
        self, listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
    ) -> ScriptedHost:
        self.opened.append(self.kind(listener, settings, folders, texts))
        return self.opened[-1]

    def calls(self, name: str) -> list[tuple[object, ...]]:
        return [call for call in self.opened[0].calls if call[0] == name]


class Missing(ScriptedHost):
    """There is no model on this machine."""

    def ask(self, question: Question) -> None:
        status = Status("error", message="There is no model.", hint="Run: fastcoder-lsp model pull")
        self.listener(StatusChanged(status))
        self.listener(Answered(question.number, Answer.failed(status)))


def broken(_: object) -> object:
    return iter([as_json({}, 500)])


def test_it_answers_meanwhile(serve: Serve, front: Fronts) -> None:
    server, local = serve(broken), Local()
    asking = front(server.url, local, pauses_s=(600.0,))
    assert asking.ask("x = word").text == "WORD"
    assert asking.ask("y = other").text == "OTHER"
    assert len(asking.notices) == 1
    assert "127.0.0.1 failed (500)" in asking.notices[0]
    assert len({request.path for request in server.requests}) == 1
    assert asking.service.host.facts().model == "scripted"


def test_it_gives_way(serve: Serve, front: Fronts) -> None:
    server, local = serve(broken), Local()
    asking = front(server.url, local)
    assert asking.ask("x = word").text == "WORD"
    server.handler = LlamaServer(lambda _: "1\n")
    for number in range(20):
        assert asking.ask(f"y{number} = word").text == "1"
        assert local.calls("enable") == ([("enable", False)] if number == 19 else [])
    server.handler = broken  # type: ignore[assignment]
    assert asking.ask("z = word").text == "WORD"
    assert local.calls("enable") == [("enable", False), ("enable", True)]
    assert len(asking.notices) == 2, "once for each time that it was lost"


def test_without_a_local_model_the_servers_reason_is_told(serve: Serve, front: Fronts) -> None:
    """That is what the user can do something about."""
    asking = front(serve(broken).url, Local(Missing))
    assert asking.code("x = word") == "remote-broken"
    assert asking.statuses[-1].message.startswith("127.0.0.1 failed")


def test_it_is_not_opened_for_nothing(serve: Serve, front: Fronts) -> None:
    server, local = serve(LlamaServer(lambda _: "1\n")), Local()
    asking = front(server.url, local)
    asking.service.host.send(DocumentChanged(Path("/w/a.py"), "x = 1\n"))
    for number in range(5):
        assert asking.ask(f"x{number} = word").text == "1"
    asking.service.document_closed("file:///w/a.py")
    assert not local.calls("ask")
    assert not local.calls("load")


def test_a_waiting_request_is_answered_by_the_fallback(serve: Serve, front: Fronts) -> None:
    class Cut(LlamaServer):
        def _infill(self, request: object) -> object:  # type: ignore[override]
            yield from list(super()._infill(request))[:2]  # type: ignore[arg-type]
            raise OSError

    local = Local()
    asking = front(serve(Cut(lambda _: "first\n")).url, local)
    assert asking.ask("x = word").text == "WORD"
    assert len(local.calls("ask")) == 1
    statistics = asking.service.statistics()
    assert (statistics.requests, statistics.shown) == (1, 1)


def test_loading_says_whether_there_is_anything(serve: Serve, front: Fronts) -> None:
    server = serve(broken)
    assert not front(server.url).service.preload().result(20)
    local = Local()
    assert front(server.url, local).service.preload().result(20)
    assert local.calls("load")


def test_other_settings_reach_it(serve: Serve, front: Fronts) -> None:
    local = Local()
    asking = front(serve(broken).url, local)
    settings = replace(asking.settings, power="saver")
    asking.service.host.send(Use(settings, {}))
    asking.service.document_renamed("file:///a", "file:///b")
    asking.service.set_enabled(False)
    until(lambda: local.calls("enable"))
    assert ("use", settings, {}) in local.calls("use")
    assert ("rename", "file:///a", "file:///b") in local.calls("rename")
    assert asking.ask("x = word").finish == "off"
