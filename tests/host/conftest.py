"""A host in this process, and fronts of it."""

import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.config import Settings
from fastcoder_lsp.host.address import cache_part, named_address
from fastcoder_lsp.host.connection import greet
from fastcoder_lsp.host.listening import Address, LoopbackAddress
from fastcoder_lsp.host.server import ConnectionAcceptor
from fastcoder_lsp.host.shared_process import SharedProcessHost
from fastcoder_lsp.workspace.document import OpenTexts
from tests.host.scripted import Heard, ScriptedHost

BUILD = "test"


class Place:
    """An address with a server that may come and go; `hosts` keep the calls of each front."""

    def __init__(self, address: Address) -> None:
        self.address, self.hosts = address, list[ScriptedHost]()
        self.fronts = list[SharedProcessHost]()
        self.start()

    def start(self) -> None:
        self.server = ConnectionAcceptor(self.address.listen(), self._open, BUILD, lambda: None)
        threading.Thread(target=self.server.serve, daemon=True).start()

    def front(
        self, heard: Heard, settings: Settings | None = None, folders: Mapping[Path, Settings] | None = None
    ) -> SharedProcessHost:
        front = SharedProcessHost(
            heard,
            settings or Settings(),
            folders or {},
            OpenTexts(),
            lambda _: greet(self.address, BUILD),
            pauses_s=(0.0, 0.05, 0.05, 0.05, 0.05),
        )
        self.fronts.append(front)
        return front

    def _open(
        self, listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
    ) -> ScriptedHost:
        self.hosts.append(ScriptedHost(listener, settings, folders, texts))
        return self.hosts[-1]

    def close(self) -> None:
        for front in self.fronts:
            front.close(1)
        self.server.close()


@pytest.fixture(params=["unix", "loopback"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder:
        named = named_address if request.param == "unix" else LoopbackAddress
        place = Place(named(Path(folder), f"{cache_part()}{'k' * 10}"))
        yield place
        place.close()
