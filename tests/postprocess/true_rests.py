"""Places in real files, each with the text that truly stands there: what post-processing has to leave as it is.

A place is a cursor in a file out of which a piece was taken, as if it had not been typed yet. Owns how cursors and
pieces are chosen; knows no rule of what is shown.
"""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

CLOSER_OF = {"(": ")", "[": "]", "{": "}"}
TOKENS = 128
_TOKEN = re.compile(r"\w{1,6}|[^\w\s]|\n[ \t]*|[ \t]+")
_WORD_END = re.compile(r"(?<=\w)(?=\W)|(?<=\W)(?=\w)")
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'" + r"|[()\[\]{}]")
_LONGEST_LINE = 1000
_BLOCK_LINES = 24
_PARAGRAPH_LINES = 8


@dataclass(frozen=True, slots=True)
class TrueRest:
    """`truth` stands between `before` and `after` in `name`.

    `cursor`: where the cursor is; `extent`: what `truth` is; `typed`: the editor's own closers that `after` begins with
    and that the true text does not have.
    """

    name: str
    language: str
    cursor: str
    extent: str
    before: str
    truth: str
    after: str
    typed: str = ""

    @property
    def document(self) -> str:
        """The file as it is."""
        return self.before + self.truth + self.after[len(self.typed) :]


def places(name: str, text: str, language: str, count: int, seed: int = 0) -> Iterator[TrueRest]:
    """About `count` places of each kind of cursor in the file `name`, always the same ones."""
    chance = random.Random(f"{seed} {name}")
    text = text.replace("\r\n", "\n").replace("\r", "\n").rstrip() + "\n"
    starts = [match.start() for match in re.finditer(r"^(?=.*\S)", text, re.MULTILINE)]
    if len(starts) < 2:
        return
    for cursor, choose in _CURSORS.items():
        for _ in range(count):
            start = chance.choice(starts)
            end = text.find("\n", start)
            if end - start <= _LONGEST_LINE and (at := choose(chance, text, start, end)) is not None:
                yield from _at(name, language, cursor, text, at)


def _at(name: str, language: str, cursor: str, text: str, at: int) -> Iterator[TrueRest]:
    """The pieces that may follow a cursor at `at`."""
    if cursor == "typed closer":
        yield from _before_typed(name, language, text, at)
        return
    if cursor == "text right":
        end = text.find("\n", at)
        stop = _closed(text, at - 1, end)
        if stop is not None and text[stop + 1 : end].strip():
            yield TrueRest(name, language, cursor, "rest of line", text[:at], text[at:stop], text[stop:])
        return
    extents = {"rest of line": text.find("\n", at), "block": _block(text, at), "128 tokens": _tokens(text, at)}
    extents["whole lines"] = max(extents["rest of line"], text.rfind("\n", at, extents["128 tokens"]))
    for extent, cut in extents.items():
        end = at + len(text[at:cut].rstrip())
        if text[at:end].strip():
            yield TrueRest(name, language, cursor, extent, text[:at], text[at:end], text[end:])


def _before_typed(name: str, language: str, text: str, at: int) -> Iterator[TrueRest]:
    """The editor closed what the character before the cursor opened: up to the true closer, and beyond it."""
    opener = text[at - 1]
    closer = CLOSER_OF.get(opener, opener)
    end = text.find("\n", at)
    stop = text.find(opener, at, end) if opener in "\"'" else _closed(text, at - 1, len(text))
    if stop is None or stop < at:
        return
    line_end = text.find("\n", stop)
    cursor = "typed closer"
    if text[at:stop].strip():
        yield TrueRest(name, language, cursor, "up to it", text[:at], text[at:stop], text[stop:])
    rest = "rest of line" if line_end == end else "block"
    yield TrueRest(name, language, cursor, rest, text[:at], text[at:line_end], closer + text[line_end:], closer)


def _block(text: str, at: int) -> int:
    """Where the block ends that the line of `at` opens, its closing line with it, or else the paragraph."""
    end = text.find("\n", at)
    own = _columns(text[text.rfind("\n", 0, at) + 1 : end])
    lines = text[end + 1 :].split("\n", 400)[:400]
    inner = next((line for line in lines if line.strip()), "")
    opens = _columns(inner) > own
    taken = length = 0
    for number, line in enumerate(lines):
        if (opens and number >= _BLOCK_LINES * 4) or (not opens and number >= _PARAGRAPH_LINES):
            break
        inside = _columns(line) > own if opens else _columns(line) >= own
        if not line.strip():
            if not opens:
                break
        elif not inside:
            if line.strip()[0] in ")]}" and _columns(line) == own:
                taken = length + len(line) + 1
            break
        length += len(line) + 1
        taken = length if line.strip() else taken
    return end + taken


def _tokens(text: str, at: int) -> int:
    """Where 128 tokens end, about as a tokenizer for code would cut them."""
    end = at
    for count, match in enumerate(_TOKEN.finditer(text, at)):
        if count >= TOKENS:
            break
        end = match.end()
    return end


def _closed(text: str, opener: int, end: int) -> int | None:
    """Where the bracket at `opener` is closed before `end`; strings of one line are passed over."""
    depth: list[str] = []
    for match in _STRING.finditer(text, opener, min(end, opener + 4000)):
        sign = match[0]
        if sign in CLOSER_OF:
            depth.append(CLOSER_OF[sign])
        elif sign in ")]}":
            if not depth or depth.pop() != sign:
                return None
            if not depth:
                return match.start()
    return None


def _columns(line: str) -> int:
    return len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())


def _line_start(chance: random.Random, text: str, start: int, end: int) -> int | None:
    return start


def _indented(chance: random.Random, text: str, start: int, end: int) -> int | None:
    return end - len(text[start:end].lstrip())


def _in_line(chance: random.Random, text: str, start: int, end: int) -> int | None:
    ends = [start + match.start() for match in _WORD_END.finditer(text[start:end])]
    return chance.choice(ends) if ends else None


def _line_end(chance: random.Random, text: str, start: int, end: int) -> int | None:
    return end


def _in_bracket(chance: random.Random, text: str, start: int, end: int) -> int | None:
    """After a bracket that the line closes."""
    found = [at + 1 for at in range(start, end) if text[at] in CLOSER_OF and _closed(text, at, end) is not None]
    return chance.choice(found) if found else None


def _behind_opener(chance: random.Random, text: str, start: int, end: int) -> int | None:
    """After a bracket or a quote that an editor would close at once."""
    opening = (at for at in range(start, end) if text[at] in '([{"')
    found = [
        at + 1 for at in opening if text[at] != '"' or (text.count('"', start, at) % 2 == 0 and text[at + 1] != '"')
    ]
    return chance.choice(found) if found else None


_CURSORS: dict[str, Callable[[random.Random, str, int, int], int | None]] = {
    "line start": _line_start,
    "indented": _indented,
    "in line": _in_line,
    "line end": _line_end,
    "in bracket": _in_bracket,
    "typed closer": _behind_opener,
    "text right": _in_bracket,
}
