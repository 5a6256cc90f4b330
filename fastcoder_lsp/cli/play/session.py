"""An editor's side of ghost text: reports every change to the server, asks, cancels outdated requests, accepts.

Nothing here waits: each answer arrives in a task of its own. The screen and the scripted session both use it.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fastcoder_lsp.client.client import (
    Ghost,
    LanguageClient,
    LatePlace,
    Params,
    RequestFailedError,
    ServerGoneError,
    ghost_of,
)
from fastcoder_lsp.completion.status import Status

EDIT_PAUSES_S = (0.7, 1.0, 2.0)  # an edit is asked for again, since the files' imports may have yet to be read
OUTDATED_CODES = frozenset({-32800, -32801, -32802})
"""Request cancelled, content modified, server cancelled: errors that mean nothing to the user."""

LOADING = frozenset({"starting", "loading"})  # states in which the model is not ready yet

WORK = ("prompt", "prefill", "draft", "verify", "post")
"""Parts of a request's time (`observe.SPANS`) in which the model works for it."""

PAUSES_S = (1.0, 2.0, 4.0, 4.0)
"""When nothing was shown in time, the session asks again when the server has the text, or after these pauses."""


@dataclass(slots=True)
class OpenFile:
    r"""A file in the editor: `text` has `\n` line ends only and is never written back; `name` is for display."""

    name: str
    path: Path
    language: str
    text: str
    cursor: int
    version: int = 1
    original: str = field(init=False)

    def __post_init__(self) -> None:
        self.original = self.text

    @property
    def uri(self) -> str:
        """The URI of the file."""
        return self.path.as_uri()


@dataclass(frozen=True, slots=True)
class AnswerSummary:
    """An answer, and the model's work for it.

    `ms`: since the first request, on the client's clock, without the time while the model loads. `tokens` and `steps`
    are zero for a cached text. `prefilled` tokens of the prompt were computed. `waited_ms`: the model worked on
    something else. `late`: it was not ready in time, and was made in the background.
    """

    ms: float
    shown: bool
    tokens: int = 0
    steps: int = 0
    prefilled: int = 0
    prefill_ms: float = 0.0
    waited_ms: float = 0.0
    late: bool = False

    @classmethod
    def of(cls, ms: float, told: Params, *, shown: bool, late: bool) -> "AnswerSummary":
        """The answer as the server reports it in `told` (`fastcoder/answered`), empty without a report."""
        typed_through, parts = told.get("finish") == "typed-through", told.get("ms", {})
        if not told or (typed_through and not late):
            return cls(ms, shown)
        counts = (told["tokens"], told["steps"], told["prefilled"])
        if late:
            return cls(ms, shown, *counts, late=True)
        worked_ms = sum(parts.get(part, 0.0) for part in WORK)
        return cls(ms, shown, *counts, parts.get("prefill", 0.0), max(ms - worked_ms, 0.0))


class PlaySession:
    """The open files, at least one, and their server; the first file is shown.

    `on_change` is called when anything but the texts changed: ghost text, status, an answer.
    """

    def __init__(self, files: list[OpenFile], on_change: Callable[[], None]) -> None:
        self.files, self.current = files, files[0]
        self.ghost: Ghost | None = None
        self.status = Status("starting")
        self.model = self.engine = ""
        self.notice = ""
        self.last: AnswerSummary | None = None
        self.answers: deque[AnswerSummary] = deque(maxlen=200)
        self._serving = False
        self._ready_at = 0.0
        self._on_change = on_change
        self._told: Params = {}
        self._client = LanguageClient(
            self._take_status, self._take_notice, self.fail, on_late=self._take_late, on_told=self._take_told
        )
        self._made = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self.edits: list[Params] = []
        """The next edit of the current text, which a key makes."""
        self._edit_asking: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()

    async def start(self, command: list[str], root: Path, options: dict[str, object]) -> None:
        """Start the server and open the files in it, as they are then; raises ServerGoneError if it ends at once."""
        await self._client.start(command, root, options | {"client": {"reportsAnswers": True}})
        self._serving = True
        for file in self.files:
            self._client.open(file.uri, file.language, file.version, file.text)

    def fail(self, gone: ServerGoneError) -> None:
        """Record that the server is gone; the text can still be edited."""
        self._serving, self.ghost = False, None
        self.status = Status("error", message=gone.message, hint=gone.hint)
        self._on_change()

    async def stop(self) -> None:
        """End the server; waits until it is gone."""
        self.dismiss()
        await asyncio.gather(*self._telling, return_exceptions=True)
        await self._client.stop()

    @property
    def loading(self) -> bool:
        """Whether the model is not ready yet."""
        return self.status.state in LOADING

    def show(self, file: OpenFile) -> None:
        """Switch to another file."""
        self.dismiss()
        self.current = file

    def edited(self, text: str, cursor: int) -> None:
        """The text changed: tell the server and ask; meanwhile the rest of the ghost text stays."""
        file = self.current
        before, was_at, file.text, file.cursor = file.text, file.cursor, text, cursor
        file.version += 1
        inserted = text[was_at:cursor]
        typed = inserted and before[:was_at] + inserted + before[was_at:] == text
        self.ghost = self.ghost.after_typing(inserted) if self.ghost is not None and typed else None
        if self._serving:
            self._client.change(file.uri, file.version, before, text)
            self.ask(invoked=False)
            self.ask_edit()

    def moved(self, cursor: int) -> None:
        """The cursor moved without a change of the text: drop the ghost text of the old place."""
        if cursor != self.current.cursor:
            self.current.cursor = cursor
            self.dismiss()

    def dismiss(self) -> None:
        """Drop the ghost text, and stop asking."""
        self.dismiss_ghost()
        self.edits = []
        if self._edit_asking is not None:
            self._edit_asking.cancel()
            self._edit_asking = None

    def dismiss_ghost(self) -> None:
        """Drop the ghost text, and stop asking for it."""
        self.ghost = None
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def ask_edit(self) -> None:
        """Ask for the next edit in a pause; cancels an open request."""
        self.edits = []
        if self._edit_asking is not None:
            self._edit_asking.cancel()
        self._edit_asking = asyncio.create_task(self._ask_edit())

    async def edit_answered(self) -> None:
        """Wait for the open request for an edit, if there is one."""
        if self._edit_asking is not None:
            await asyncio.wait([self._edit_asking])

    def made_edit(self) -> tuple[str, int]:
        """The text and cursor with the next edit made."""
        text, cursor = self.current.text, self.current.cursor
        here = self._client.position(text, cursor)
        above = [one for one in self.edits if _end_of(one) <= (here["line"], here["character"])]
        return self._client.with_edits(text, self.edits), cursor + len(self._client.with_edits(text, above)) - len(text)

    async def _ask_edit(self) -> None:
        file, version = self.current, self.current.version
        try:
            for pause_s in EDIT_PAUSES_S:
                await asyncio.sleep(pause_s)
                found = await self._client.next_edits(file.uri, version, file.text, file.cursor)
                if found or (file, version) != (self.current, self.current.version):
                    break
        except (RequestFailedError, ServerGoneError):
            return
        if file is self.current and version == file.version and found:
            self.edits = found
            self._on_change()

    def ask(self, *, invoked: bool) -> None:
        """Ask for ghost text at the cursor; cancels an open request."""
        if self._asking is not None:
            self._asking.cancel()
        if self._serving:
            self._asking = asyncio.create_task(self._ask(invoked=invoked))

    async def answered(self) -> None:
        """Wait for the open request, if there is one."""
        if self._asking is not None:
            await asyncio.wait([self._asking])

    async def why(self) -> str:
        """The server's explanation why nothing is shown in the current file."""
        try:
            return await self._client.why(self.current.uri)
        except (RequestFailedError, ServerGoneError) as error:
            return error.message

    def accept(self) -> tuple[str, int]:
        """The text and cursor with the ghost text accepted, for the caller to insert; tells the server."""
        assert self.ghost is not None
        task = asyncio.create_task(self._tell_accepted(self.ghost))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
        return self.ghost.accept(self.current.text, self.current.cursor)

    def accept_word(self) -> tuple[str, int]:
        """Accept one word of the suggestion."""
        assert self.ghost is not None
        word = self.ghost.word()
        if word == self.ghost.text:
            return self.accept()
        text, cursor = self.current.text, self.current.cursor
        return text[:cursor] + word + text[cursor:], cursor + len(word)

    async def _ask(self, *, invoked: bool) -> None:
        """Ask; if the budget ran out before anything could be shown, ask again, since it is made meanwhile."""
        started, loading = time.perf_counter(), self.loading
        try:
            answer = await self._ask_once(started, invoked=invoked)
            for pause in () if invoked else PAUSES_S:
                if answer is None or answer.shown:
                    break
                await self._wait_until_made(pause)
                later = await self._ask_once(started, invoked=invoked, late=True)
                answer = later if later is None or later.shown else answer
        except RequestFailedError as error:
            if error.code not in OUTDATED_CODES:
                self.notice = error.message
        except ServerGoneError:
            return
        else:
            if answer is None:
                return
            self.last = answer
            if not loading:
                self.answers.append(answer)
        self._on_change()

    async def _ask_once(self, started: float, *, invoked: bool, late: bool = False) -> AnswerSummary | None:
        """Send one request and show its answer; None if the text has changed meanwhile.

        The answer's time is counted from `started`. `late`: it was asked for before.
        """
        file, version = self.current, self.current.version
        self._made.clear()
        self._told = {}
        suggestion = await self._client.suggest(file.uri, file.text, file.cursor, invoked=invoked)
        ms = (time.perf_counter() - max(started, self._ready_at)) * 1e3
        if file is not self.current or version != file.version:
            return None
        told = self._told if self._told.get("version") == version else {}
        self.ghost = ghost_of(suggestion, file.text, file.cursor)
        self._on_change()
        if not self.model:
            await self._name_model()
        return AnswerSummary.of(ms, told, shown=self.ghost is not None, late=late)

    async def _name_model(self) -> None:
        with contextlib.suppress(RequestFailedError):
            stats = await self._client.stats()
            self.model, self.engine = stats["model"] or "", stats["engine"] or ""

    async def _wait_until_made(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._made.wait(), pause_s)

    def _take_late(self, late: LatePlace) -> None:
        """The text at the cursor is ready: ask again if nothing is shown, and continue a beginning that is shown."""
        file = self.current
        here = self._client.position(file.text, file.cursor)
        if (late.uri, late.version, late.position) != (file.uri, file.version, here):
            return
        self._made.set()
        if self._asking is not None and self._asking.done():
            self._asking = asyncio.create_task(self._ask_for_late())

    async def _ask_for_late(self) -> None:
        with contextlib.suppress(RequestFailedError, ServerGoneError):
            await self._ask_once(time.perf_counter(), invoked=False)
        self._on_change()

    async def _tell_accepted(self, ghost: Ghost) -> None:
        try:
            await self._client.accepted(ghost.suggestion)
        except (RequestFailedError, ServerGoneError) as error:
            self.notice = error.message

    def _take_told(self, method: str, params: Params) -> None:
        if method == "fastcoder/answered":
            self._told = params

    def _take_status(self, status: Status) -> None:
        if self.loading and status.state not in LOADING:
            self._ready_at = time.perf_counter()
        self.status = status
        self._on_change()

    def _take_notice(self, message: str) -> None:
        self.notice = message
        self._on_change()


def _end_of(edit: Params) -> tuple[int, int]:
    end = edit["range"]["end"]
    return end["line"], end["character"]
