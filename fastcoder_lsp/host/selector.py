"""Selects the host by the settings: the shared process, a model server in this process, or a remote server.

The host is opened at the first question, because clients send their settings after the session began. A thread opens
it, because the imports of a model server take seconds; commands wait in a queue meanwhile.
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from fastcoder_lsp.completion import protocol
from fastcoder_lsp.completion.question import Answer
from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.config import Settings
from fastcoder_lsp.host.address import place_part
from fastcoder_lsp.workspace.document import OpenTexts


class BackendSelector:
    """A `ModelHost` that opens another one when it is first needed, and again when the settings move the model.

    `shared`, `alone` and `remote` open the shared process, a model server in this process, and the server that
    `remote.url` names; None disables remote servers.
    """

    def __init__(
        self,
        shared: protocol.OpenHost,
        alone: protocol.OpenHost,
        listener: protocol.HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        texts: OpenTexts,
        remote: protocol.OpenHost | None = None,
    ) -> None:
        self._shared, self._alone, self._remote, self._listener = shared, alone, remote, listener
        self._settings, self._folders, self._enabled = settings, dict(folders), settings.enabled
        self._texts = texts
        self._lock = threading.Lock()
        self._host: protocol.ModelHost | None = None
        self._gate = _Gate(listener)
        self._queue: deque[protocol.Command] = deque()  # commands that wait while the host is being opened
        self._opening = self._closed = False

    def send(self, command: protocol.Command) -> None:
        """Pass a command on, in the order of the calls; questions and `Load` open a host if there is none."""
        command.follow_in(self._texts)
        if isinstance(command, protocol.Enable):
            self._enabled = command.enabled
        elif isinstance(command, protocol.Use) and self._use(command.settings, command.folders):
            return
        with self._lock:
            host = self._host
            later = host is None and not self._closed and (self._opening or command.opens_host)
            if later:
                if not self._opening:
                    self._begin()
                self._queue.append(command)
        if host is not None:
            host.send(command)
        elif not later:
            self._refuse((command,))
            if isinstance(command, protocol.Enable):
                self._listener(self._at_rest())

    def facts(self) -> protocol.HostFacts:
        """The facts of the host, or of the one that would be opened."""
        host, shared = self._host, self._settings.host_enabled
        if host is not None:
            return host.facts()
        if self._remote is not None and self._settings.remote_url:
            return protocol.HostFacts(asks=self._settings.remote_url)
        process = psutil.Process()
        return (
            protocol.HostFacts(shared=True)
            if shared
            else protocol.HostFacts(resident_bytes=process.memory_info().rss, process_id=process.pid)
        )

    def close(self, wait_s: float) -> None:
        """Close the host; open `Load`s are answered."""
        with self._lock:
            self._closed, host, pending = True, self._host, self._give_up()
        self._refuse(pending)
        if host is not None:
            host.close(wait_s)

    def _use(self, settings: Settings, folders: Mapping[Path, Settings]) -> bool:
        """Take new settings; if they move the model, close the open host and return True."""
        with self._lock:
            elsewhere = self._place(settings) != self._place(self._settings)
            self._settings, self._folders = settings, dict(folders)
            if not elsewhere:
                return False
            self._gate.shut = True
            self._gate = _Gate(self._listener)
            old, self._host, self._opening, pending = self._host, None, False, self._give_up()
        if old is not None:
            threading.Thread(target=old.close, args=(0.0,), name="fastcoder-host-end", daemon=True).start()
        self._refuse(pending)
        self._listener(self._at_rest())
        return True

    def _begin(self) -> None:
        """Open the host in a thread; it reads the open documents from `texts`."""
        self._opening = True
        settings = replace(self._settings, enabled=self._enabled)
        threading.Thread(
            target=self._open, args=(self._gate, settings, self._folders), name="fastcoder-host-open", daemon=True
        ).start()

    def _open(self, gate: "_Gate", settings: Settings, folders: Mapping[Path, Settings]) -> None:
        try:
            host = self._opener(settings)(gate, settings, folders, self._texts)
        except BaseException as error:  # noqa: BLE001 imports may raise anything
            self._failed(gate, failure("The model could not be loaded", error))
            return
        while True:
            with self._lock:
                if self._closed or gate.shut:
                    break
                if not self._queue:
                    self._host, self._opening = host, False
                    return
                command = self._queue.popleft()
            host.send(command)
        host.close(0.0)

    def _opener(self, settings: Settings) -> protocol.OpenHost:
        if self._remote is not None and settings.remote_url:
            return self._remote
        return self._shared if settings.host_enabled else self._alone

    def _place(self, settings: Settings) -> tuple[object, ...]:
        return (settings.host_enabled,) if self._remote is None else place_part(settings)

    def _failed(self, gate: "_Gate", status: Status) -> None:
        with self._lock:
            if gate.shut or self._closed:
                return
            self._opening, pending = False, self._give_up()
        gate(protocol.StatusChanged(status))
        self._refuse(pending, status)

    def _give_up(self) -> tuple[protocol.Command, ...]:
        pending = tuple(self._queue)
        self._queue.clear()
        return pending

    def _refuse(self, pending: Iterable[protocol.Command], status: Status | None = None) -> None:
        """Answer commands that no host gets; `status` says why."""
        for command in pending:
            if (event := command.refused(Answer.failed(status))) is not None:
                self._listener(event)

    def _at_rest(self) -> protocol.StatusChanged:
        return protocol.StatusChanged(Status("starting" if self._enabled else "off"))


class _Gate:
    """Passes events on until it is shut, when another host takes over."""

    def __init__(self, listener: protocol.HostListener) -> None:
        self._listener, self.shut = listener, False

    def __call__(self, event: protocol.Event) -> None:
        if not self.shut:
            self._listener(event)
