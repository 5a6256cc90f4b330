"""A document's brackets, and its text outside comments and strings; code that a string embeds counts as code."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from fastcoder_lsp.syntax import CLOSER_OF, INDENTED, SCRIPT, lex

MOST_NAMES: Final = 1_000  # occurrences of a name that are looked at
MOST_BESIDE: Final = 400  # characters on each side of a name that tell what it is
_MACRO: Final = re.compile(r"\w!\s*[(\[][^;{}]*$")
_EMBEDDED: Final = {
    "rust": re.compile(r"(?<!\{)\{(\w+)(?=[:}])"),
    **dict.fromkeys(
        ("kotlin", "dart", "groovy", "php", "scala", "shellscript", "perl", "julia"),
        re.compile(r"(?<!\\)\$\{?(\w[^{}\"$]*)"),
    ),
    **dict.fromkeys(("ruby", "elixir", "crystal", "coffeescript"), re.compile(r"(?<!\\)#\{([^{}]*)\}")),
    "swift": re.compile(r"\\\(([^()]*)\)"),
    "csharp": re.compile(r"(?<!\{)\{(\w[^{}:\"]*)"),
}
_FORMAT_SIGN: Final = re.compile(r"[\[({})\]:!'\"\\]")


class CodeText:
    """The brackets and strings of a document."""

    def __init__(self, text: str, language: str) -> None:
        self._text, self._language = text, language
        lexed = lex(text, language)
        self._pairs = _pairs(lexed.signs, len(text))
        self._opener_of = {close: opener for opener, close in self._pairs.items()}
        self._openers = sorted(self._pairs)
        self._inside = self._enclosing()
        self._spans = sorted(lexed.spans)
        self._quoted = sorted(self._texts(self._spans))
        self._quoted_starts = [start for start, _ in self._quoted]

    def quoted(self, at: int) -> bool:
        """Whether an offset is in a comment or in the text of a string; code that a string embeds is not."""
        number = bisect_right(self._quoted_starts, at) - 1
        return number >= 0 and at < self._quoted[number][1]

    def line_of(self, at: int) -> int:
        """The offset of the beginning of a line."""
        return self._text.rfind("\n", 0, at) + 1

    def _opener(self, at: int) -> int:
        """The offset of the innermost bracket that is open at an offset, or -1."""
        number = bisect_right(self._openers, at - 1) - 1
        opener = self._openers[number] if number >= 0 else -1
        for _ in range(MOST_NAMES):
            if opener < 0 or self._pairs[opener] >= at:
                return opener
            opener = self._inside[opener]
        return -1

    def _enclosing(self) -> dict[int, int]:
        """Opening bracket → the bracket around it, or -1."""
        inside, stack = dict[int, int](), list[int]()
        for opener in self._openers:
            while stack and self._pairs[stack[-1]] < opener:
                stack.pop()
            inside[opener] = stack[-1] if stack else -1
            stack.append(opener)
        return inside

    def _after(self, at: int, signs: str) -> int:
        """The place of the first of some signs after `at` outside further brackets, or of what closes its own."""
        text, wanted = self._text, re.compile(f"[([{{)\\]}}{re.escape(signs)}]")
        while (found := wanted.search(text, at)) is not None:
            at = found.start()
            if self.quoted(at):
                at = self._quoted[bisect_right(self._quoted_starts, at) - 1][1]
            elif (found[0] in signs and (found[0] != "\n" or self._opener(at) < 0)) or found[0] in ")]}":
                return at
            elif found[0] in CLOSER_OF:
                at = self._pairs.get(at, at) + 1
            else:
                at += 1
        return len(text)

    def _texts(self, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """The parts of comments and strings that are no code."""
        self._embedded = list[tuple[int, int]]()
        for start, end in spans:
            at = start
            for begin, stop in self._holes(start, end):
                if self._language not in SCRIPT:
                    self._embedded.append((begin, stop))
                if at < begin:
                    yield at, begin
                at = stop
            if at < end:
                yield at, end

    def _holes(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The code in a string."""
        text = self._text
        if self._language in SCRIPT:
            if text[start] == "`":
                number = bisect_right(self._openers, start)
                while number < len(self._openers) and (opener := self._openers[number]) < end:
                    stop = self._pairs[opener] if text[opener - 1] == "$" else opener
                    if text[opener - 1] == "$":
                        yield opener + 1, min(stop, end)
                    number = bisect_right(self._openers, stop)
        elif self._language == "python":
            if re.search(r"(?<!\w)[rR]?[fFtT][rR]?$", text[max(start - 3, 0) : start]) is not None:
                yield from _formatted(text, start, end)
        elif self._language == "rust" and not _MACRO.search(text[max(start - 200, 0) : start]):
            return
        elif (embedded := _EMBEDDED.get(self._language)) is not None and text[start] in '"`r':
            yield from (found.span(1) for found in embedded.finditer(text, start, end))

    def _in_string(self, at: int) -> bool:
        number = bisect_right(self._embedded, (at, len(self._text))) - 1
        return number >= 0 and at < self._embedded[number][1]

    @property
    def _braced(self) -> bool:
        return self._language not in INDENTED


def _formatted(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The code in a Python string with places to fill."""
    at = start + (3 if text.startswith(text[start] * 3, start) else 1)
    while (found := re.compile(r"\\N\{[^}]*\}|\{\{|\{|\\.").search(text, at, end)) is not None:
        at = found.end()
        if found[0] != "{":
            continue
        depth, begin = 0, at
        while (sign := _FORMAT_SIGN.search(text, at, end)) is not None:
            at = sign.end()
            if sign[0] in "'\"":
                stop = text.find(sign[0], at, end)
                yield begin, sign.start()
                at = begin = stop + 1 if stop >= 0 else end
            elif sign[0] in CLOSER_OF:
                depth += 1
            elif depth and sign[0] in ")]}":
                depth -= 1
            elif not depth and (sign[0] in "}:" or (sign[0] == "!" and not text.startswith("=", at))):
                yield begin, sign.start()
                break
        else:
            return


def _pairs(signs: Sequence[tuple[int, str]], end: int) -> dict[int, int]:
    """Opening bracket → its closing one, or the text's end."""
    pairs, stack = dict[int, int](), list[tuple[int, str]]()
    for at, sign in signs:
        if sign in CLOSER_OF:
            stack.append((at, sign))
            pairs[at] = end
        elif stack and CLOSER_OF[stack[-1][1]] == sign:
            pairs[stack.pop()[0]] = at
    return pairs
