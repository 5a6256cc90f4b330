"""A history typed against a real server over stdio: the editor, the requests and what becomes of them, the session."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import psutil
from typing_extensions import override

from benchmarks.datasets.histories import Create, RecordedEdit, Remove, Save, Step, apply
from benchmarks.product import SERVER, BenchmarkServer, fresh_workspace
from benchmarks.typist import TAB, Accepter, KeyPosition, Subset, Typist
from fastcoder_lsp.client.client import Ghost, LanguageClient, Params, RequestFailedError, ServerGoneError, ghost_of
from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.usage import rightness
from fastcoder_lsp.workspace.languages import language_of

POLL_S = 0.03
"""So long before a key the server is asked for its counts: late enough for the last key's work, and not in its way."""
OPEN_AT_MOST = 20
"""Documents open at once; those that were used longest ago and are saved go first."""
BUDGET_MS = 400.0
"""The budget of an automatic request if the server has none: the product's promise."""
EDIT_S = 0.2
"""Time from a key to a request for an edit, as in our Neovim client; another key puts it off."""
NO_BUDGET_MS = 10_000.0
"""A budget of this much is none."""
TYPED_THROUGH = "typed-through"
"""How the server names an answer that it gave without the model."""
Outcome = Literal["shown", "empty", "cancelled"]


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison: a drafter at a speed, with an editor's settings; `edits` are asked for, too."""

    name: str
    drafter: str
    speed: float
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    is_ablation: bool = False
    edits: bool = False


@dataclass(frozen=True, slots=True)
class ShownText:
    """What was right of a shown text: its first word; how many of its lines, from the top, are typed next.

    `changed`: whether it replaced another text, along which the user had just typed, and does not begin with it.
    """

    first_word: bool
    lines: int
    right: int
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One automatic request and what became of it.

    Attributes:
        place: where; None while the text is not what the history has (a wrong rest is not deleted yet).
        through: whether the key before it was the next character of the suggestion then shown.
        ms: until the answer; of a cancelled one, its age then.
        finish, parts: why decoding ended, and span → ms, as the server told of its answer.
    """

    place: KeyPosition | None
    through: bool
    outcome: Outcome
    ms: float
    finish: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    shown: ShownText | None = None

    @property
    def by_model(self) -> bool:
        """Whether it shows text that the model made for it, or for the one before."""
        return self.outcome == "shown" and self.finish != TYPED_THROUGH


@dataclass(frozen=True, slots=True)
class ServerWork:
    """The server's counts; `cpu_s` by cause, as the server knows it."""

    steps: int = 0
    tokens: int = 0
    prefilled: int = 0
    accepted_by_source: Mapping[str, int] = field(default_factory=dict)
    mechanisms: Mapping[str, int] = field(default_factory=dict)
    cpu_s: Mapping[str, float] = field(default_factory=dict)

    def since(self, before: "ServerWork") -> "ServerWork":
        return ServerWork(
            self.steps - before.steps,
            self.tokens - before.tokens,
            self.prefilled - before.prefilled,
            _less(self.accepted_by_source, before.accepted_by_source),
            _less(self.mechanisms, before.mechanisms),
            {name: seconds - before.cpu_s.get(name, 0.0) for name, seconds in self.cpu_s.items()},
        )


@dataclass(frozen=True, slots=True)
class ReplaySession:
    """One session: a drafter at a speed.

    Attributes:
        work: the server's after each request.
        saved, saved_in: keys that accepts made unnecessary, in all and by run.
        edits: requests for edits that were answered, and those with an edit.
        budget_ms: of an automatic request.
        cpu_s: processor time while typing, of all processes; `front_s`: of the editor's own alone.
    """

    requests: tuple[Request, ...]
    work: tuple[ServerWork, ...]
    typed: int
    saved: int
    accepts: int
    budget_ms: float
    cpu_s: float
    front_s: float
    server: Mapping[str, Any] = field(default_factory=dict)
    saved_in: Mapping[int, int] = field(default_factory=dict)
    edits: tuple[int, int] = (0, 0)


class Editor:
    """The editor of one workspace: tells `client` of every change, and writes `files` below the empty folder `root`."""

    def __init__(self, client: LanguageClient, root: Path, files: dict[str, str]) -> None:
        self._client, self._root, self._files = client, root, files
        self._open: OrderedDict[str, bool] = OrderedDict()
        self.version = 0
        """The version of the last change; one count for all documents, so that it names a request."""
        for path in files:
            self._write(path)

    def uri(self, path: str) -> str:
        return self._file(path).as_uri()

    def text(self, path: str) -> str:
        return self._files[path]

    def take(self, step: Step) -> None:
        match step:
            case RecordedEdit(path, offset, delete, text):
                self.replace(path, offset, offset + delete, text)
            case Save(path):
                self._write(path)
                if path in self._open:
                    self._open[path] = True
                    self._client.save(self.uri(path))
            case Create(path):
                apply(self._files, step)
                self._write(path)
            case Remove(path):
                apply(self._files, step)
                self._file(path).unlink(missing_ok=True)
                if self._open.pop(path, None) is not None:
                    self._client.close(self.uri(path))

    def replace(self, path: str, start: int, end: int, text: str) -> None:
        self.show(path)
        before = self._files[path]
        apply(self._files, RecordedEdit(path, start, end - start, text, typed=True))
        self._open[path] = False
        self.version += 1
        self._client.edit(self.uri(path), self.version, before, start, end, text)

    def show(self, path: str) -> None:
        if path not in self._open:
            self.version += 1
            self._client.open(self.uri(path), language_of(Path(path)), self.version, self._files[path])
            self._open[path] = True
        self._open.move_to_end(path)
        saved = [other for other, is_saved in self._open.items() if is_saved and other != path]
        for other in saved[: max(0, len(self._open) - OPEN_AT_MOST)]:
            del self._open[other]
            self._client.close(self.uri(other))

    def _write(self, path: str) -> None:
        file = self._file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", encoding="utf-8", newline="") as opened:
            opened.write(self._files[path])

    def _file(self, path: str) -> Path:
        parts = PurePosixPath(path)
        if parts.is_absolute() or ".." in parts.parts or not parts.parts:
            raise UsageError(f"a history must stay in its tree: {path}")
        return self._root / parts


@dataclass(slots=True)
class _OpenRequest:
    place: KeyPosition | None
    through: bool
    version: int
    sent: float | None = None
    done: bool = False


class Replay(Typist):
    """A person at the keyboard of an editor.

    Args:
        told: version → what the server told of its answer; filled by the server's listener.
        edits: whether next edits are asked for, too; none is accepted.
    """

    def __init__(
        self, client: LanguageClient, editor: Editor, told: dict[int, Params], *, edits: bool = False, **given: Any
    ) -> None:
        super().__init__(**given)
        self.edits = 0, 0
        self._asks_edits = edits
        self._edit: asyncio.Task[None] | None = None
        self.requests: list[Request] = []
        self.work: list[ServerWork] = []  # shortly before each key
        self._client, self._editor, self._told = client, editor, told
        self._asking: _OpenRequest | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest: asyncio.Task[None] | None = None

    async def type(self, subset: Subset) -> None:
        """Type; shortly before the end of every pause the server's counts are asked for."""
        for seconds in self.keys(subset):
            if seconds:
                until = self._now() + seconds
                await asyncio.sleep(max(0.0, seconds - POLL_S))
                self._start(self._poll())
                await asyncio.sleep(max(0.0, until - self._now()))
            else:
                await asyncio.sleep(0)  # the server's messages are taken in between
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @override
    def text(self) -> str:
        return self._editor.text(self.path)

    @override
    def take(self, step: Step) -> None:
        self._editor.take(step)

    @override
    def edit(self, delete: int, text: str) -> None:
        self._editor.replace(self.path, self.cursor, self.cursor + delete, text)

    @override
    def tell_accepted(self, ghost: Ghost) -> None:
        self._start(self._client.accepted(ghost.suggestion))

    @override
    def ask(self, place: KeyPosition | None, *, through: bool) -> None:
        self._asking = _OpenRequest(place, through, self._editor.version)
        self._newest = self._start(self._await(self._asking))
        if self._edit is not None:
            self._edit.cancel()
        if self._asks_edits:
            self._edit = self._start(self._await_edit())

    async def _await_edit(self) -> None:
        await asyncio.sleep(EDIT_S)
        uri, version, text = self._editor.uri(self.path), self._editor.version, self.text()
        with contextlib.suppress(RequestFailedError, ServerGoneError):  # as in `_await`
            shown = await self._client.next_edits(uri, version, text, self.cursor)
            self.edits = self.edits[0] + 1, self.edits[1] + bool(shown)

    @override
    def cancel(self) -> None:
        """Give the open request up; the moment counts as its end."""
        asked, self._asking = self._asking, None
        if asked is None or asked.done or self._newest is None:
            return
        asked.done = True
        age = (self._now() - asked.sent) * 1e3 if asked.sent is not None else 0.0
        self.requests.append(Request(asked.place, asked.through, "cancelled", age))
        self._newest.cancel()

    async def _await(self, asked: _OpenRequest) -> None:
        text, at, strokes, left = self.text(), self.cursor, self.strokes, self.ghost
        asked.sent = self._now()
        try:
            suggestion = await self._client.suggest(self._editor.uri(self.path), text, at, invoked=False)
        except (RequestFailedError, ServerGoneError):
            return  # a server that ends is noticed by the session; a refused request is counted as cancelled
        ms = (self._now() - asked.sent) * 1e3
        if asked.done:
            return
        asked.done = True
        self.ghost = ghost_of(suggestion, text, at)
        told: Params = self._told.pop(asked.version, {})
        shown: ShownText | None = None
        outcome: Outcome = "empty" if self.ghost is None else "shown"
        if self.ghost is not None and asked.place is not None:
            shown = judged(self.ghost.text, "".join(strokes[asked.place.key :]), left.text if left is not None else "")
        finish, parts = told.get("finish", ""), told.get("ms", {})
        self.requests.append(Request(asked.place, asked.through, outcome, ms, finish, parts, shown))

    async def _poll(self) -> None:
        with contextlib.suppress(ServerGoneError):  # the session notices
            self.work.append(read_server_work(await self._client.stats()))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _start(self, doing: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def play(
    arm: Arm,
    subset: Subset,
    files: Mapping[str, str],
    *,
    seed: int,
    on_key: Callable[[int], None],
    command: tuple[str, ...] = SERVER,
    taker: Accepter = TAB,
) -> ReplaySession:
    """Type `subset` of a history into its tree; raises FastcoderError where the server cannot work, or ended."""

    async def session() -> ReplaySession:
        server = BenchmarkServer("keystroke")
        await server.start(command, root, {"drafter": arm.drafter, **arm.settings}, environment)
        try:
            editor = Editor(server.client, root, dict(files))
            await server.ready()
            given: dict[str, Any] = {"speed": arm.speed, "seed": seed, "on_key": on_key, "taker": taker}
            return await _typed(server, Replay(server.client, editor, server.told, edits=arm.edits, **given), subset)
        finally:
            await server.client.stop()

    with fresh_workspace() as (root, environment):
        return asyncio.run(session())


async def _typed(server: BenchmarkServer, typist: Replay, subset: Subset) -> ReplaySession:
    client = server.client
    told = await client.stats()
    before, spent = read_server_work(told), _spent_s(client.process_id, told)
    typing = asyncio.create_task(typist.type(subset))
    while not typing.done():
        await asyncio.wait([typing], timeout=0.5)
        try:
            server.check()
        except FastcoderError:
            typing.cancel()
            await asyncio.wait([typing])
            raise
    typing.result()
    stats = await client.stats()
    front_s, others_s = (now - then for now, then in zip(_spent_s(client.process_id, stats), spent, strict=True))
    return ReplaySession(
        requests=tuple(typist.requests),
        work=(before, *typist.work, read_server_work(stats)),
        typed=typist.typed,
        saved=typist.saved,
        accepts=typist.accepts,
        budget_ms=_budget_ms(stats),
        cpu_s=front_s + others_s,
        front_s=front_s,
        server={"model": stats["model"], "engine": stats["engine"]},
        saved_in=typist.saved_in,
        edits=typist.edits,
    )


def _spent_s(front: int, stats: Params) -> tuple[float, float]:
    """CPU seconds of the server's own process, and of the one that has the model, if that is another; with children."""
    host = stats["host"]["process_id"] or front
    return _with_children(front), _with_children(host) if host != front else 0.0


def _with_children(process_id: int) -> float:
    process, seconds = psutil.Process(process_id), 0.0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _budget_ms(stats: Params) -> float:
    """The budget of an automatic request; the product's promise if the server sets none."""
    told: float = stats["budget_ms"].get("automatic", NO_BUDGET_MS)
    return told if told < NO_BUDGET_MS else BUDGET_MS


def read_server_work(stats: Mapping[str, Any]) -> ServerWork:
    counts = stats["requests"]
    told = {name: counts[name] for name in ("adopted", "background", "ahead", "budgeted", "budgeted_empty")}
    told["suppressed"] = sum(stats.get("suppressed", {}).values())
    steps, tokens, prefilled = (counts[name] for name in ("steps", "tokens", "prefilled"))
    # Older servers tell no times.
    cpu_s = stats.get("cpu_s", {}) | {"index": stats["host"].get("index_cpu_s", 0.0)}
    return ServerWork(steps, tokens, prefilled, stats["accepted_by_source"], told, cpu_s)


def _less(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in now.items()}


def judged(shown: str, coming: str, left: str = "") -> ShownText:
    """What is right of `shown` where `coming` will be typed; `left`: what was left there of the text shown before."""
    of = rightness(shown, coming)
    return ShownText(of.first_word, of.lines, of.right, changed=not shown.startswith(left))
