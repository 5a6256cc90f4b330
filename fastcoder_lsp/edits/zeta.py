r"""Zed's formats Zeta 2 and 2.1: a region of some 350 tokens around the cursor is written anew.

Only the forms are taken from zed-industries/zed's crates `zeta_prompt` and `edit_prediction`. cursortab.nvim (MIT,
server/provider/zeta2) sends a variant of Zeta 2: changes as whole blocks.
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
    rewritten,
    settled,
    tokens_of,
    unified,
    unix,
    window_at,
    with_mark,
)
from fastcoder_lsp.edits.values import EditQuestion

_REGION_TOKENS, _CONTEXT_TOKENS = 350, 150
_MOST_CHANGES = 6
_MAX_TOKENS = 2048
_DIFF_CONTEXT = 3
_CURSORTAB_LINES = 15  # lines that cursortab lets Zeta 2 rewrite on each side of the cursor

_CURSOR = "<|user_cursor|>"
_SUFFIX, _PREFIX, _MIDDLE = Mark("<[fim-suffix]>"), Mark("<[fim-prefix]>"), Mark("<[fim-middle]>")
_FILE = Mark("<filename>")
_CURRENT, _DIVIDER, _UPDATED, _NONE = "<<<<<<< CURRENT\n", "=======\n", ">>>>>>> UPDATED", "NO_EDITS"


@dataclass(frozen=True, slots=True)
class Zeta2:
    """Seed-Coder's marks for filling in, with the region as one side of a merge conflict; the answer is the other."""

    name: str = "zeta-2"
    cursortab: bool = False

    def prompt(self, question: EditQuestion, limits: EditLimits, files: Sequence[Extra] = ()) -> EditPrompt | None:
        """As of `EditFormat`."""
        marks = (_CURRENT.strip(), _UPDATED, _NONE, _CURSOR)
        window = _window(question, limits, marks, _CURSORTAB_LINES if self.cursortab else None)
        if window is None:
            return None
        newline = "" if window.text.endswith("\n") else "\n"
        region = [_CURRENT, *window.with_cursor(_CURSOR), newline, _DIVIDER]
        parts = _frame(question, limits, window, region, files, cursortab=self.cursortab)
        return window.prompt(parts, f"{window.text}{newline}{_UPDATED}\n", (_UPDATED,), _MAX_TOKENS)

    def read(self, prompt: EditPrompt, answer: str, *, complete: bool = True) -> str | None:
        """As of `EditFormat`."""
        new, ended, _ = answer.partition(_UPDATED)
        if new.lstrip().startswith(_NONE):
            return None
        return settled(prompt, new.replace(_CURSOR, ""), complete=complete or bool(ended))

    def recognise(self, prompt: str) -> str | None:
        """As of `EditFormat`."""
        _, found, region = prompt.rpartition(_CURRENT)
        framed = prompt.startswith(_SUFFIX) and region.endswith(_DIVIDER + _MIDDLE)
        region = region[: -len(_DIVIDER + _MIDDLE)].replace(_CURSOR, "", 1)
        return f"{region}{_UPDATED}\n" if found and framed else None


@dataclass(frozen=True, slots=True)
class Zeta21:
    """Zeta 2 with numbered markers between blocks of the region; an answer rewrites what lies between two of them."""

    name: str = "zeta-2.1"

    def prompt(self, question: EditQuestion, limits: EditLimits, files: Sequence[Extra] = ()) -> EditPrompt | None:
        """As of `EditFormat`."""
        window = _window(question, limits, ("<|marker_", _CURSOR, _EOS))
        if window is None:
            return None
        blocks, shown, at = blocks_of(window.text), list[str](), 0
        for number, block in enumerate(blocks, 1):
            inside = at <= window.cursor < at + len(block) or (number == len(blocks) and window.cursor >= at)
            shown += [Mark(_marker(number)), *(with_mark(block, window.cursor - at, _CURSOR) if inside else [block])]
            at += len(block)
        shown += [Mark(_marker(len(blocks) + 1)), "\n"]
        parts = _frame(question, limits, window, shown, files)
        return window.prompt(parts, _marked(blocks), (_EOS,), _MAX_TOKENS)

    def read(
        self,
        prompt: EditPrompt,
        answer: str,
        *,
        complete: bool = True,  # noqa: ARG002 the interface
    ) -> str | None:
        """As of `EditFormat`. An answer without its last marker makes no edit, complete or not."""
        found = list(_MARKER.finditer(answer.replace(_CURSOR, "")))
        blocks = blocks_of(prompt.region)
        if len(found) < 2:
            return None
        first, last = int(found[0][1]), int(found[-1][1])
        if not 1 <= first < last <= len(blocks) + 1:
            return None
        between = answer.replace(_CURSOR, "")[found[0].end() : found[-1].start()]
        new, old = _MARKER.sub("", between), "".join(blocks[first - 1 : last - 1])
        if not old.startswith("\n"):
            new = new.removeprefix("\n")  # the model card shows a newline after a marker
        said = rewritten(old, new)
        if said is None:
            return None
        new = said.rstrip("\n") + old[len(old.rstrip("\n")) :] if said.strip("\n") else said
        return settled(prompt, "".join((*blocks[: first - 1], new, *blocks[last - 1 :])), complete=True)

    def recognise(self, prompt: str) -> str | None:
        """As of `EditFormat`."""
        start = prompt.find(_marker(1), prompt.rfind(_FILE))
        framed = prompt.startswith(_SUFFIX) and prompt.endswith(f"|>\n{_MIDDLE}")
        region = prompt[start : -len(f"\n{_MIDDLE}")].replace(_CURSOR, "", 1)
        return region if start >= 0 and framed else None


_EOS = "<[end▁of▁sentence]>"
_MARKER = re.compile(r"<\|marker_(\d{1,4})\|>")
_MIN_BLOCK, _MAX_BLOCK, _MOST_NUDGED = 6, 16, 5
_TAIL = re.compile(r"\s*([}\])]|(break|continue|return|throw|end);*\s*$|$)")


def blocks_of(region: str) -> list[str]:
    """Zeta 2.1's blocks of a region: after blank lines from 6 lines on, anywhere after 16 lines.

    A block begins with code, not with the end of a construct, where one of the next five lines does.
    """
    lines = region.split("\n")
    starts, at = [0], 0
    while at < len(lines):
        length = at - starts[-1]
        after_blank = length >= _MIN_BLOCK and lines[at].strip() and not lines[at - 1].strip()
        if after_blank or length >= _MAX_BLOCK:
            nearby = range(at, min(at + _MOST_NUDGED, len(lines)))
            start = next((line for line in nearby if not _TAIL.match(lines[line])), at)
            if length >= _MAX_BLOCK or len(lines) - start >= _MIN_BLOCK:
                starts.append(start)
                at = start
        at += 1
    bounds = zip(starts, [*starts[1:], len(lines)], strict=True)
    texts = ["\n".join(lines[start:end]) + "\n" for start, end in bounds]
    return [*texts[:-1], texts[-1][:-1]]


def _marker(number: int) -> str:
    return f"<|marker_{number}|>"


def _marked(blocks: Sequence[str]) -> str:
    marked = "".join(_marker(number) + block for number, block in enumerate(blocks, 1))
    return marked + _marker(len(blocks) + 1)


def _window(
    question: EditQuestion, limits: EditLimits, marks: Sequence[str], lines: int | None = None
) -> Window | None:
    lines = question.text.count("\n") if lines is None else lines
    return window_at(question, lines, min(_REGION_TOKENS, limits.region_tokens), marks, empty_end=True)


def _frame(
    question: EditQuestion,
    limits: EditLimits,
    window: Window,
    region: Sequence[str],
    files: Sequence[Extra],
    *,
    cursortab: bool = False,
) -> tuple[str, ...]:
    text = question.text
    start, end = expand(text, window.start, window.end, len(text), len(text), _CONTEXT_TOKENS, empty_end=True)
    before, after = unix(text[start : window.start]), unix(text[window.end : end])
    after = (after[1:] if cursortab else after) + ("" if after.endswith("\n") else "\n")
    below = [_SUFFIX, after, _PREFIX]
    above = [_FILE, f"{question.path}\n{before}", *region, _MIDDLE]
    room = limits.prompt_tokens - sum(map(tokens_of, (*below, *above)))
    events = newest([_event(change, cursortab) for change in question.history[-_MOST_CHANGES:]], room, tokens_of)
    room -= sum(map(tokens_of, events))
    related = newest([_related(file) for file in files], room, tokens_of)
    others = [part for file in related for part in (_FILE, file)]
    joined = ("\n" if cursortab else "").join(events)
    history = [_FILE, f"edit_history\n{joined}\n"] if events else []
    return (*below, *others, *(["\n"] if others else []), *history, *above)


def _event(change: Change, cursortab: bool) -> str:
    accepted = "// User accepted prediction:\n" if change.accepted else ""
    diff = _block(change) if cursortab else unified(change, _DIFF_CONTEXT)
    return f"{accepted}--- a/{change.path}\n+++ b/{change.path}\n{diff}"


def _block(change: Change) -> str:
    """cursortab's diff: all old lines, then all new ones, counted from 1."""
    old, new = lines_of(change.old), lines_of(change.new)
    rows = (*(f"-{line}" for line in old), *(f"+{line}" for line in new))
    return "\n".join((f"@@ -1,{len(old)} +1,{len(new)} @@", *rows)) + "\n"


def _related(file: Extra) -> str:
    text = unix(file.text)
    return f"{file.name}\n{text}" + ("" if text.endswith("\n") else "\n")
