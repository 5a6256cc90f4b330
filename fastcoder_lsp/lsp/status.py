"""Unsolicited messages to the user: status, progress bars, one notice per problem, late suggestions.

`Outcomes` records why questions were answered empty; the user is notified once if a whole minute of typing brings no
suggestion. Everything lives on the event loop's thread; `Session` passes `Status` values from other threads.
"""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

from lsprotocol import types

from fastcoder_lsp.completion.protocol import HostFacts, Indexing, Succession
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import Late, Reason
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.lsp.capabilities import EditorFeatures
from fastcoder_lsp.lsp.endpoint import Endpoint
from fastcoder_lsp.lsp.reasons import PASSING, Reasons, document_name, sentences
from fastcoder_lsp.workspace.document import Position

logger = logging.getLogger(__name__)

MOST_MINUTES = 24 * 60


class Snooze:
    """Counts the minutes down; `changed` is called at the start, after every minute, and at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        self._loop, self._changed = loop, changed
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def minutes(self) -> int:
        """The minutes that are left, a begun one included; 0: not snoozing."""
        return math.ceil(max(0.0, round(self._until_s - self._loop.time(), 3)) / 60)  # timers ring a little early

    def start(self, minutes: int) -> None:
        """Snooze for so many minutes from now; 0 ends it."""
        self.stop()
        self._until_s = self._loop.time() + 60 * min(max(minutes, 0), MOST_MINUTES)
        self._tell()

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self) -> None:
        self._changed()
        if (left := self.minutes) > 0:
            self._timer = self._loop.call_at(self._until_s - 60 * (left - 1), self._tell)


LATE_METHOD: Final = "fastcoder/late"


def notify_late(endpoint: Endpoint, late: Late, at: Position) -> None:
    """Notify the client that a suggestion is ready for a question that was answered empty (`fastcoder/late`).

    Clients check that the cursor is still there and ask again.
    """
    endpoint.notify(
        LATE_METHOD,
        {
            "textDocument": {"uri": late.uri, "version": late.version},
            "position": {"line": at.line, "character": at.character},
        },
    )


class WorkProgress:
    """Progress of one kind of work: begin, reports and end arrive in this order, whenever updates come."""

    def __init__(self, endpoint: Endpoint, name: str, title: str) -> None:
        self._endpoint, self._name, self._title = endpoint, name, title
        self._latest = ("", 0)
        self._tokens = count(1)
        self._token: str | None = None
        self._started = False

    def update(self, message: str, percent: int) -> None:
        """Report progress; the first call begins it."""
        self._latest = (message, percent)
        if self._token is None:
            self._create(f"fastcoder/{self._name}/{next(self._tokens)}")
        elif self._started:
            self._report(types.WorkDoneProgressReport(message=message, percentage=percent))

    def end(self, message: str) -> None:
        """End the progress, if any."""
        if self._token is not None and self._started:
            self._report(types.WorkDoneProgressEnd(message=message))
        self._token, self._started = None, False

    def _create(self, token: str) -> None:
        self._token = token
        params = types.WorkDoneProgressCreateParams(token=token)
        self._endpoint.ask("window/workDoneProgress/create", params, partial(self._start, token))

    def _start(self, token: str, _: object) -> None:
        """The client created the token; show nothing if the work has ended meanwhile."""
        if token == self._token:
            self._started = True
            message, percent = self._latest
            self._report(types.WorkDoneProgressBegin(self._title, percentage=percent, message=message))

    def _report(self, value: object) -> None:
        assert self._token is not None
        self._endpoint.notify("$/progress", types.ProgressParams(token=self._token, value=value))


STATUS_METHOD: Final = "fastcoder/status"
_MAX_EXPLAINED: Final = 500


class Reporter:
    """Reports to one client; silent until `open`, because the protocol forbids messages before `initialized`.

    `context`, `edits`: whether prompts may contain other files' code, and whether next edits may be suggested.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.facts: Callable[[], HostFacts] = HostFacts
        self.context: Callable[[], bool] = bool
        self.edits: Callable[[], bool] = bool
        self.snoozed: Callable[[], int] = int  # minutes left, or 0
        self.saves: Callable[[], bool] = bool  # less is prepared because the machine runs on its battery
        self._client: EditorFeatures | None = None
        self._status = Status("starting")
        self._sent_host: dict[str, object] | None = None
        self._sent_offers = (False, False)
        self._sent_notes: tuple[int, bool, str] = (0, False, "")
        self._edit_model = ""  # the progress of the edit model's loading, in words
        self._succession, self._sent_model = Succession(), ""
        self._noticed: set[str] = set()
        self._explained: set[str] = set()
        self._waiting: list[tuple[str, types.MessageType]] = []
        self._loading = WorkProgress(endpoint, "loading", "fastcoder: loading the model")
        self._indexing = WorkProgress(endpoint, "indexing", "fastcoder: reading the workspace")
        self._preparing = WorkProgress(endpoint, "preparing", "fastcoder: preparing a larger model")
        self._loading_edits = WorkProgress(endpoint, "edits", "fastcoder: loading the edit model")

    @property
    def answering(self) -> str:
        """Which model answers, in words; empty while none does."""
        return self._succession.text or (self.facts().model if self._status.state in ("ready", "thinking") else "")

    @property
    def current(self) -> Status:
        """The last reported state of the service."""
        return self._status

    @property
    def notes(self) -> list[str]:
        """The reasons that hold back suggestions or work at the moment, in words."""
        minutes, saves, edit_model = self._noted()
        snoozed = f"snoozed for {counted(minutes, 'more minute')}" if minutes else ""
        battery = "on battery, so fastcoder works only when you ask" if saves else ""
        return [note for note in (snoozed, battery, edit_model) if note]

    def open(self, client: EditorFeatures) -> None:
        """The client accepts notifications from now on."""
        self._client, self._sent_notes = client, self._noted()
        self._sent_offers = self._offers()
        self._send_status(client)
        for text, kind in self._waiting:
            self._show(text, kind)
        self._waiting.clear()

    def tell(self) -> None:
        """Send the status if something besides the service's state has changed."""
        self.status(self._status)

    def status(self, status: Status) -> None:
        """Send the status if it, the host's clients, what is offered or a note has changed."""
        now = status, self._host(), self._offers(), self.facts().model, self._noted()
        if now == (self._status, self._sent_host, self._sent_offers, self._sent_model, self._sent_notes):
            return
        self._status, self._sent_host, self._sent_offers, self._sent_model, self._sent_notes = now
        if self._client is not None:
            self._send_status(self._client)

    def follow(self, succession: Succession) -> None:
        """A smaller model answers until a larger one is ready; an empty value: no larger one follows any more."""
        if succession == self._succession:
            return
        over, self._succession = self._succession.following, succession
        if self._client is None:
            return
        self._send_status(self._client)
        if self._client.progress and succession.following:
            self._preparing.update(succession.text, succession.percent or 0)
        elif self._client.progress:
            self._preparing.end(f"{succession.answering} answers" if succession.answering else f"without {over}")

    def edit_model(self, status: Status) -> None:
        """Follow the loading of the edit model; completions go on meanwhile."""
        percent = "" if status.percent is None else f"{status.percent} %: "
        loading = status.state == "loading"
        self._edit_model = f"no edits until their model is loaded ({percent}{status.message})" if loading else ""
        if self._client is not None and self._client.progress and loading:
            self._loading_edits.update(status.message, status.percent or 0)
        else:
            self._loading_edits.end(status.message or status.state)
        if status.state == "error":
            self.notice(f"{status.message}\n{status.hint}".strip(), types.MessageType.Error)
        self.tell()

    def indexing(self, progress: Indexing) -> None:
        """Report how many files of the workspace are read."""
        done, total = progress.done, progress.total
        if self._client is None or not self._client.progress:
            return
        if progress.building:
            self._indexing.update(f"{done:,} of {counted(total, 'file')}" if total else "", 100 * done // max(total, 1))
        else:
            self._indexing.end(counted(total, "file"))

    def notice(self, text: str, kind: types.MessageType = types.MessageType.Warning, *, again: bool = False) -> None:
        """Show `text` to the user once; later it only goes to the log, unless it is to be shown `again`."""
        if text in self._noticed and not again:
            logger.info("again: %s", text)
            return
        logger.warning("%s", text)
        self._noticed.add(text)
        if self._client is None:
            self._waiting.append((text, kind))
        else:
            self._show(text, kind)

    def explain(self, text: str) -> None:
        """Say once, in the editor's log of the server, why something does not happen."""
        if self._client is None or text in self._explained or len(self._explained) >= _MAX_EXPLAINED:
            return
        self._explained.add(text)
        logger.info("%s", text)
        params = types.LogMessageParams(type=types.MessageType.Info, message=f"fastcoder: {text}")
        self._endpoint.notify("window/logMessage", params)

    def _offers(self) -> tuple[bool, bool]:
        return self.context(), self.edits()

    def _noted(self) -> tuple[int, bool, str]:
        return self.snoozed(), self.saves(), self._edit_model

    def _host(self) -> dict[str, object] | None:
        """The process that has the model, if editors share one and it has answered."""
        facts = self.facts()
        return (
            {"process_id": facts.process_id, "fronts": facts.fronts, "turn": facts.turn or None}
            if facts.shared and facts.process_id
            else None
        )

    def _send_status(self, client: EditorFeatures) -> None:
        status, host = self._status, self._sent_host
        follows, working = self._succession, status.state in ("ready", "thinking")
        message = status.message or (follows.text if working else "")
        fields: dict[str, object] = {
            "state": status.state,
            "percent": status.percent,
            "message": message,
            "hint": status.hint,
        }
        successor = {"model": follows.following, "what": follows.what, "percent": follows.percent}
        fields |= {"model": self._sent_model or None, "follows": successor if follows.following else None}
        if notes := self.notes:
            fields |= {"notes": notes, "snoozed": self._sent_notes[0] or None}
        context, edits = self._sent_offers
        fields |= {"host": host, "asks": self.facts().asks or None, "context": context, "edits": edits}
        if client.follows_status:
            self._endpoint.notify(STATUS_METHOD, fields)
        if client.shows_status:
            if status.state == "error":
                logger.warning("%s %s", status.message, status.hint)
            return
        if client.progress and status.state == "loading":
            self._loading.update(status.message, status.percent or 0)
        elif client.progress:
            self._loading.end(status.message or status.state)
        if status.state == "error":
            self.notice(f"{status.message}\n{status.hint}".strip(), types.MessageType.Error)

    def _show(self, text: str, kind: types.MessageType) -> None:
        self._endpoint.notify("window/showMessage", types.ShowMessageParams(type=kind, message=f"fastcoder: {text}"))


SILENT_S: Final = 60.0
PAUSE_S: Final = 15.0  # after such a pause the user is not typing: the minute starts again with the next question
_MIN_ANSWERS: Final = 10
_INTENDED: Final = frozenset(
    (
        *("off", "ignored", "secret", "rejected", "in-word", "in-comment", "in-string", "in-prose"),
        *("deletion", "short", "by-key", "snoozed"),
    )
)
"""Reasons that the user's own settings, switches and keys cause."""


class SilenceWatch:
    """Detects a minute of typing without a suggestion."""

    def __init__(self) -> None:
        self._since_s = self._last_s = 0.0
        self._reported = False
        self._counts: Counter[str] = Counter()
        self._latest: dict[str, Reason] = {}

    def shown(self) -> None:
        """A suggestion was shown."""
        self._counts.clear()

    def empty(self, reason: Reason, now_s: float) -> Reason | None:
        """Record an empty answer; returns the most frequent reason if the user is to be notified now."""
        if self._reported or reason.code in _INTENDED:
            return None
        if not self._counts or now_s - self._last_s > PAUSE_S:
            self._counts.clear()
            self._since_s = now_s
        self._last_s = now_s
        self._counts[reason.code] += 1
        self._latest[reason.code] = reason
        if now_s - self._since_s < SILENT_S or self._counts.total() < _MIN_ANSWERS:
            return None
        self._reported = True
        return self._most_frequent()

    def _most_frequent(self) -> Reason:
        """The most frequent reason; those that mere typing causes count only if there are no others."""
        relevant = {code: times for code, times in self._counts.items() if code not in PASSING}
        if not relevant:
            return Reason(
                "slow",
                "You kept typing before any suggestion was ready.",
                "Pause for a moment, or set `model` to a smaller model.",
            )
        return self._latest[max(relevant, key=lambda code: relevant[code])]


@dataclass(frozen=True, slots=True)
class Refusals:
    """Requests in documents without suggestions, by no wish of the user's: how many, and what to say of the last."""

    count: int = 0
    text: str = ""


class Outcomes:
    """Receives every answer. `clock`: seconds."""

    def __init__(self, reporter: Reporter, clock: Callable[[], float] = time.monotonic) -> None:
        self.reasons = Reasons(clock)
        self._reporter = reporter
        self._clock = clock
        self._watch = SilenceWatch()
        self.refusals = Refusals()

    def shown(self, uri: str, at: Position) -> None:
        """A suggestion is shown."""
        self.reasons.shown(uri, at)
        self._watch.shown()

    def refused(self, uri: str, at: Position, reason: Reason, *, invoked: bool) -> None:
        """Nothing is suggested in the whole document; notify the user if the request came by key."""
        if reason.code not in _INTENDED:
            self.refusals = Refusals(self.refusals.count + 1, _said(uri, reason))
        if invoked:
            self.say(uri, reason)
        self.empty(uri, at, reason)

    def say(self, uri: str, reason: Reason) -> None:
        """Notify the user, once for a document, why nothing is suggested in it, unless that is the user's own wish."""
        told = self.reasons.told(uri)
        if reason.code not in _INTENDED and reason.hint not in told:
            told.add(reason.hint)
            self._reporter.notice(_said(uri, reason), types.MessageType.Info)

    def empty(self, uri: str, at: Position, reason: Reason) -> None:
        """Nothing is shown; notify the user once after a whole minute of that."""
        self.reasons.keep(uri, at, reason)
        if reason.hint in self.reasons.told(uri):
            return
        report = self._watch.empty(reason, self._clock())
        if report is None or (report.code == "error" and self._reporter.current.state == "error"):
            return  # the model's error was reported when it occurred
        self._reporter.notice(f"no suggestion for a minute. {report.text} {report.hint}".strip())


def _said(uri: str, reason: Reason) -> str:
    return " ".join(sentences(f"No suggestions in {document_name(uri)}", reason))
