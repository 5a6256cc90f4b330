"""A document's brackets, and its text outside comments and strings; code that a string embeds counts as code."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fastcoder_lsp.syntax import CLOSER_OF, INDENTED, SCRIPT, lex

MOST_NAMES: Final = 1_000  # occurrences of a name that are looked at
MOST_BESIDE: Final = 400  # characters on each side of a name that tell what it is


class _Embedding(NamedTuple):
    """How a language's strings embed code."""

    quotes: str  # the first signs of such strings; a newline for a heredoc
    sign: re.Pattern[str] | None = None
    """Where code begins, which ends with its bracket, or a name as a group; None where signs before names tell."""
    head: re.Pattern[str] = re.compile("")  # what stands before such a string
    stop: str = ""  # a sign that ends the code, too


_WHOLE: Final = ("php", "perl", "shellscript")  # their strings are read as code, since signs tell variables
_DOLLAR: Final = re.compile(r"(?<!\\)\$(?:(\w+)|\{)")
_RUBY: Final = _Embedding('"`/%#\n', re.compile(r"(?<!\\)#\{"))
_EMBEDDINGS: Final = {
    "rust": _Embedding('"r', re.compile(r"(?<!\{)\{(\w+)(?=[:}])"), re.compile(r"\w!\s*[(\[][^;{}]*$")),
    "kotlin": _Embedding('"', _DOLLAR),
    "groovy": _Embedding('"', _DOLLAR),
    "dart": _Embedding("\"'", _DOLLAR, re.compile(r"(?<!\br)$")),
    "scala": _Embedding('"', _DOLLAR, re.compile(r"\b[a-z]\w*$")),
    "julia": _Embedding('"', re.compile(r"(?<!\\)\$(?:(\w+)|\()")),
    **dict.fromkeys(("ruby", "elixir", "crystal", "coffeescript"), _RUBY),
    "swift": _Embedding('"', re.compile(r"\\\(")),
    "csharp": _Embedding('"', re.compile(r"(?<!\{)\{(?!\{)"), re.compile(r"\$@?$|@\$$"), ":"),
    **dict.fromkeys(_WHOLE, _Embedding('"\n')),
}
_PLAIN_HEREDOC: Final = re.compile(r"<<[~-]?'")
_PERCENT: Final = re.compile(
    r"(?:(?<=[=(,\[\s])(?=%[wWiIqQ])|(?:^|(?<=[=(,\[])) *(?=%))(%)[wWiIqQ]?[\[({]", re.MULTILINE
)
_HEAD: Final = 200  # characters before a string that tell whether it embeds code
_BRACKET: Final = re.compile(r"[(\[{)\]}:]")
_FORMAT_SIGN: Final = re.compile(r"[\[({})\]:!'\"\\]")


class CodeText:
    """The brackets and strings of a document."""

    def __init__(self, text: str, language: str) -> None:
        self._text, self._language = text, language
        lexed = lex(text, language)
        self._spans = sorted(lexed.spans)
        self._match(lexed.signs)
        if language == "ruby":
            found = (one for one in _PERCENT.finditer(text) if one.end() - 1 in self._pairs)
            self._spans = sorted([*self._spans, *((one.start(1), self._pairs[one.end() - 1]) for one in found)])
        self._quoted = sorted(self._texts(self._spans))
        self._quoted_starts = [start for start, _ in self._quoted]
        if self._embedded and language not in _WHOLE:
            holes = [
                one for begin, end in self._embedded for one in _BRACKET.finditer(text, begin, end) if one[0] != ":"
            ]
            self._match(sorted([*lexed.signs, *((one.start(), one[0]) for one in holes)]))

    def _match(self, signs: Sequence[tuple[int, str]]) -> None:
        self._pairs = _pairs(signs, len(self._text))
        self._opener_of = {close: opener for opener, close in self._pairs.items()}
        self._openers = sorted(self._pairs)
        self._inside = self._enclosing()

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
        home = self._hole(at)
        while (found := wanted.search(text, at)) is not None:
            at = found.start()
            if self.quoted(at):
                at = self._quoted[bisect_right(self._quoted_starts, at) - 1][1]
            elif (hole := self._hole(at)) != home and hole is not None:
                at = hole[1]
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
        self._depth = 0  # brackets that are open in embedded code, where a string inside it seems to end its string
        last = 0
        for start, end in spans:
            if self._depth and "\n" not in self._text[last:start]:
                yield last, start
            else:
                self._depth = 0
            at, last = start, end
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
            yield from self._template(start, end)
        elif self._language == "python":
            if re.search(r"(?<!\w)[rR]?[fFtT][rR]?$", text[max(start - 3, 0) : start]) is not None:
                yield from _formatted(text, start, end)
        elif (how := _EMBEDDINGS.get(self._language)) is not None and text[start] in how.quotes:
            head = text[self.line_of(start) if text[start] == "\n" else max(start - _HEAD, 0) : start]
            if text[start] == "#" and text[start + 1 : start + 2] == "{":
                yield start + 2, end - 1
            if (text[start] == "%" and text[start + 1] in "wiq") or text[start] == "#":
                return
            plain = how.head.search(head) is None or (text[start] == "\n" and _PLAIN_HEREDOC.search(head) is not None)
            if self._depth or not plain:
                yield from [(start + 1, end)] if how.sign is None else self._codes(start + 1, end, how.sign, how.stop)

    def _template(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        text = self._text
        if text[start] == "`":
            number = bisect_right(self._openers, start)
            while number < len(self._openers) and (opener := self._openers[number]) < end:
                stop = self._pairs[opener] if text[opener - 1] == "$" else opener
                if text[opener - 1] == "$":
                    yield opener + 1, min(stop, end)
                number = bisect_right(self._openers, stop)

    def _codes(self, start: int, end: int, sign: re.Pattern[str], stop: str) -> Iterator[tuple[int, int]]:
        at = start
        while True:
            if not self._depth:
                if (found := sign.search(self._text, at, end)) is None:
                    return
                at = found.end()
                if found.lastindex:
                    yield found.span(1)
                    continue
                self._depth = 1
            begin, at = at, end
            for bracket in _BRACKET.finditer(self._text, begin, end):
                if bracket[0] == ":":
                    self._depth -= bracket[0] == stop and self._depth == 1
                else:
                    self._depth += 1 if bracket[0] in CLOSER_OF else -1
                if not self._depth:
                    at = bracket.start()
                    break
            yield begin, at
            if self._depth:
                return

    def _hole(self, at: int) -> tuple[int, int] | None:
        """The code in a string around an offset."""
        number = bisect_right(self._embedded, (at, len(self._text))) - 1
        return self._embedded[number] if number >= 0 and at < self._embedded[number][1] else None

    @property
    def _braced(self) -> bool:
        return self._language not in INDENTED


def _formatted(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The code in a Python string with places to fill."""
    at = start + (3 if text.startswith(text[start] * 3, start) else 1)
    while (found := re.compile(r"\\N\{[^}]*\}|\{\{|\{|\\[^{]").search(text, at, end)) is not None:
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
