"""The host that the settings choose: the process that all editors share, one in this process, or a server.

Owns when it is opened, at the first question and not before: clients tell their settings after the session began. What
is told before is kept; opening takes seconds of importing where it is this process, so a thread does it.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from fastcoder_lsp.completion.host import HostFacts, HostListener, ModelHost, OpenHost
from fastcoder_lsp.completion.question import Answer, Question
from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Counts
from fastcoder_lsp.host.made_from import place_part

Reply = Callable[[bool], object]


@dataclass(frozen=True, slots=True)
class _Later:
    """What a host is told once it is open, and who waits for that: for an answer, or for the model."""

    call: Callable[[ModelHost], object]
    question: Question | None = None
    reply: Reply | None = None


class ChosenHost:
    """`completion.host.ModelHost`, opened when it is first needed, and anew where the settings name another place.

    Args:
        shared: opens the process that all editors share.
        alone: opens one in this process.
        listener: the front.
        settings: of the model.
        folders: of the workspace, with their settings.
        remote: opens the server that `remote.url` names; None: none is asked, whatever the settings say.
    """

    def __init__(
        self,
        shared: OpenHost,
        alone: OpenHost,
        listener: HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        remote: OpenHost | None = None,
    ) -> None:
        self._shared, self._alone, self._remote, self._listener = shared, alone, remote, listener
        self._settings, self._folders, self._enabled = settings, dict(folders), settings.enabled
        self._texts: dict[Path, str] = {}
        self._lock = threading.Lock()
        self._host: ModelHost | None = None
        self._gate = _Gate(listener)
        self._queue: deque[_Later] = deque()
        """While it is being opened: what it is to be told then."""
        self._opening = self._closed = False

    # What needs a host ----------------------------------------------------------------------------------------------

    def ask(self, question: Question) -> None:
        """See `ModelHost`."""
        self._tell(_Later(lambda host: host.ask(question), question=question), needed=True)

    def expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        """See `ModelHost`."""
        self._tell(_Later(lambda host: host.expect(question, known=known, unserved=unserved)), needed=True)

    def load(self, reply: Reply) -> None:
        """See `ModelHost`."""
        if not self._tell(_Later(lambda host: host.load(reply), reply=reply), needed=True):
            reply(False)

    # What does not --------------------------------------------------------------------------------------------------

    def noticed(self, asked_ms: float, *, answered: bool) -> None:
        """See `ModelHost`."""
        self._tell(_Later(lambda host: host.noticed(asked_ms, answered=answered)))

    def withdraw(self, number: int) -> None:
        """See `ModelHost`."""
        self._tell(_Later(lambda host: host.withdraw(number)))

    def forget(self, uri: str) -> None:
        """See `ModelHost`."""
        self._tell(_Later(lambda host: host.forget(uri)))

    def rename(self, old: str, new: str) -> None:
        """See `ModelHost`."""
        self._tell(_Later(lambda host: host.rename(old, new)))

    def reload(self) -> None:
        """See `ModelHost`."""
        self._tell(_Later(lambda host: host.reload()))

    def enable(self, *, enabled: bool) -> None:
        """See `ModelHost`."""
        self._enabled = enabled
        if not self._tell(_Later(lambda host: host.enable(enabled=enabled))):
            self._listener.told(_at_rest(enabled=enabled))

    def use(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        """See `ModelHost`."""
        with self._lock:
            elsewhere = self._place(settings) != self._place(self._settings)
            self._settings, self._folders = settings, dict(folders)
            if elsewhere:
                self._gate.shut = True
                self._gate = _Gate(self._listener)
                old, self._host, self._opening, pending = self._host, None, False, self._give_up()
        if not elsewhere:
            self._tell(_Later(lambda host: host.use(settings, folders)))
            return
        if old is not None:
            threading.Thread(target=old.close, args=(0.0,), name="fastcoder-host-end", daemon=True).start()
        _refuse(pending)
        self._listener.told(_at_rest(enabled=self._enabled))

    def document_changed(self, path: Path, text: str) -> None:
        """See `ModelHost`."""
        with self._lock:
            self._texts[path] = text
        self._tell(_Later(lambda host: host.document_changed(path, text)))

    def document_closed(self, path: Path) -> None:
        """See `ModelHost`."""
        with self._lock:
            self._texts.pop(path, None)
        self._tell(_Later(lambda host: host.document_closed(path)))

    def files_changed(self, paths: Iterable[Path]) -> None:
        """See `ModelHost`."""
        changed = tuple(paths)
        self._tell(_Later(lambda host: host.files_changed(changed)))

    def facts(self) -> HostFacts:
        """See `ModelHost`."""
        host, shared = self._host, self._settings.host_enabled
        if host is not None:
            return host.facts()
        if self._remote is not None and self._settings.remote_url:
            return HostFacts(asks=self._settings.remote_url)
        process = psutil.Process()
        return (
            HostFacts(shared=True)
            if shared
            else HostFacts(resident_bytes=process.memory_info().rss, process_id=process.pid)
        )

    def close(self, wait_s: float) -> None:
        """See `ModelHost`."""
        with self._lock:
            self._closed, host, pending = True, self._host, self._give_up()
        _refuse(pending)
        if host is not None:
            host.close(wait_s)

    # ----------------------------------------------------------------------------------------------------------------

    def _tell(self, later: _Later, *, needed: bool = False) -> bool:
        """In the order of the calls; one that is `needed` has it opened. Whether it is or will be told."""
        with self._lock:
            host = self._host
            if host is None:
                if self._closed or not (self._opening or needed):
                    return False
                if not self._opening:
                    self._begin()
                self._queue.append(later)
                return True
        later.call(host)
        return True

    def _begin(self) -> None:
        """Have it opened, and told what was told before."""
        self._opening = True
        self._queue.extend(_Later(_document_changed(path, text)) for path, text in self._texts.items())
        settings = replace(self._settings, enabled=self._enabled)
        threading.Thread(
            target=self._open, args=(self._gate, settings, self._folders), name="fastcoder-host-open", daemon=True
        ).start()

    def _open(self, gate: "_Gate", settings: Settings, folders: Mapping[Path, Settings]) -> None:
        try:
            host = self._opener(settings)(gate, settings, folders)
        except BaseException as error:  # noqa: BLE001 what it imports raises anything
            self._failed(gate, failure("The model could not be loaded", error))
            return
        while True:
            with self._lock:
                if self._closed or gate.shut:
                    break
                if not self._queue:
                    self._host, self._opening = host, False
                    return
                later = self._queue.popleft()
            later.call(host)
        host.close(0.0)

    def _opener(self, settings: Settings) -> OpenHost:
        if self._remote is not None and settings.remote_url:
            return self._remote
        return self._shared if settings.host_enabled else self._alone

    def _place(self, settings: Settings) -> tuple[object, ...]:
        return (settings.host_enabled,) if self._remote is None else place_part(settings)

    def _failed(self, gate: "_Gate", status: Status) -> None:
        """It cannot be opened; the next question tries again."""
        with self._lock:
            if gate.shut or self._closed:
                return
            self._opening, pending = False, self._give_up()
        gate.told(status)
        for later in pending:
            if later.question is not None:
                gate.answered(later.question.number, Answer.failed(status))
        _refuse(pending)

    def _give_up(self) -> tuple[_Later, ...]:
        """What waits to be told, which nobody is told now."""
        pending = tuple(self._queue)
        self._queue.clear()
        return pending


def _refuse(pending: Iterable[_Later]) -> None:
    for later in pending:
        if later.reply is not None:
            later.reply(False)


def _at_rest(*, enabled: bool) -> Status:
    return Status("starting" if enabled else "off")


def _document_changed(path: Path, text: str) -> Callable[[ModelHost], object]:
    return lambda host: host.document_changed(path, text)


class _Gate:
    """A `HostListener` that tells the front, until it is shut: then another host speaks to it."""

    def __init__(self, listener: HostListener) -> None:
        self._listener, self.shut = listener, False

    def answered(self, number: int, answer: Answer) -> None:
        if not self.shut:
            self._listener.answered(number, answer)

    def made(self, uri: str, suggestion: Suggestion) -> None:
        if not self.shut:
            self._listener.made(uri, suggestion)

    def forgotten(self, uri: str | None) -> None:
        if not self.shut:
            self._listener.forgotten(uri)

    def counted(self, what: str, by: int) -> None:
        if not self.shut:
            self._listener.counted(what, by)

    def worked(self, counts: Counts) -> None:
        if not self.shut:
            self._listener.worked(counts)

    def told(self, status: Status) -> None:
        if not self.shut:
            self._listener.told(status)

    def indexing(self, done: int, total: int, *, building: bool) -> None:
        if not self.shut:
            self._listener.indexing(done, total, building=building)

    def notice(self, text: str) -> None:
        if not self.shut:
            self._listener.notice(text)
