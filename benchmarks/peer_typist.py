"""A history typed through the rules of llama.vim and llama.vscode, against any server that answers `/infill`.

The sources are llama.vim's `autoload/llama.vim` (commit a1c8e6e) and llama.vscode's `src/completion.ts` (3938fb3), with
their default settings: the fields of requests, the pauses between them, the caches, the requests made ahead, and the
answers that repeat the text below. Chunks of other places (`input_extra`) are left out: the plugins send them only
after three seconds without a key.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from benchmarks.datasets.histories import RecordedEdit, Step, apply
from benchmarks.typist import KeyPosition, Subset, Typist
from fastcoder_lsp.client.client import Ghost, ReceivedSuggestion

Post = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Sends the body of an `/infill` request; gives the answer."""
LINES_BEFORE, LINES_AFTER = 256, 64
LONGEST_REST = 8
"""Characters right of the cursor; with more of them the plugins ask for nothing."""
VIM_RETRY_S, VSCODE_RETRY_S = 0.1, 0.15
VIM_LOOKS_BACK = 128
"""Characters typed since an answer that llama.vim still finds."""


@dataclass(frozen=True, slots=True)
class PluginContext:
    """The text around the cursor, as the plugins send it: `prefix`, `middle` and `suffix`.

    Attributes:
        before, after, below: the cursor's line left and right of it, and the lines below.
        whole: all text left of the cursor.
        key: names the place: the text left of it, without a blank line's indentation, and the text right of it.
    """

    prefix: str
    middle: str
    suffix: str
    before: str
    after: str
    below: list[str]
    whole: str
    key: tuple[str, str]

    @classmethod
    def at(cls, text: str, cursor: int) -> "PluginContext":
        """The context of a cursor; on a blank line both plugins ask from the line's start."""
        above, below = text[:cursor].split("\n"), text[cursor:].split("\n")
        before, after = above.pop(), below.pop(0)
        middle = before if before.strip() else ""
        prefix = "\n".join(above[-LINES_BEFORE:]) + "\n"
        suffix = "\n".join((after, *below[:LINES_AFTER])) + "\n"
        key = (text[: cursor - len(before)] + middle, text[cursor:])
        return cls(prefix, middle, suffix, before, after, below, text[:cursor], key)

    def accepted(self, shown: str) -> "PluginContext":
        """The context behind a suggestion, once it is accepted."""
        whole = self.whole + shown
        *above, line = whole.split("\n")
        prefix = "\n".join(above[-LINES_BEFORE:]) + "\n"
        return PluginContext(prefix, line, self.suffix, line, self.after, self.below, whole, (whole, self.key[1]))


class PluginTypist(Typist):
    """A person who types through a plugin into `files`, path → text.

    Attributes:
        places, shown: places of the cursor after a key or an accept, and those where text was shown before the next.
        waits: milliseconds from the key to text that came from the server.
    """

    def __init__(self, post: Post, files: Mapping[str, str], **given: Any) -> None:
        super().__init__(**given)
        self.requests = self.places = self.shown = 0
        self.waits: list[float] = []
        self._post, self._files = post, dict(files)
        self._known: dict[tuple[str, str], str] = {}
        self._tasks: list[asyncio.Task[object]] = []
        self._pressed: float | None = None

    async def type(self, subset: Subset) -> None:
        for seconds in self.keys(subset):
            await asyncio.sleep(seconds)
        await asyncio.gather(*self._tasks)

    def moved(self) -> None:
        """Hear that the cursor has moved: look for known text, and ask."""
        raise NotImplementedError

    @override
    def text(self) -> str:
        return self._files[self.path]

    @override
    def take(self, step: Step) -> None:
        apply(self._files, step)

    @override
    def edit(self, delete: int, text: str) -> None:
        apply(self._files, RecordedEdit(self.path, self.cursor, delete, text, typed=True))

    @override
    def ask(self, place: KeyPosition | None, *, through: bool) -> None:
        self._pressed = self._now()
        self.moved()

    @override
    def cancel(self) -> None:
        if self._pressed is not None:
            self.places += 1
            self.shown += self.ghost is not None
            self._pressed = None

    @override
    def tell_accepted(self, ghost: Ghost) -> None:
        """Tell nobody: `/infill` has no message for it."""

    def here(self) -> PluginContext:
        return PluginContext.at(self.text(), self.cursor)

    def show(self, context: PluginContext, content: str, *, came: bool) -> str:
        if (text := displayed(context, content)) and self._pressed is not None:
            if came and self.ghost is None:
                self.waits.append(1e3 * (self._now() - self._pressed))
            self.ghost = Ghost(text, 0, ReceivedSuggestion(text, self.cursor, self.cursor))
        return text

    async def content(self, body: Mapping[str, Any]) -> str:
        self.requests += 1
        answer = await self._post(body)
        first = answer[0] if isinstance(answer, list) else answer
        return str(first.get("content", ""))

    def start(self, doing: Coroutine[object, object, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(doing))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class LlamaVim(PluginTypist):
    """llama.vim: one request at a time, and a look every 0.1 s whether the next may go."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._asking = False
        self._retry: asyncio.TimerHandle | None = None

    @override
    def moved(self) -> None:
        self._hint(came=False)
        self._request("")

    def _hint(self, *, came: bool) -> None:
        """Show the longest known text that agrees with what was typed since; ask ahead for what follows it."""
        context = self.here()
        before, after = context.key
        found = self._known.get(context.key, "")
        for back in range(1, 0 if found else min(VIM_LOOKS_BACK, len(before)) + 1):
            said = self._known.get((before[:-back], after), "")
            if said.startswith(before[-back:]) and len(said) - back > len(found):
                found = said[back:]
        if text := self.show(context, found, came=came):
            self._request(text)

    def _request(self, shown: str) -> None:
        if self._asking:
            if self._retry is not None:
                self._retry.cancel()
            self._retry = asyncio.get_running_loop().call_later(VIM_RETRY_S, self._request, shown)
            return
        context = self.here().accepted(shown) if shown else self.here()
        if self._pressed is None or len(context.after) > LONGEST_REST or context.key in self._known:
            return
        self._asking = True
        self.start(self._fetch(context, 1000 if shown else 250))

    async def _fetch(self, context: PluginContext, predict_ms: int) -> None:
        body = _body(context) | {"n_indent": _indent(context.before), "stop": [], "top_p": 0.9}
        body |= {"t_max_predict_ms": predict_ms, "response_fields": ["content"]}
        try:
            self._known[context.key] = await self.content(body)
        finally:
            self._asking = False
        if self.ghost is None and self._pressed is not None:
            self._hint(came=True)


class LlamaVscode(PluginTypist):
    """llama.vscode: a key waits for the request before it, in looks of 0.15 s; three texts of each request."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._asking, self._number = False, 0

    @override
    def moved(self) -> None:
        self._number += 1
        self.start(self._provide(self._number))

    async def _provide(self, number: int) -> None:
        while self._asking:
            await asyncio.sleep(VSCODE_RETRY_S)
            if number != self._number:
                return
        context = self.here()
        if self._pressed is None or len(context.after) > LONGEST_REST:
            return
        self._asking = True
        try:
            found = self._remembered(context)
            came = found is None
            content = await self.content(self._asked(context)) if found is None else found
        finally:
            self._asking = False
        if not (text := displayed(context, content)):
            return
        self._known[context.key] = content
        if number != self._number:
            return
        self.show(context, content, came=came)
        if not context.after.strip() and (ahead := context.accepted(text)).key not in self._known:
            self._known[ahead.key] = (await self.content(self._asked(ahead))).rstrip("\n")

    def _remembered(self, context: PluginContext) -> str | None:
        """The known text at this place, or what is left of one from further left in the line."""
        before, after = context.key
        for back in range(len(context.middle) + 1):
            place = len(before) - back
            said = self._known.get((before[:place], after))
            if said is not None and said.startswith(before[place:]):
                return said[back:]
        return None

    @staticmethod
    def _asked(context: PluginContext) -> dict[str, Any]:
        body = _body(context) | {"n_cmpl": 3, "top_p": 0.99, "t_max_predict_ms": 500}
        return body | ({"n_indent": indent} if (indent := _indent(context.before)) else {})


PLUGINS: Mapping[str, type[PluginTypist]] = {"llama.vim": LlamaVim, "llama.vscode": LlamaVscode}


def displayed(context: PluginContext, content: str) -> str:
    lines = content.rstrip("\n").split("\n")
    if not context.before.strip():
        blank = min(len(lines[0]) - len(lines[0].lstrip()), len(context.before))
        lines[0] = lines[0][blank:]
    below = context.below
    if not "".join(lines).strip() or lines == [context.after]:
        return ""
    if lines[0] in ("", context.after) and lines[1:] == below[: len(lines) - 1]:
        return ""
    place = next((place for place, line in enumerate(below) if line.strip()), len(below))
    following = below[place + 1 :]
    if place < len(below) and context.before + lines[0] == below[place]:
        begins = len(lines) == 2 and bool(following) and following[0].startswith(lines[1])
        if len(lines) == 1 or begins or (len(lines) > 2 and lines[1:] == following[: len(lines) - 1]):
            return ""
    return lines[0].removesuffix(context.after) if context.after.strip() else "\n".join(lines)


def _body(context: PluginContext) -> dict[str, Any]:
    return {
        "id_slot": 0,
        "input_prefix": context.prefix,
        "input_suffix": context.suffix,
        "input_extra": [],
        "prompt": context.middle,
        "n_predict": 128,
        "top_k": 40,
        "samplers": ["top_k", "top_p", "infill"],
        "stream": False,
        "cache_prompt": True,
        "t_max_prompt_ms": 500,
    }


def _indent(before: str) -> int:
    return len(before) - len(before.lstrip())
