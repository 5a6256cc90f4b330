"""Unsolicited messages to the user: the status, progress bars, one notice per problem, late suggestions.

Owns the rule "one notice, then the log". Lives on the event loop's thread; `Status` values come from any thread
through `Session`.
"""

import logging
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from lsprotocol import types

from fastcoder_lsp.completion.protocol import HostFacts
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import Late
from fastcoder_lsp.core.wording import counted
from fastcoder_lsp.lsp.capabilities import EditorFeatures
from fastcoder_lsp.lsp.endpoint import Endpoint
from fastcoder_lsp.workspace.document import Position

logger = logging.getLogger(__name__)

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
    """One kind of work, shown as one progress each time: begin, reports, end, in this order whatever comes when.

    Args:
        endpoint: the connection.
        name: tells this work's tokens from others'.
        title: what the user reads.
    """

    def __init__(self, endpoint: Endpoint, name: str, title: str) -> None:
        self._endpoint, self._name, self._title = endpoint, name, title
        self._latest = ("", 0)
        self._tokens = count(1)
        self._token: str | None = None
        self._started = False

    def update(self, message: str, percent: int) -> None:
        """The work goes on; the first time, it begins."""
        self._latest = (message, percent)
        if self._token is None:
            self._create(f"fastcoder/{self._name}/{next(self._tokens)}")
        elif self._started:
            self._report(types.WorkDoneProgressReport(message=message, percentage=percent))

    def end(self, message: str) -> None:
        """The work is over, if there was any."""
        if self._token is not None and self._started:
            self._report(types.WorkDoneProgressEnd(message=message))
        self._token, self._started = None, False

    def _create(self, token: str) -> None:
        self._token = token
        params = types.WorkDoneProgressCreateParams(token=token)
        self._endpoint.ask("window/workDoneProgress/create", params, partial(self._start, token))

    def _start(self, token: str, _: object) -> None:
        """The client made the token; nothing is shown if the work has ended meanwhile."""
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
    """Tells one client; silent until `open`, as the protocol wants it before `initialized`.

    Attributes:
        facts: what is known of the process that has the model.
        context: whether other files' code goes along with prompts, as far as it is known.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.facts: Callable[[], HostFacts] = HostFacts
        self.context: Callable[[], bool] = bool
        self._client: EditorFeatures | None = None
        self._status = Status("starting")
        self._sent_host: dict[str, object] | None = None
        self._sent_context = False
        self._noticed: set[str] = set()
        self._explained: set[str] = set()
        self._waiting: list[tuple[str, types.MessageType]] = []
        self._loading = WorkProgress(endpoint, "loading", "fastcoder: loading the model")
        self._indexing = WorkProgress(endpoint, "indexing", "fastcoder: reading the workspace")

    @property
    def current(self) -> Status:
        """The service's state, as it was told last."""
        return self._status

    def open(self, client: EditorFeatures) -> None:
        """The client takes notifications from now on."""
        self._client, self._sent_context = client, self.context()
        self._send_status(client)
        for text, kind in self._waiting:
            self._show(text, kind)
        self._waiting.clear()

    def status(self, status: Status) -> None:
        """Send the status if it, the host's clients or the use of other files' code has changed."""
        now = status, self._host(), self.context()
        if now == (self._status, self._sent_host, self._sent_context):
            return
        self._status, self._sent_host, self._sent_context = now
        if self._client is not None:
            self._send_status(self._client)

    def indexing(self, done: int, total: int, *, building: bool) -> None:
        """The datastore has looked at `done` of `total` files of a folder; not `building`: at all that there are."""
        if self._client is None or not self._client.progress:
            return
        if building:
            self._indexing.update(f"{done:,} of {counted(total, 'file')}" if total else "", 100 * done // max(total, 1))
        else:
            self._indexing.end(counted(total, "file"))

    def notice(self, text: str, kind: types.MessageType = types.MessageType.Warning) -> None:
        """Show `text` to the user, the first time; after that it only goes to the log."""
        if text in self._noticed:
            logger.info("again: %s", text)
            return
        logger.warning("%s", text)
        self._noticed.add(text)
        if self._client is None:
            self._waiting.append((text, kind))
        else:
            self._show(text, kind)

    def explain(self, text: str) -> None:
        """Say once, where the editor keeps the server's messages, why something does not happen."""
        if self._client is None or text in self._explained or len(self._explained) >= _MAX_EXPLAINED:
            return
        self._explained.add(text)
        logger.info("%s", text)
        params = types.LogMessageParams(type=types.MessageType.Info, message=f"fastcoder: {text}")
        self._endpoint.notify("window/logMessage", params)

    def _host(self) -> dict[str, object] | None:
        """The process that has the model, where editors share one and it has answered."""
        facts = self.facts()
        return (
            {"process_id": facts.process_id, "fronts": facts.fronts, "turn": facts.turn or None}
            if facts.shared and facts.process_id
            else None
        )

    def _send_status(self, client: EditorFeatures) -> None:
        status, host = self._status, self._sent_host
        fields = {"state": status.state, "percent": status.percent, "message": status.message, "hint": status.hint}
        asks, context = self.facts().asks or None, self._sent_context
        self._endpoint.notify(STATUS_METHOD, {**fields, "host": host, "asks": asks, "context": context})
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
