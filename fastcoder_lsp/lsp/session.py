"""One client's session: its documents, folders, settings, and the completion service.

It lives on the event loop's thread; the host's threads change it only through `call_soon_threadsafe`.
"""

import asyncio
import contextlib
import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path, PurePath

from lsprotocol.types import MessageType
from typing_extensions import override

import fastcoder_lsp
from fastcoder_lsp.completion.protocol import (
    DocumentChanged,
    DocumentClosed,
    FilesChanged,
    Indexing,
    OpenHost,
    Succession,
    Use,
)
from fastcoder_lsp.completion.question import Policy, policy_of
from fastcoder_lsp.completion.service import CompletionService, ServiceListener
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Problem, Settings, usage_folder
from fastcoder_lsp.core import Completion, Late
from fastcoder_lsp.documents import LatestDocuments
from fastcoder_lsp.host.address import made_from
from fastcoder_lsp.lsp.battery import PowerSource
from fastcoder_lsp.lsp.capabilities import EditorFeatures, Registrar, offers_popup
from fastcoder_lsp.lsp.configuration import Configuration
from fastcoder_lsp.lsp.edits import NextEdits
from fastcoder_lsp.lsp.endpoint import Endpoint
from fastcoder_lsp.lsp.import_files import ImportFiles
from fastcoder_lsp.lsp.logs import configure_logging
from fastcoder_lsp.lsp.settings_watch import SettingsWatch
from fastcoder_lsp.lsp.status import Outcomes, Reporter, Snooze, notify_late
from fastcoder_lsp.lsp.usage import Accepts, UsageCounter
from fastcoder_lsp.usage import UsageStore
from fastcoder_lsp.workspace.document import Document, OpenTexts, position_at
from fastcoder_lsp.workspace.documents import Documents
from fastcoder_lsp.workspace.folders import Folder, Folders
from fastcoder_lsp.workspace.indentation import IndentationSources
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.paths import path_of, uri_key
from fastcoder_lsp.workspace.regular import file_stamp
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.secret_lines import judge_unfinished
from fastcoder_lsp.workspace.settings_files import settings_paths

_VERSION = re.compile(r'^__version__ = "([0-9a-zA-Z.+!-]{1,40})"$', re.MULTILINE)
_MAX_BYTES = 10_000
_LINE = re.compile(r":\d+\Z")


class InstalledVersion:
    """Detects that a package manager has replaced the running package: each installation rewrites its version file."""

    def __init__(self, file: Path = Path(fastcoder_lsp.__file__), running: str = fastcoder_lsp.__version__) -> None:
        self._file, self._running = file, running
        self._seen = file_stamp(file)

    def news(self) -> str | None:
        """A message for the user, once for each new version on the disk; None if the file has not changed."""
        stamp = file_stamp(self._file)
        if stamp is None or stamp == self._seen:  # missing during an installation
            return None
        self._seen = stamp
        installed = self._read()
        if installed in {None, self._running}:
            return None
        return (
            f"version {installed} is installed, but version {self._running} is running. "
            "Restart the editor or its language server."
        )

    def _read(self) -> str | None:
        try:
            with self._file.open(encoding="utf-8", errors="replace") as file:
                found = _VERSION.search(file.read(_MAX_BYTES))
        except OSError:
            return None
        return None if found is None else found[1]


RENAME_GRACE_S = 1.0
"""A document that is closed and opened under another name within this time, with the same text, was renamed."""


class ClosedDocuments:
    """Recently closed documents: `drop` is called for each after a grace, unless it turns out to be renamed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, drop: Callable[[str], None]) -> None:
        self._loop, self._drop = loop, drop
        self._waiting: dict[tuple[str, ...], tuple[str, str, asyncio.TimerHandle]] = {}

    def closed(self, uri: str, text: str) -> None:
        """Drop a closed document after the grace."""
        key = uri_key(uri)
        self._waiting[key] = uri, text, self._loop.call_later(RENAME_GRACE_S, self._expire, key)

    def opened(self, uri: str, text: str) -> str | None:
        """The closed document with the same name, or else the same text, which is then kept; None if there is none."""
        same_text = (old for old, old_text, _ in self._waiting.values() if old_text == text)
        old = uri if uri_key(uri) in self._waiting else next(same_text, None)
        return None if old is None else self.keep(old)

    def keep(self, uri: str) -> str | None:
        """Keep a closed document; returns its URI as it was closed, or None if it is not waiting."""
        waiting = self._waiting.pop(uri_key(uri), None)
        if waiting is None:
            return None
        waiting[2].cancel()
        return waiting[0]

    def stop(self) -> None:
        """Cancel all timers."""
        for *_, timer in self._waiting.values():
            timer.cancel()

    def _expire(self, key: tuple[str, ...]) -> None:
        self._drop(self._waiting.pop(key)[0])


_TRACED_DOCUMENTS = 8
_EDITING_S = 300.0  # after the last change the user only reads


class Traces(LatestDocuments[Completion]):
    """The latest completion of each recent document, for `fastcoder/trace` and `fastcoder/why`."""

    def keep(self, uri: str, completion: Completion) -> None:
        """Keep a completion, but not the rest of one that was typed along: the whole has the same trace."""
        latest = self.get(uri)
        if completion.trace and (latest is None or latest.trace != completion.trace):
            self.put(uri, completion)


_MOST_PATH = 1_000  # characters of a path in a question for an edit
SHUTDOWN_S = 1.0  # the host's time to stop; editors kill a server that takes longer than two seconds


class _OnLoop(ServiceListener):
    """Passes what the service tells to the event loop's thread."""

    def __init__(
        self, call_soon: Callable[..., object], reporter: Reporter, take_late: Callable[[Late], object]
    ) -> None:
        self._soon, self._reporter, self._take_late = call_soon, reporter, take_late

    @override
    def status(self, status: Status) -> None:
        self._soon(self._reporter.status, status)

    @override
    def late(self, late: Late) -> None:
        self._soon(self._take_late, late)

    @override
    def indexing(self, progress: Indexing) -> None:
        self._soon(self._reporter.indexing, progress)

    @override
    def notice(self, text: str) -> None:
        self._soon(self._reporter.notice, text)

    @override
    def succession(self, succession: Succession) -> None:
        self._soon(self._reporter.follow, succession)

    @override
    def edit_model(self, status: Status) -> None:
        self._soon(self._reporter.edit_model, status)


class Session:
    """The state of one client. `open_host` opens the model's host."""

    def __init__(
        self,
        endpoint: Endpoint,
        client: EditorFeatures,
        configuration: Configuration,
        folders: Folders,
        open_host: OpenHost,
    ) -> None:
        self.endpoint = endpoint
        self.client = client
        self.configuration = configuration
        self.folders = folders
        self.documents = Documents()
        self.usage = UsageCounter(
            asyncio.get_running_loop(),
            UsageStore(usage_folder()),
            lambda: self._active.usage_enabled,
            self._text_of,
            self._cpu_s,
        )
        self.accepts = Accepts(self._handle_accept)
        self.traces = Traces(_TRACED_DOCUMENTS)
        self.reporter = Reporter(endpoint)
        self.outcomes = Outcomes(self.reporter)
        self.snooze = Snooze(asyncio.get_running_loop(), self.reporter.tell)
        self._power = PowerSource(asyncio.get_running_loop(), self.reporter.tell)
        self._installed = InstalledVersion()
        self._loop = asyncio.get_running_loop()
        self._edited_s = -math.inf
        self._rules: dict[str | None, ReadingRules] = {}
        self.edits = NextEdits(self._may_remember, self._judge_unfinished, self.usage)
        self.imports = ImportFiles()
        self._closed_documents = ClosedDocuments(self._loop, self._drop)
        self._override: bool | None = None
        self._reported: tuple[Problem, ...] = ()
        self._wrong: set[str] = set()  # origins with problems that the user was told of
        self._watch = SettingsWatch(
            lambda: settings_paths(self.folders.paths()), partial(self._call_soon, self.refresh)
        )
        self._resolve()
        self._active = self.settings()
        self.usage.learn(self.edits.gate.learned)
        self.registrar = Registrar(endpoint, client, popup=offers_popup(client, popup=self.wants_popup()))
        self.service = CompletionService(
            lambda listener: open_host(listener, self._active, self._folder_settings(), OpenTexts()),
            _OnLoop(self._call_soon, self.reporter, self._handle_late),
            enabled=self._active.enabled,
            call_later=partial(self._call_soon, self._loop.call_later),
        )
        self.reporter.facts = self.service.host.facts
        self.reporter.context, self.reporter.edits = self.uses_context, self.wants_edits
        self.reporter.snoozed, self.reporter.saves = lambda: self.snooze.minutes, self.saves
        self._watch.start()

    def active(self) -> None:
        """The client has sent a message."""
        self._watch.active()

    def settings(self, folder: Folder | None = None, language: str = "") -> Settings:
        """The settings of a folder, for a language; without a folder, the session's."""
        return self.configuration.settings(folder, language)

    def policy(self, uri: str, language: str) -> Policy:
        """How requests in a document are treated, at this moment."""
        settings = self.settings(self.folder_of(uri), language)
        on_battery = settings.power == "auto" and self._power.on_battery()
        return policy_of(settings, on_battery=on_battery, snoozed=self.snooze.minutes > 0)

    @property
    def is_editing(self) -> bool:
        """Whether the user has changed a document lately, and does not only read."""
        return self._loop.time() - self._edited_s < _EDITING_S

    def saves(self) -> bool:
        """Whether less is prepared, because the machine runs on its battery, in any folder."""
        automatic = any(self.settings(folder).power == "auto" for folder in (None, *self.folders))
        return automatic and self._power.on_battery()

    def wants_popup(self) -> bool:
        """Whether any folder's settings request suggestions in the completion menu too."""
        return any(self.settings(folder).popup_enabled for folder in (None, *self.folders))

    def wants_edits(self) -> bool:
        """Whether next edits may be suggested, in any folder and language."""
        return any(
            _wants_edits(one) for folder in (None, *self.folders) for one in self.configuration.for_any_language(folder)
        )

    def uses_context(self) -> bool:
        """Whether prompts may contain other files' code, in any folder, by the settings and the host's report.

        `auto` is meant for a local model: it never sends code to a server, nor slows down a model that reads slowly.
        """
        if self.service.host.facts().context is False:
            return False
        wanted = [self.settings(folder).context_enabled for folder in (None, *self.folders)]
        return any(one is True or (one == "auto" and not self._active.remote_url) for one in wanted)

    def folder_of(self, uri: str) -> Folder | None:
        """The workspace folder of a document."""
        return self.folders.containing(path_of(uri))

    def rules(self, folder: Folder | None) -> ReadingRules:
        """The reading rules of a folder, made on demand: there may be hundreds."""
        uri = folder.uri if folder else None
        if uri not in self._rules:
            self._rules[uri] = ReadingRules(self.folders.paths(), self.settings(folder))
        return self._rules[uri]

    def indentation(self, document: Document) -> str:
        """One level of indentation of a document that shows none: as the client says, else as its folder shows."""
        folder = self.folders.containing(document.file)
        if document.editors_indentation or document.file is None or folder is None:
            return document.editors_indentation
        return self._indentation.of(document.file, document.language, folder.path, self.rules(folder))

    # Settings and folders -----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Resolve settings, settings files and folders again, and apply the result."""
        had_popup = self.wants_popup()
        self._resolve()
        settings = self.settings()
        self._tell_what_waits(self._active, settings, had_popup=had_popup)
        self.edits.history.rules_changed()
        self.imports.use(self._folder_settings())
        if not self.wants_edits():
            self.edits.clear()
        if made_from(settings) != made_from(self._active):
            self.service.use(settings, self._folder_settings())
        else:
            self.service.host.send(Use(settings, self._folder_settings()))
        if settings.enabled != self._active.enabled:
            self._override = None
            self.service.set_enabled(settings.enabled)
        self._active = settings
        self.registrar.offer_popup(wanted=self.wants_popup())
        self.reporter.tell()

    def _tell_what_waits(self, before: Settings, now: Settings, *, had_popup: bool) -> None:
        """Say which changed settings need a restart."""
        if now.host_linger_s != before.host_linger_s and now.host_enabled:
            text = "`host.linger_s` applies to the next shared process. To end this one, run: fastcoder-lsp host stop"
            self.reporter.notice(text, MessageType.Info, again=True)
        if self.wants_popup() and not had_popup and not self.registrar.can_offer_popup:
            text = "`popup.enabled` applies after a restart of the editor or its language server."
            self.reporter.notice(text, MessageType.Info, again=True)

    def toggle(self) -> bool:
        """Switch completion off or on, until the settings change; returns whether it is on now."""
        self._override = not (self._active.enabled if self._override is None else self._override)
        self.service.set_enabled(self._override)
        return self._override

    def is_enabled(self, settings: Settings) -> bool:
        """Whether completion is on under these settings; the user's switch overrides them."""
        return settings.enabled if self._override is None else self._override

    def reload(self) -> None:
        """Read settings files again and reload the model at the next request."""
        self.refresh()
        self.service.reload()

    def close(self) -> None:
        """End the session; the host may take a moment to stop."""
        self._watch.stop()
        self._closed_documents.stop()
        self.snooze.stop()
        self.usage.close()
        self.imports.stop()
        self.service.shutdown(wait_s=SHUTDOWN_S)

    # Use ----------------------------------------------------------------------------------------------------------

    def _cpu_s(self) -> float:
        """CPU seconds of this process, and of the shared one's work for this session."""
        shared = self.service.host.facts().shared
        return time.process_time() + (sum(self.service.statistics().cpu_s.values()) if shared else 0.0)

    def _text_of(self, uri: str) -> str | None:
        document = self.documents.get(uri)
        return None if document is None else document.clean_text

    def _handle_accept(self, uri: str, source: str, start: int, text: str, characters: int, first: bool) -> None:
        document = self.documents.get(uri)
        language = "" if document is None else document.language
        if first:
            self.usage.accepted(uri, language, source, start, text)
        if characters:
            self.usage.characters(language, source, characters)

    # Documents ----------------------------------------------------------------------------------------------------

    def document_opened(self, uri: str, text: str) -> None:
        """Move the state of a closed document that this one continues; notify the user of a newly installed version."""
        if (news := self._installed.news()) is not None:
            self.reporter.notice(news, MessageType.Info)
        self.document_changed(uri)
        old = self._closed_documents.opened(uri, text)
        if old is not None and old != uri:
            self._rename(old, uri)

    def edit_path(self, uri: str) -> tuple[str, str]:
        """A document's path below its folder, and the folder; outside of all folders it is one of its own."""
        path, folder = path_of(uri), self.folder_of(uri)
        if path is None or folder is None:
            return PurePath(path or uri).name[-_MOST_PATH:], uri
        return path.relative_to(folder.path).as_posix()[-_MOST_PATH:], folder.uri

    def remember_change(self, uri: str, before: str, after: str, *, accepted: bool) -> None:
        """Remember a change of a document, if next edits want it; a notebook's cells are not files."""
        self._edited_s = self._loop.time()
        document = self.documents.get(uri)
        settings = self.settings(self.folder_of(uri), "" if document is None else document.language)
        if not uri.startswith(("file:", "untitled:")) or not _wants_edits(settings):
            return
        path, folder = self.edit_path(uri)
        self.service.edits.changed(uri)
        self.edits.changed(uri, path, folder, before, after, accepted=accepted)

    def document_changed(self, uri: str) -> None:
        """Send the text to the host; a notebook's cells are not files."""
        document = self.documents.get(uri)
        path = path_of(uri) if uri.startswith("file:") else None
        if document is None or path is None:
            return
        self.service.host.send(DocumentChanged(path, document.clean_text))
        if (folder := self.folder_of(uri)) is not None:
            settings, roots = self.settings(folder, document.language), self.folders.paths()
            self.imports.document(folder.path, settings, roots, path, document.language, document.clean_text)

    def files_changed(self, uris: Iterable[str]) -> None:
        """Files on the disk changed, as the client reports."""
        paths = tuple(path for uri in uris if (path := path_of(uri)) is not None)
        self.service.host.send(FilesChanged(paths))
        self.imports.files_changed(paths)

    def document_closed(self, uri: str, text: str) -> None:
        """Drop the document's state after a grace, unless it turns out to be renamed."""
        self.accepts.closed(uri)
        path = path_of(uri) if uri.startswith("file:") else None
        if path is not None:
            self.service.host.send(DocumentClosed(path))
            self.imports.closed(path)
        self._closed_documents.closed(uri, text)

    def document_renamed(self, old: str, new: str) -> None:
        """The client renamed a document: move its state."""
        old = self._closed_documents.keep(old) or self.spelling(old)
        self._rename(old, self.spelling(new))

    def spelling(self, uri: str) -> str:
        """The URI of an open document as the client spelt it at `didOpen`."""
        document = self.documents.get(uri)
        return uri if document is None else document.uri

    def _rename(self, old: str, new: str) -> None:
        self.outcomes.reasons.rename(old, new)
        self.traces.rename(old, new)
        self.edits.renamed(old, new, *self.edit_path(new))
        self.service.document_renamed(old, new)

    def _drop(self, uri: str) -> None:
        self.outcomes.reasons.forget(uri)
        self.traces.forget(uri)
        self.edits.reasons.forget(uri)
        self.service.document_closed(uri)

    def _resolve(self) -> None:
        before, self._reported = self._reported, self.configuration.resolve(self.folders)
        # A file that was changed and is still wrong is told of as a whole.
        changed = {_file_of(problem) for problem in before if problem not in self._reported}
        new = [one for one in self._reported if one not in before or _file_of(one) in changed]
        files, values = ([str(one) for one in new if bool(one.name) is named] for named in (False, True))
        if new:
            lines = [*files, *(["ignored settings:", *values] if values else [])]
            self.reporter.notice("\n".join(lines), again=True)
        self._tell_what_is_corrected()
        settings = self.settings()
        configure_logging(settings.log_file, settings.log_level)
        self._rules, self._indentation = {}, IndentationSources()

    def _tell_what_is_corrected(self) -> None:
        """Say which settings files had problems and have none any more; a file may be missing between two saves."""
        wrong = set(map(_file_of, self._reported))
        corrected = (self._wrong - wrong).intersection(self.configuration.files())
        for file in sorted(corrected):
            text = f"{file}: The file has no error any more. Its settings apply."
            self.reporter.notice(text, MessageType.Info, again=True)
        self._wrong = (self._wrong - corrected) | wrong

    def _may_remember(self, uri: str) -> bool:
        """Whether a document's changes may be remembered: the rules for reading hold, also for what is not saved."""
        document, path, rules = self.documents.get(uri), path_of(uri), self.rules(self.folder_of(uri))
        language = document.language if document is not None else language_of(PurePath(path or uri))
        allowed = rules.may_send if self.folder_of(uri) is not None else rules.may_complete
        return allowed(path, language) is None

    def _judge_unfinished(self, uri: str, above: str, lines: Sequence[str]) -> Sequence[bool]:
        """Whether each of some consecutive lines of a document looks like a secret, perhaps an unfinished one."""
        return judge_unfinished(above, lines, self._language(uri))

    def _language(self, uri: str) -> str:
        document = self.documents.get(uri)
        return document.language if document is not None else language_of(PurePath(path_of(uri) or uri))

    def _folder_settings(self) -> dict[Path, Settings]:
        return {folder.path: self.settings(folder) for folder in self.folders}

    def _handle_late(self, late: Late) -> None:
        document = self.documents.get(late.uri)
        if document is None or document.version != late.version:
            return
        at = position_at(document.clean_text, late.offset, self.client.encoding)
        if late.reason is not None:
            self.outcomes.reasons.replace_slow(late.uri, at, late.reason)
        elif self.client.shows_late:
            notify_late(self.endpoint, late, at)

    def _call_soon(self, call: Callable[..., object], *arguments: object) -> None:
        """Call on the event loop, from any thread; ignored once the loop is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)


def _file_of(problem: Problem) -> str:
    return _LINE.sub("", problem.origin)


def _wants_edits(settings: Settings) -> bool:
    return bool(settings.edits_model) or settings.edits_analogy or settings.edits_imports
