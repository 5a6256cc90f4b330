"""Which documents go to the server that the settings name, and which stay here."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.completion.protocol import Use
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion, CompletionRequest, Snapshot
from fastcoder_lsp.host.address import made_from
from tests.host.test_local import Kinds
from tests.opened import until
from tests.remote.front import WAIT_S, Front, Fronts
from tests.remote.scripted_server import LlamaServer, ScriptedServer, Serve
from tests.remote.test_fallback import Local

MARK = "only_here"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with what is to stay, and what is not."""
    root = tmp_path / "work"
    for name in ("a.py", "ignored/b.py", "node_modules/c.py", ".git/d.py", "sub/e.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = 1\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f.py").write_text("x = 1\n")
    (root / "linked.py").symlink_to(tmp_path / "outside/f.py")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / ".gitignore").write_text("ignored/\n")
    (root / "sub/.fastcoderignore").write_text("e.py\n")
    return root


FORBIDDEN = (
    "ignored/b.py",
    "ignored/unsaved.py",
    "node_modules/c.py",
    ".git/d.py",
    "sub/e.py",
    "linked.py",
    "folder/f.py",
    "../outside/f.py",
    ".env",
)


def ask(asking: Front, path: Path, **named: Any) -> Completion:
    return asking.ask(f"{MARK} = word", uri=path.as_uri(), **named)


def nothing_left(server: ScriptedServer) -> bool:
    return MARK not in json.dumps([request.body for request in server.requests])


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_may_not_be_read_is_not_sent(serve: Serve, front: Fronts, root: Path, name: str) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    asking = front(server.url, folders=(root,), pauses_s=(600.0,))
    answer = ask(asking, root / name)
    assert answer.reason is not None
    assert answer.reason.code == ("secret" if name == ".env" else "ignored")
    assert "127.0.0.1" in answer.reason.text
    assert "remote.fallback" in answer.reason.hint
    assert asking.statuses[-1].state == "ready"
    assert ask(asking, root / name, invoked=True, policy=Policy(alternatives=3)).text == ""
    assert nothing_left(server)
    assert asking.ask("y = ", uri=(root / "a.py").as_uri()).text == "1"


def test_the_model_on_this_machine_answers(serve: Serve, front: Fronts, root: Path) -> None:
    server, local = serve(LlamaServer(lambda _: "1\n")), Local()
    asking = front(server.url, local, folders=(root,), pauses_s=(600.0,))
    assert ask(asking, root / "ignored/b.py").text == "WORD"
    assert asking.ask("y = word", uri=(root / "a.py").as_uri()).text == "1"
    assert ask(asking, root / "linked.py").text == "WORD"
    assert nothing_left(server)
    assert not asking.notices


def test_a_document_without_a_rule_is_sent(serve: Serve, front: Fronts, root: Path) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    asking = front(server.url, folders=(root,))
    for uri in ((root / "new.py").as_uri(), "untitled:one"):
        assert asking.ask("y = ", uri=uri).text == "1"
    alone = front(server.url)
    assert alone.ask("y = ", uri=(root.parent / "outside/f.py").as_uri()).text == "1"
    assert ask(alone, root / "linked.py").reason is not None
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    assert ask(alone, root / "ignored/b.py").reason is not None
    assert nothing_left(server)


def test_rules_hold_from_the_moment_that_they_change(serve: Serve, front: Fronts, root: Path) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    asking, path = front(server.url, folders=(root,)), root / "a.py"
    assert asking.ask("y = ", uri=path.as_uri()).text == "1"
    (root / ".gitignore").write_text("a.py\n")
    assert ask(asking, path).reason is not None
    (root / ".gitignore").unlink()
    assert asking.ask("z = ", uri=path.as_uri()).text == "1"
    settings = replace(asking.settings, read_exclude=("*.py",))
    asking.service.host.send(Use(settings, {root: settings}))
    assert ask(asking, path).reason is not None
    asking.service.host.send(Use(asking.settings, {root / "sub": asking.settings}))
    assert ask(asking, path).reason is not None, "it is outside of the workspace now"
    assert nothing_left(server)


def test_work_ahead_is_not_sent(serve: Serve, front: Fronts, root: Path) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    asking, path = front(server.url, folders=(root,)), root / "ignored/b.py"
    assert asking.ask("y = ", uri=(root / "a.py").as_uri()).text == "1"
    snapshot = Snapshot(path.as_uri(), str(path), "python", 1, f"{MARK} = ")
    asking.service.accepted(CompletionRequest(snapshot, len(snapshot.text)), Policy())
    assert asking.ask("z = ", uri=(root / "a.py").as_uri()).text == "1"
    assert nothing_left(server)


@pytest.mark.parametrize("name", ["ignored/b.py", ".env", "../outside/new.py"])
def test_a_document_that_gets_a_name_that_stays_here(serve: Serve, front: Fronts, root: Path, name: str) -> None:
    server = serve(LlamaServer(lambda _: "1\n", wait=lambda _: until(lambda: renamed)))
    asking, renamed = front(server.url, folders=(root,)), list[bool]()
    old, new = (root / "a.py").as_uri(), (root / name).as_uri()
    waits = asking.submit("y = ", uri=old)
    until(lambda: server.asked("/infill"))
    asking.service.document_renamed(old, new)
    renamed.append(True)
    assert waits.result(WAIT_S).reason is not None
    assert len(server.asked("/infill")) == 1


ALONE = replace(Settings(), host_enabled=False)
REMOTE = replace(ALONE, remote_url="http://127.0.0.1:1")


class Places(Kinds):
    def after(self, settings: Settings | None = None) -> list[str]:
        """Which kinds of hosts were opened by the next answer, these settings having come before."""
        if settings is not None:
            self.host.send(Use(settings, {}))
        self.asks(len(self.heard.answers) + 1)
        return [kind for kind, _ in self.opened]


def test_a_server_goes_before_the_models_of_this_machine() -> None:
    places = Places(REMOTE, asks=True)
    assert places.after() == ["remote"]
    assert places.after(replace(REMOTE, power="saver")) == ["remote"]
    assert places.after(ALONE) == ["remote", "alone"]
    assert places.after(replace(ALONE, host_enabled=True)) == ["remote", "alone", "shared"]


@pytest.mark.parametrize("name", ["url", "allow", "kind", "model", "template", "key_file", "key_env", "fallback"])
def test_each_of_its_settings_makes_another_server(name: str) -> None:
    changed = {f"remote_{name}": False if name == "fallback" else "http://127.0.0.1:2"}
    other = replace(REMOTE, **changed)  # type: ignore[arg-type]
    assert made_from(other) != made_from(REMOTE)
    assert Places(REMOTE, asks=True).after(other) == ["remote"]
    places = Places(REMOTE, asks=True)
    places.after()
    assert places.after(other) == ["remote", "remote"]
    if name != "url":
        assert made_from(replace(other, remote_url="")) == made_from(ALONE)


def test_a_local_model_in_a_servers_place_asks_none() -> None:
    assert Places(REMOTE).after() == ["alone"]
