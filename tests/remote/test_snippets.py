"""Code of other files goes to a server where the user's settings and the folder's rules allow it, and no other."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from fastcoder_lsp.completion.protocol import DocumentChanged, FilesChanged, HostListener, Reload, Use
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import CompletionRequest, Snapshot, Yank
from fastcoder_lsp.remote.client import NetworkOptions
from fastcoder_lsp.remote.excerpt import MAX_CHARACTERS
from fastcoder_lsp.remote.host import NetworkHost
from fastcoder_lsp.workspace.document import OpenTexts
from tests.host.scripted import ScriptedHost
from tests.opened import until
from tests.remote.front import WHOLE
from tests.remote.scripted_server import LlamaServer, ScriptedServer, Serve

TEXT = "from turn import rotate_by_quarter\n\n\ndef twice(image):\n    return rotate_by_quarter("
KEY = 'API_KEY = "sk-abcdefghijkl1234567890"'
TURN = f"def rotate_by_quarter(image, turns):\n    return image.rotate(90 * turns)\n\n\n{KEY}\n"


class Workspace:
    """A folder with files, and a front whose settings say what of it may be shown."""

    def __init__(self, root: Path, url: str, *, context: bool | Literal["auto"]) -> None:
        self.root = root
        (root / "turn.py").write_text(TURN)
        (root / "ignored.py").write_text(TURN.replace("turns", "ignored_turns"))
        (root / ".gitignore").write_text("ignored.py\n")
        settings = replace(Settings(), remote_url=url, remote_fallback=False, context_enabled=context)
        self.settings = settings

        def open_host(listener: HostListener) -> NetworkHost:
            return NetworkHost(
                listener, settings, {root: settings}, OpenTexts(), NetworkOptions(lambda: ""), ScriptedHost
            )

        self.service = CompletionService(open_host)
        self._version = 0
        self.yanks: tuple[Yank, ...] = ()

    def use_again(self) -> None:
        """The settings changed."""
        self.service.host.send(Use(self.settings, {self.root: self.settings}))

    def ask(self) -> str:
        self._version += 1
        text = f"# {self._version}\n{TEXT}"
        path = self.root / "a.py"
        self.service.host.send(DocumentChanged(path, text))
        snapshot = Snapshot(
            *(path.as_uri(), str(path), "python", self._version, text),
            yanks=self.yanks,
        )
        return self.service.submit(CompletionRequest(snapshot, len(text)), WHOLE).result(60).text


def sent(server: ScriptedServer) -> list[dict[str, str]]:
    pieces: list[dict[str, str]] = server.asked("/infill")[-1].body["input_extra"]
    return pieces


@pytest.mark.parametrize("context", [False, "auto"])
def test_nothing_of_other_files_is_sent_by_default(
    serve: Serve, tmp_path: Path, context: bool | Literal["auto"]
) -> None:
    """However well it would fit; what this machine can read says nothing of what may leave it."""
    server = serve(LlamaServer(lambda _: "image, 2)\n"))
    workspace = Workspace(tmp_path, server.url, context=context)
    workspace.yanks = (Yank(str(tmp_path / "turn.py"), 0, "copied = 1"),)
    assert workspace.ask() == "image, 2)"
    workspace.service.shutdown()
    assert sent(server) == []
    body = json.dumps(server.asked("/infill")[-1].body)
    assert "copied" not in body


@pytest.mark.parametrize("name", ["turn.py", "ignored.py", "../outside.py"])
def test_what_was_copied_is_sent_by_the_same_rules(serve: Serve, tmp_path: Path, name: str) -> None:
    root = tmp_path / "w"
    root.mkdir()
    (tmp_path / "outside.py").write_text(TURN)
    server = serve(LlamaServer(lambda _: "image, 2)\n"))
    workspace = Workspace(root, server.url, context=True)
    workspace.yanks = (Yank(str(root / name), 0, f"copied = 1\nand_more = 2\n{KEY}"),)
    until(lambda: bool(workspace.ask()) and bool(sent(server)))
    body = json.dumps(server.asked("/infill")[-1].body)
    workspace.service.shutdown()
    assert ("copied = 1" in body) == (name == "turn.py")
    assert "sk-abc" not in body


def test_what_is_imported_goes_along_where_it_may(serve: Serve, tmp_path: Path) -> None:
    server = serve(LlamaServer(lambda _: "image, 2)\n"))
    workspace = Workspace(tmp_path, server.url, context=True)

    def told() -> bool:
        workspace.service.document_closed((tmp_path / "a.py").as_uri())
        workspace.service.host.send(Reload())
        workspace.ask()
        return any("rotate_by_quarter" in piece["text"] for piece in sent(server))

    until(told)  # the folder is looked through meanwhile
    assert {piece["filename"] for piece in sent(server)} <= {"turn.py", "a.py"}
    everything = json.dumps([request.body for request in server.requests])
    assert "sk-abcdef" not in everything
    assert "ignored_turns" not in everything
    assert str(tmp_path) not in everything
    assert sum(len(piece["text"]) for piece in sent(server)) <= MAX_CHARACTERS
    (tmp_path / ".gitignore").write_text("ignored.py\nturn.py\n")
    workspace.service.host.send(FilesChanged((tmp_path / ".gitignore",)))

    def untold() -> bool:
        workspace.ask()
        return not any("def rotate_by_quarter" in piece["text"] for piece in sent(server))

    until(untold)
    workspace.service.shutdown()
