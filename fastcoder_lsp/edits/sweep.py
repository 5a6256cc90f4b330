r"""Sweep's formats: the window before the last changes, as it is, and as the model updates it; and our order of them.

Sources: the scripts published with sweepai/sweep-next-edit-0.5B and -1.5B, Apache-2.0; cursortab.nvim's
server/provider/sweep, MIT.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fastcoder_lsp.core import Change, Extra
from fastcoder_lsp.edits.prompts import (
    EditLimits,
    EditPrompt,
    Mark,
    Window,
    expand,
    lines_of,
    newest,
    settled,
    tokens_of,
    undone,
    unix,
    window_at,
)
from fastcoder_lsp.edits.values import EditQuestion

_FILE, _CURSOR = Mark("<|file_sep|>"), "<|cursor|>"
_ENDS = (_FILE, "<|endoftext|>", "</s>")
_MARKS = (*_ENDS, _CURSOR)
_AROUND = 10  # lines of the window on each side of the cursor
_FILE_LINES = 150  # lines of the file on each side of the window, before the changes
_RANGE = re.compile(r":\d+:\d+$")


@dataclass(frozen=True, slots=True)
class SweepV1:
    """The format of the 0.5B and 1.5B, which Zed sends too. The window has no cursor, and the answer begins it."""

    name: str = "sweep-v1"

    def prompt(self, question: EditQuestion, limits: EditLimits, files: Sequence[Extra] = ()) -> EditPrompt | None:
        """As of `EditFormat`."""
        window = window_at(question, _AROUND, limits.region_tokens, _MARKS)
        if window is None:
            return None
        path, last = question.path, question.history[-1:]
        shown = [
            *(_FILE, f"original/{path}\n{undone(window.text, path, last)}\n"),
            *(_FILE, f"current/{path}\n{window.text}\n"),
            *(_FILE, f"updated/{path}"),
        ]
        room = limits.prompt_tokens - sum(map(tokens_of, shown))
        changes = newest([_change(change) for change in question.history], room, _size)
        room -= sum(map(_size, changes))
        others = newest([_other(file) for file in files], room, _size)
        parts = (*(part for piece in (*others, *changes) for part in piece), *shown)
        return window.prompt(parts, f"\n{window.text}\n", (_FILE, "</s>"), 512)

    def read(self, prompt: EditPrompt, answer: str, *, complete: bool = True) -> str | None:
        """As of `EditFormat`."""
        return settled(prompt, _ended(answer).removeprefix("\n"), complete=complete)

    def answer(self, new: str) -> tuple[str, ...]:
        r"""The answer that gives a region a new text with `\n` line ends, for training."""
        return f"\n{new}\n", _FILE

    def recognise(self, prompt: str) -> str | None:
        """As of `EditFormat`."""
        found = _sections(prompt)
        if found is None or _RANGE.search(found.head):
            return None
        return f"{found.window}\n" if found.updated else f"\n{found.window}\n"


@dataclass(frozen=True, slots=True)
class FastcoderV1(SweepV1):
    """Version 1 in our order, for models of our own: the stable parts come first, and nothing comes twice.

    Earlier changes, the window, the last change, and the answer. A key changes the prompt from the cursor on, where
    Sweep's order changes both of its windows. The last change says what the window was before it.
    """

    name: str = "fastcoder-v1"

    def prompt(self, question: EditQuestion, limits: EditLimits, files: Sequence[Extra] = ()) -> EditPrompt | None:
        """As of `EditFormat`."""
        window = window_at(question, _AROUND, limits.region_tokens, _MARKS)
        if window is None:
            return None
        current = (_FILE, f"current/{question.path}\n{window.text}\n")
        updated = (_FILE, f"updated/{question.path}")
        room = limits.prompt_tokens - _size((*current, *updated))
        changes = newest([_change(change) for change in question.history], room, _size)
        room -= sum(map(_size, changes))
        others = newest([_other(file) for file in files], room, _size)
        pieces = (*others, *changes[:-1], current, *changes[-1:], updated)
        parts = tuple(part for piece in pieces for part in piece)
        return window.prompt(parts, f"\n{window.text}\n", (_FILE, "</s>"), 512)


@dataclass(frozen=True, slots=True)
class SweepCursortab:
    """The form that cursortab.nvim sends to every Sweep model: windows with line numbers, changes as in version 1.

    Its window before the changes equals the current one, and is as large as the region may be. The prompt ends with the
    region's lines above the cursor's.
    """

    name: str = "sweep-cursortab"

    def prompt(self, question: EditQuestion, limits: EditLimits, files: Sequence[Extra] = ()) -> EditPrompt | None:
        """As of `EditFormat`."""
        window = window_at(question, question.text.count("\n"), limits.region_tokens, _MARKS)
        if window is None:
            return None
        prefill = window.text[: window.cursor_line]
        shown = _windows(question.path, window, window.text, prefill)
        room = limits.prompt_tokens - sum(map(tokens_of, shown))
        changes = newest([_change(change) for change in question.history], room, _size)
        room -= sum(map(_size, changes))
        whole, room = _file(question, window, room)
        retrieved = newest([_other(file) for file in files], room, _size)
        others = [_FILE, "context/retrieval\n", *(part for piece in retrieved for part in piece)] if retrieved else []
        parts = (*whole, *others, *(part for piece in changes for part in piece), *shown)
        return window.prompt(parts, _rest(window, prefill), (_FILE, "<|endoftext|>"), 1024, prefill)

    def read(self, prompt: EditPrompt, answer: str, *, complete: bool = True) -> str | None:
        """As of `EditFormat`."""
        return settled(prompt, prompt.prefill + _ended(answer), complete=complete)

    def recognise(self, prompt: str) -> str | None:
        """As of `EditFormat`."""
        found = _sections(prompt)
        return found.rest() if found and _RANGE.search(found.head) else None


def _size(parts: Sequence[str]) -> int:
    return sum(map(tokens_of, parts))


def _other(file: Extra) -> tuple[str, str]:
    return _FILE, f"{file.name}\n{unix(file.text)}\n"


def _change(change: Change) -> tuple[str, str]:
    old, new = "\n".join(lines_of(change.old)), "\n".join(lines_of(change.new))
    return _FILE, f"{change.path}.diff\noriginal:\n{old}\nupdated:\n{new}\n"


def _file(question: EditQuestion, window: Window, room: int) -> tuple[list[str], int]:
    """The file around the window, if there is room for it, and the room that is left."""
    text = question.text
    start, end = expand(text, window.start, window.end, _FILE_LINES, _FILE_LINES, room - tokens_of(window.text))
    shown = unix(text[start:end])
    used = tokens_of(shown)
    return ([_FILE, f"{question.path}\n{shown}\n"], room - used) if used <= room else ([], room)


def _windows(path: str, window: Window, original: str, prefill: str) -> list[str]:
    lines = f"{path}:{window.line + 1}:{window.line + 1 + window.text.count(chr(10))}"
    return [
        *(_FILE, f"original/{lines}\n{original}\n"),
        *(_FILE, f"current/{lines}\n", *window.with_cursor(_CURSOR), "\n"),
        *(_FILE, f"updated/{lines}\n{prefill}"),
    ]


def _rest(window: Window, prefill: str) -> str:
    return window.text[len(prefill) :] + "\n"


def _ended(answer: str) -> str:
    for mark in _ENDS:
        answer = answer.partition(mark)[0]
    return answer.replace(_CURSOR, "")


@dataclass(frozen=True, slots=True)
class _Sections:
    """The last sections of a prompt: the path in their heads, the current window, and what follows the last head."""

    head: str
    window: str
    updated: str
    prefill: str

    def rest(self) -> str:
        return self.window.removeprefix(self.prefill) + "\n"


def _sections(prompt: str) -> _Sections | None:
    last = prompt.rfind(_FILE + "updated/")
    current = prompt.rfind(_FILE + "current/", 0, max(last, 0))
    if current < 0:
        return None
    head, updated, prefill = prompt[last + len(_FILE + "updated/") :].partition("\n")
    path, _, window = prompt[current + len(_FILE + "current/") : last].partition("\n")
    if path != head or _FILE in prefill:
        return None
    window = window.partition(_FILE)[0].removesuffix("\n").replace(_CURSOR, "", 1)
    return _Sections(head, window, updated, prefill)
