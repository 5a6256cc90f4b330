r"""The common parts of edit models' formats: prompts with their marks, windows of a text, and rules for every answer.

A prompt keeps its marks apart from the text of files, so that such text never becomes a control token. Prompts have
`\n` line ends only; the new text of a region has those of the document.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from fastcoder_lsp.core import Change, Extra
from fastcoder_lsp.edits.minimal import line_hunks
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.tokenizer import Tokenizer

Piece = TypeVar("Piece")

BYTES_PER_TOKEN = 3  # the estimate that Zed's budgets are made with


class Mark(str):
    """A part of a prompt that is a control token where the model has one by this name."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class EditLimits:
    """Sizes of a prompt, in tokens, three bytes each."""

    prompt_tokens: int = 4096  # the whole prompt; Zed's is 4,096
    region_tokens: int = 768  # the region that may be rewritten, at most: the answer repeats it


@dataclass(frozen=True, slots=True)
class EditPrompt:
    r"""A prompt, and the parameters for reading its answer."""

    parts: tuple[str, ...]  # text and marks, in order
    region_start: int
    region_end: int
    """`region_start`, `region_end`: the characters of the question's text that the answer rewrites."""
    region: str  # their text, with `\n` line ends
    old: str  # the answer that changes nothing, without its end mark where that is a control token: the draft
    stops: tuple[str, ...]  # the answer ends before the first of these
    max_tokens: int  # of the answer
    prefill: str = ""  # the beginning of the region that already ends the prompt
    newline: str = "\n"  # the line end of the region's text in the document

    @property
    def text(self) -> str:
        """The prompt as a server's client would send it."""
        return "".join(self.parts)

    def encode(self, tokenizer: Tokenizer) -> list[int]:
        """The prompt's ids. Marks without a control token, and marks in the text of files, are text."""
        return [*tokenizer.start_ids, *encode_parts(self.parts, tokenizer)]


def encode_parts(parts: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """The ids of text and marks, without the tokenizer's start."""
    ids, text = list[int](), list[str]()
    for part in (*parts, None):
        token = tokenizer.control.get(part) if isinstance(part, Mark) else None
        if part is not None and token is None:
            text.append(part)
            continue
        ids += tokenizer.encode("".join(text))
        text.clear()
        if token is not None:
            ids.append(token)
    return ids


def encode_raw(text: str, tokenizer: Tokenizer) -> list[int]:
    """The ids of a text in which every control token's name is that token, as in prompts of other programs."""
    names = sorted((name for name in tokenizer.control if name in text), key=len, reverse=True)
    pieces = re.split(f"({'|'.join(map(re.escape, names))})", text) if names else [text]
    return encode_parts([Mark(piece) if at % 2 else piece for at, piece in enumerate(pieces)], tokenizer)


def answer_tokens(tokenizer: Tokenizer) -> tuple[Callable[[int], bytes], frozenset[int]]:
    """The bytes of an answer's tokens, and those that end it; marks that answers hold are text in every tokenizer."""
    names = {token: name.encode() for name, token in tokenizer.control.items() if _IN_ANSWERS.fullmatch(name)}
    return lambda token: names.get(token) or tokenizer.piece(token), tokenizer.end_ids - names.keys()


_IN_ANSWERS = re.compile(
    r"<\|(marker_\d+|editable_region_start|editable_region_end|user_cursor|user_cursor_is_here|cursor)\|>"
)


class EditFormat(Protocol):
    """The prompts and answers of a family of edit models, as published with it."""

    @property
    def name(self) -> str:
        """The name by which `format_named` finds it."""

    def prompt(self, question: EditQuestion, limits: EditLimits, files: Sequence[Extra] = ()) -> EditPrompt | None:
        """The prompt for a question; `files`: code of other files, the most relevant last.

        None where no region can be asked about: the cursor's line is longer than the limit, or the region contains
        one of the format's own marks, so that its answer would be ambiguous.
        """

    def read(self, prompt: EditPrompt, answer: str, *, complete: bool = True) -> str | None:
        """The region's new text, in the document's line ends; None if the answer makes no edit, or no sensible one.

        `complete`: whether the answer ended by itself or by a stop, not by `max_tokens`.
        """

    def recognise(self, prompt: str) -> str | None:
        """`EditPrompt.old` of a prompt in this format that another program built; None if it is in another one."""


@dataclass(frozen=True, slots=True)
class Window:
    r"""Lines of a document as a prompt shows them; `start`, `end`: in the document, `cursor`: in `text` (`\n` ends)."""

    start: int
    end: int
    text: str
    cursor: int
    line: int  # the number of the first line
    newline: str  # the line end in the document

    @property
    def cursor_line(self) -> int:
        """The start of the cursor's line in `text`."""
        return self.text.rfind("\n", 0, self.cursor) + 1

    def with_cursor(self, mark: str) -> list[str]:
        """The text with a mark at the cursor."""
        return with_mark(self.text, self.cursor, mark)

    def prompt(
        self, parts: Sequence[str], old: str, stops: tuple[str, ...], max_tokens: int, prefill: str = ""
    ) -> EditPrompt:
        """The prompt whose answer rewrites these lines; arguments as the fields of `EditPrompt`."""
        ends = tuple(map(str, stops))
        place = self.start, self.end, self.text
        return EditPrompt(tuple(parts), *place, old, ends, max_tokens, prefill, self.newline)


def with_mark(text: str, at: int, mark: str) -> list[str]:
    """The parts of a text with a mark in it."""
    return [text[:at], Mark(mark), text[at:]]


def window_at(
    question: EditQuestion, around: int, tokens: int, marks: Sequence[str], *, empty_end: bool = False
) -> Window | None:
    """The lines around the cursor, at most so many on each side.

    None if the cursor's line alone has more tokens, or the lines have one of the format's own `marks`.
    """
    text, offset = question.text, min(question.offset, len(question.text))
    if offset and text.startswith("\r\n", offset - 1):
        offset -= 1
    start, end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
    end = len(text) if end < 0 else end
    room = tokens - tokens_of(text[start:end])
    if room < 0:
        return None
    start, end = expand(text, start, end, around, around, room, empty_end=empty_end)
    if end > start and text.startswith("\r\n", end - 1):
        end -= 1
    inside = text[start:end]
    ends = (text[max(start - 2, 0) : start], *re.findall("\r?\n", inside), text[end : end + 2])
    newline = "\r\n" if all(one == "\r\n" for one in ends if "\n" in one) and "\r\n" in ends else "\n"
    cursor, shown = len(text[start:offset].replace(newline, "\n")), inside.replace(newline, "\n")
    if any(mark in shown for mark in marks):
        return None
    return Window(start, end, shown, cursor, text.count("\n", 0, start), newline)


def expand(
    text: str, start: int, end: int, above: int, below: int, tokens: int, *, empty_end: bool = False
) -> tuple[int, int]:
    """The range with whole lines below and above it, in turns, while those have at most `tokens`.

    `start` is the start of a line, `end` the end of one, before its line end. `empty_end`: the empty text after the
    file's last line end is a line, as it is in Zed.
    """
    end += text.startswith("\r\n", end)
    last = len(text) - (text.endswith("\n") and not empty_end)
    while above > 0 or below > 0:
        if below > 0:
            stop = text.find("\n", end + 1)
            stop = len(text) if stop < 0 else stop
            size = line_tokens(text[end + 1 : stop])
            fits = end < last and size <= tokens
            below = below - 1 if fits else 0
            end, tokens = (stop, tokens - size) if fits else (end, tokens)
        if above > 0:
            begin = text.rfind("\n", 0, start - 1) + 1 if start else 0
            size = line_tokens(text[begin : max(start - 1, 0)])
            fits = start > 0 and size <= tokens
            above = above - 1 if fits else 0
            start, tokens = (begin, tokens - size) if fits else (start, tokens)
    return start, end


def line_tokens(line: str) -> int:
    """Zed's estimate for a line."""
    return max(1, len(line.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def tokens_of(text: str) -> int:
    """An estimate of the tokens of a text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def newest(pieces: Sequence[Piece], tokens: int, size: Callable[[Piece], int]) -> tuple[Piece, ...]:
    """The last pieces that have at most `tokens` together, in their order."""
    kept = list[Piece]()
    for piece in reversed(pieces):
        tokens -= size(piece)
        if tokens < 0:
            break
        kept.append(piece)
    return tuple(reversed(kept))


def lines_of(text: str) -> list[str]:
    """The lines of a change's side, without their ends; none for an empty one."""
    return unix(text).removesuffix("\n").split("\n") if text else []


def unix(text: str) -> str:
    r"""The text with `\n` line ends; a part of a document may stop amid one."""
    return text.removesuffix("\r").replace("\r\n", "\n")


def unified(change: Change, context: int) -> str:
    """The change as one hunk of a unified diff, with at most so many lines of context around it."""
    old, new = lines_of(change.old), lines_of(change.new)
    above = lines_of(change.above)[-context:] if context else []
    below = lines_of(change.below)[:context]
    body, at = [f" {line}" for line in above], 0
    for a, b, c, d in line_hunks(old, new):
        body += [f" {line}" for line in old[at:a]]
        body += [f"-{line}" for line in old[a:b]]
        body += [f"+{line}" for line in new[c:d]]
        at = b
    body += [f" {line}" for line in (*old[at:], *below)]
    around, first = len(above) + len(below), change.line + 1 - len(above)
    head = [f"{first if count else first - 1},{count}" for count in (around + len(old), around + len(new))]
    return "\n".join((f"@@ -{head[0]} +{head[1]} @@", *body)) + "\n"


def undone(text: str, path: str, changes: Sequence[Change]) -> str:
    """A window's text before `changes`, oldest first; a change that the window does not show ends the way back."""
    for change in reversed(changes):
        if change.path != path:
            continue
        old, new = lines_of(change.old), lines_of(change.new)
        above, below = lines_of(change.above)[-1:], lines_of(change.below)[:1]
        framed = f"\n{text}\n"
        for head, tail in ((above, below), ([], [])):
            needle = "\n".join(("", *head, *new, *tail, ""))
            if (new or (head and tail)) and needle in framed:
                text = framed.replace(needle, "\n".join(("", *head, *old, *tail, "")), 1)[1:-1]
                break
        else:
            return text
    return text


_REPEATS = 3  # so many equal lines in a row are a loop of the model, if the region had none such
_MIN_ANCHORED = 10  # regions with more lines are checked for where the answer begins and how much of them it keeps
_MOST_SKIPPED, _LEAST_KEPT = 0.25, 0.75


def settled(prompt: EditPrompt, new: str, *, complete: bool) -> str | None:
    r"""The region's new text, from the text that the answer gives for it with `\n` line ends.

    None where nothing but blank ends differs, where nothing is left, for answers that are no text of the region
    (`rewritten`), and for those that cursortab drops too: they begin below the first quarter of the region, repeat a
    line three times, or were cut off before they covered three quarters of it.
    """
    region = prompt.region
    new = unix(new) if prompt.newline == "\r\n" or "\r" not in region else new
    shown = rewritten(region.removeprefix(prompt.prefill), new.removeprefix(prompt.prefill), complete=complete)
    if shown is None:
        return None
    new = (prompt.prefill if new.startswith(prompt.prefill) else "") + shown
    if not complete:
        whole = _completed(region, new)
        if whole is None:
            return None
        new = whole
    if not new.removeprefix(prompt.prefill).strip():
        return None
    new = new.rstrip("\n") + region[len(region.rstrip("\n")) :]
    if new.rstrip() == region.rstrip() or _loops(region, new) or _begins_late(prompt, new):
        return None
    return new.replace("\n", prompt.newline)


_LEAST_WORDS = 8  # of a text, from which on an answer must keep some
_LEAST_SAID = 0.5  # share of its words that it must keep
_FENCE = re.compile(r"^ {0,3}```.*\n((?:(?! {0,3}```).*\n)*) {0,3}```[ \t]*$", re.MULTILINE)
_SENTINEL = re.compile(r"\W*[A-Z]{2,}(?:[_ -][A-Z]+)+\W*")
_WRAPPER = re.compile(
    r"<{7}(?: .*)?|={7}|>{7}(?: .*)?"  # a merge conflict's marks
    r"|\s*<\|\w+\|>\s*"
    r"|\s*(?:#|//|--|;|/\*|<!--|\{/\*)?\s*(?:\.\.\.|…).*(?:\.\.\.|…|code|unchanged|remain|rest|same).*"  # others' place
    r"|[A-Z][a-z'’]*(?: [\w'’`,]+){2,}[.:!]"  # a sentence
)


def rewritten(old: str, new: str, *, complete: bool = True) -> str | None:
    """The text that an answer gives in place of `old`, out of its fence; None where it is something else.

    Models say that they change nothing, explain, mark conflicts or leave parts out in many ways. Such lines stand in no
    text that they rewrite, and such answers keep little of it.
    """
    if "```" not in old and len(fenced := _FENCE.findall(f"{new}\n")) == 1:
        new = fenced[0].removesuffix("\n")
    known = set(old.split("\n"))
    added = [line for line in new.split("\n") if line.strip() and line not in known]
    if _SENTINEL.fullmatch(new) and new.strip() not in old:
        return None
    if any(_WRAPPER.fullmatch(line) for line in added) and not any(map(_WRAPPER.fullmatch, known)):
        return None
    words, kept = Counter(_WORD.findall(old)), Counter(_WORD.findall(new))
    if complete and words.total() >= _LEAST_WORDS and (words & kept).total() < _LEAST_SAID * words.total():
        return None
    return new


_WORD = re.compile(r"\w+")


def _completed(region: str, new: str) -> str | None:
    """An answer that was cut off, followed by the region's lines after the last one that it repeats."""
    old, lines = region.split("\n"), new.split("\n")[:-1]
    if not lines or (len(old) > _MIN_ANCHORED and len(lines) < _LEAST_KEPT * len(old)):
        return None
    found = [at for at, line in enumerate(old) if line == lines[-1] and line.strip()]
    at = min(found, key=lambda at: abs(at - len(lines) + 1), default=None)
    return None if at is None else "\n".join((*lines, *old[at + 1 :]))


def _loops(region: str, new: str) -> bool:
    return _longest_run(new) >= max(_REPEATS, _longest_run(region) + 1)


def _longest_run(text: str) -> int:
    longest = run = 0
    before = ""
    for line in text.split("\n"):
        run = run + 1 if line == before and line.strip() else 1
        longest, before = max(longest, run), line
    return longest


def _begins_late(prompt: EditPrompt, new: str) -> bool:
    old = prompt.region.removeprefix(prompt.prefill).split("\n")
    first = new.removeprefix(prompt.prefill).partition("\n")[0]
    near = int(len(old) * _MOST_SKIPPED) + 1
    return len(old) > _MIN_ANCHORED and first.strip() != "" and first not in old[:near] and first in old[near:]
