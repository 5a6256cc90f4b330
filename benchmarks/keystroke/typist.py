"""One session: a history typed against a running server, as `hands` says a person types.

Owns the clock and the ghost text on the screen. Each edit cancels the request before it and sends the next one at once,
as VS Code does; what is left of the ghost text stays while the next key agrees with it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace

from benchmarks.datasets.histories import Edit
from benchmarks.keystroke import hands
from benchmarks.keystroke.editor import Editor
from benchmarks.keystroke.flaws import flaw_of
from benchmarks.keystroke.records import KeyPosition, Request, ServerWork, read_server_work
from benchmarks.keystroke.subset import Subset
from fastcoder_lsp.client.client import Client
from fastcoder_lsp.client.ghost import Ghost, ghost_of
from fastcoder_lsp.client.rpc import Params, RequestFailedError, ServerGoneError

POLL_S = 0.03
"""So long before a key the server is asked for its counts: late enough for the last key's work, and not in its way."""
AFTER_S = 0.7
"""What a person looks at a finished run before going on to the next place."""


@dataclass(slots=True)
class _Open:
    """A request that is not answered yet; `sent`: when it went out."""

    place: KeyPosition | None
    through: bool
    version: int
    sent: float | None = None
    done: bool = False


@dataclass(slots=True)
class Account:
    """What a session comes to."""

    requests: list[Request] = field(default_factory=list)
    work: list[ServerWork] = field(default_factory=list)
    typed: int = 0
    saved: int = 0
    accepts: int = 0


class Typist:
    """A person at the keyboard.

    Args:
        client: speaks to the server.
        editor: holds the documents.
        told: version → what the server told of its answer; filled by whoever listens to the server.
        speed: keys a second.
        seed: of the rhythm.
        on_key: told at each key how many keys are behind it.
        taker: who accepts.
    """

    def __init__(
        self,
        client: Client,
        editor: Editor,
        told: dict[int, Params],
        *,
        speed: float,
        seed: int,
        on_key: Callable[[int], None],
        taker: hands.Taker = hands.TAB,
    ) -> None:
        self.account = Account()
        self._client, self._editor, self._told = client, editor, told
        self._speed, self._seed, self._on_key, self._taker = speed, seed, on_key, taker
        self._ghost: Ghost | None = None
        self._asking: _Open | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest: asyncio.Task[None] | None = None
        self._path, self._cursor = "", 0
        self._strokes: tuple[str, ...] = ()

    async def type(self, subset: Subset) -> None:
        """Make the steps of a history, the chosen runs key by key."""
        behind = 0
        for place, step in enumerate(subset.steps):
            if place in subset.typed and isinstance(step, Edit):
                await self._run(place, step, behind)
                behind += len(hands.keys(step.text.removesuffix("\n")))
            else:
                self._leave()
                self._editor.take(step)
                await asyncio.sleep(0)  # the server's messages are taken in between
        self._leave()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, run: int, step: Edit, behind: int) -> None:
        """Delete what the run replaces, open its line, type it."""
        self._leave()
        said = step.text.removesuffix("\n")
        self._path, self._cursor = step.path, step.offset
        expected = self._editor.text(step.path)
        expected = expected[: step.offset] + step.text + expected[step.offset + step.delete :]
        if step.delete:
            self._editor.replace(step.path, step.offset, step.offset + step.delete, "")
        opened = hands.opening(said)
        self._editor.replace(step.path, step.offset, step.offset, opened + step.text[len(said) :])
        self._cursor += len(opened)
        strokes = self._strokes = hands.keys(said)
        self._ask(KeyPosition(run, 0))
        waits = hands.waits(strokes, self._speed, f"{self._seed} {run}")
        key = 0
        while key < len(strokes):
            await self._wait(waits[key])
            saved = self._taker.accepted_keys(self._ghost.text, strokes[key:]) if self._ghost else 0
            if saved:
                await self._accept(KeyPosition(run, key + saved), "".join(strokes[key : key + saved]))
                self.account.accepts += 1
                self.account.saved += saved
                key += saved
            else:
                self._press(KeyPosition(run, key + 1), strokes[key])
                self.account.typed += 1
                key += 1
            self._on_key(behind + key)
        await self._wait(AFTER_S)
        assert self._editor.text(step.path) == expected, "what was typed is not what the history has"

    def _press(self, after: KeyPosition, key: str) -> None:
        """Press one key."""
        ghost = self._ghost
        through = ghost is not None and ghost.text.startswith(key) and len(key) < len(ghost.text)
        self._change(0, key)
        self._ghost = ghost.after_typing(key) if ghost is not None and through else None
        self._ask(after, through=through)

    async def _accept(self, after: KeyPosition, kept: str) -> None:
        """What the taker brings in of the suggestion; what is wrong of it is deleted at the next key."""
        assert self._ghost is not None
        ghost, self._ghost = self._ghost, None
        taken = ghost.text if self._taker.takes_all else kept
        wrong = len(taken) - len(kept)
        self._change(ghost.replaces, taken)
        if taken == ghost.text:  # no editor tells of a part
            self._start(self._client.accepted(ghost.suggestion))
        self._ask(None if wrong else after)
        if wrong:
            await self._wait(1 / self._speed)
            self._cursor -= wrong
            self._change(wrong, "")
            self._ghost = None
            self._ask(after)

    def _change(self, delete: int, text: str) -> None:
        """Replace `delete` characters right of the cursor by `text`; the cursor stands behind it."""
        self._cancel()
        self._editor.replace(self._path, self._cursor, self._cursor + delete, text)
        self._cursor += len(text)

    # Asking -------------------------------------------------------------------------------------------------------

    def _ask(self, place: KeyPosition | None, *, through: bool = False) -> None:
        self._cancel()
        self._asking = _Open(place, through, self._editor.version)
        self._newest = self._start(self._await(self._asking))

    def _cancel(self) -> None:
        """Give the open request up; the moment counts as its end."""
        asked, self._asking = self._asking, None
        if asked is None or asked.done or self._newest is None:
            return
        asked.done = True
        age = (self._now() - asked.sent) * 1e3 if asked.sent is not None else 0.0
        self.account.requests.append(Request(asked.place, asked.through, "cancelled", age))
        self._newest.cancel()

    def _leave(self) -> None:
        """Move the cursor elsewhere."""
        self._cancel()
        self._ghost = None

    async def _await(self, asked: _Open) -> None:
        text, at, strokes = self._editor.text(self._path), self._cursor, self._strokes
        asked.sent = self._now()
        try:
            suggestion = await self._client.suggest(self._editor.uri(self._path), text, at, invoked=False)
        except (RequestFailedError, ServerGoneError):
            return  # a server that ends is noticed by the session; a refused request is counted as cancelled
        ms = (self._now() - asked.sent) * 1e3
        if asked.done:
            return
        asked.done = True
        self._ghost = ghost_of(suggestion, text, at)
        told = self._told.pop(asked.version, {})
        request = Request(asked.place, asked.through, "empty" if self._ghost is None else "shown", ms)
        if self._ghost is not None and asked.place is not None:
            coming = "".join(strokes[asked.place.key :])
            request = replace(request, flaw=flaw_of(self._ghost.text, text[:at], coming))
        if told:
            request = replace(
                request,
                finish=told["finish"],
                parts=told["ms"],
                steps=told["steps"],
                tokens=told["tokens"],
                prefilled=told["prefilled"],
            )
        self.account.requests.append(request)

    async def _wait(self, seconds: float) -> None:
        """Let time pass; shortly before its end the server's counts are asked for."""
        until = self._now() + seconds
        await asyncio.sleep(max(0.0, seconds - POLL_S))
        self._start(self._poll())
        await asyncio.sleep(max(0.0, until - self._now()))

    async def _poll(self) -> None:
        with contextlib.suppress(ServerGoneError):  # the session notices
            self.account.work.append(read_server_work(await self._client.stats()))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _start(self, doing: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
