"""One scan of a suggestion for brackets, strings and tags: what it closes of the document's, and what it leaves open.

The document tells which closers are due: those that it lacks, those right of the cursor, and those below. The last
ones are surplus in a suggestion, because they stand there already. Where the document does not tell, the text stays.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from fastcoder_lsp.postprocess.text_around import OPENED, SYMMETRIC, TextAround
from fastcoder_lsp.syntax import CLOSER_OF, KNOWN, SCRIPT, Lexed, Quote, indent, lexis_of

ARROW = re.compile(r"[-=]>")
_ENDS = ")]};,: \t\n"  # characters that may follow the last word of a text
_INTERPOLATION = re.compile(r"[$#]\{[^{}\n]*\}|\\\([^()\n]*\)|\\.")
_TAG = re.compile(r"<([A-Za-z][\w:.-]*)")
_PLAIN = re.compile(r"[^\W_]+|[ \t\n.=]+")  # no sign begins or ends with these


@dataclass(frozen=True, slots=True)
class Closed:
    """What a suggestion closes of the document's, each as (begin, end), and what it leaves open.

    Attributes:
        closes: in the order of what is due.
        again: how many of these are open again, as in `} else {`.
        own: (offset, closer) of what it leaves open itself, outermost first; it begins with those open again.
    """

    closes: list[tuple[int, int]]
    again: int
    own: list[tuple[int, str]]


class _BracketScan:
    """The state of `scan`."""

    def __init__(self, text: str, around: TextAround, due: list[str]) -> None:
        self._text, self._due = text, due
        self._strings, self._quote = _strings(text, around)
        self._pairs = {**CLOSER_OF, "<": ">"} if ">" in due else CLOSER_OF
        self._closes, self._own = list[tuple[int, int]](), list[tuple[int, str]]()
        self._quotes = SYMMETRIC | {around.head.quote} - {""}
        self._again = 0
        self._filled = False  # whether it fills an empty pair of brackets right of the cursor

    def scan(self) -> Closed:
        text, at = self._text, 0
        begins = [*sorted(self._strings), len(text)]
        while at < len(text):
            plain = _PLAIN.match(text, at, begins[bisect_left(begins, at)])
            at = plain.end() if plain is not None else self._next(at)
        return Closed(self._closes, self._again, self._own)

    def _next(self, at: int) -> int:
        """Handle the sign at `at`; returns where the scan goes on."""
        text = self._text
        wanted = self._due[len(self._closes)] if len(self._closes) < len(self._due) and not self._own else ""
        if wanted and text.startswith(wanted, at) and not ARROW.match(text, at - 1, at + 1):
            self._closes.append((at, at + len(wanted)))
            return at + len(wanted)
        if wanted in self._quotes:
            found = _INTERPOLATION.match(text, at)
            return found.end() if found else at + 1
        if at not in self._strings:
            return self._bracket(at, wanted)
        if self._quote and self._strings[at] == len(text):
            self._open(at, self._quote)
        return self._strings[at]

    def _bracket(self, at: int, wanted: str) -> int:
        text, sign, own = self._text, self._text[at], self._own
        tag = _TAG.match(text, at)
        inner = f"</{tag[1]}>" if tag else next((end for end in OPENED if text.startswith(OPENED[end], at)), "")
        closer = next((end for _, end in own if len(end) > 1 and text.startswith(end, at)), sign)
        if inner in self._due:
            self._open(at, inner)
        elif closer == sign and sign in self._pairs and (sign != "<" or text[at + 1 : at + 2].strip("=")):
            if not own:
                self._filled = wanted == sign + self._pairs[sign] and any(end == at for _, end in self._closes[-1:])
            self._open(at, self._pairs[sign])
        elif any(closer == end for _, end in own) and not ARROW.match(text, at - 1, at + 1):
            last = max(number for number, (_, end) in enumerate(own) if end == closer)
            self._again = min(self._again, last)
            del own[last:]
            if self._filled and not own:
                self._closes.append((at, at + 1))
            return at + len(closer)
        return at + 1

    def _open(self, at: int, closer: str) -> None:
        closed = len(self._closes) - self._again
        if self._again == len(self._own) and closed and self._due[closed - 1] == closer:
            self._again += 1
        self._own.append((at, closer))


def scan(text: str, around: TextAround, due: list[str]) -> Closed:
    """The brackets, strings and tags of `text` at the cursor, where the closers `due` close what is open."""
    return _BracketScan(text, around, due).scan()


def right_closers(text: str, around: TextAround) -> tuple[list[tuple[int, int]], int]:
    """Where `text` closes what the closers right of the cursor close, and how many of these it has no more need of."""
    signs = around.closers.signs
    found = scan(text, around, around.unclosed + signs)
    closes = found.closes[len(around.unclosed) :]
    own = [closer for _, closer in reversed(found.own)]
    needed = [sum(accumulate(map(str.__eq__, own, signs[count:]), min)) for count in range(len(closes), -1, -1)]
    return closes, len(closes) - needed.index(max(needed))


def _strings(text: str, around: TextAround) -> tuple[dict[int, int], str]:
    """The ends of the strings and comments in `text`, by their beginnings, and the quote of one that stays open."""
    if around.in_prose:
        return {}, ""
    start, lexed = len(around.near_before), around.lexed_with(text)
    return {begin - start: end - start for begin, end in lexed.spans if begin >= start}, lexed.quote


def balance(text: str, around: TextAround) -> str:
    """`text`, cut before a surplus closer, and with closers added for its brackets that nothing below closes."""
    if around.language not in KNOWN:
        return text
    if (end := _ends_string(text, around)) is not None:
        return text[:end].rstrip()
    lexed = around.lexed_with(text)
    open_string = lexed.quote and not _ends_here(lexed.quote, around)
    if goes_on(lexed, around) or lexed.in_template or around.head.in_template or open_string:
        return text
    start = len(around.near_before)
    impossible = next((at - start for at, _ in lexed.closers if at >= start), None)
    if impossible is not None and around.whole_before:
        return text[:impossible]
    if impossible is not None or not around.is_balanced:
        return text
    found, lacking = scan(text, around, around.opened), len(around.unclosed)
    right = sum(sign in around.opened for sign in around.closers.signs) if around.closing else 0
    stand, closed = lacking + max(right - around.spare, 0), len(found.closes) - found.again
    if closed > stand:
        return text[: found.closes[stand][0]]
    return text + _closed(text, found.own[around.spare + found.again - max(lacking - closed, 0) :][::-1], around)


def _ends_string(text: str, around: TextAround) -> int | None:
    """Where `text` ends the string of several lines at the cursor, which the document ends below."""
    quote, whole = around.head.quote, around.whole_before and around.whole_after
    if len(quote) < 2 or quote not in text or quote in around.closers.signs or not whole:
        return None
    surplus = around.leaves_string_open(text) and not around.leaves_string_open("")
    return text.index(quote) if surplus else None


def last_closers(text: str, around: TextAround) -> list[int]:
    """Offsets of the closers at the end of `text` that close brackets opened left of the cursor."""
    end = len(text.rstrip(_ENDS))
    if around.language not in KNOWN or end == len(text):
        return []
    return [at for at, _ in scan(text, around, around.opened).closes if at >= end]


def goes_on(lexed: Lexed, around: TextAround) -> bool:
    """Whether the text after the suggestion, whose end is `lexed`, is in a comment."""
    return bool(lexed.comment) and (lexed.comment != "\n" or bool(around.right.strip()))


def _ends_here(quote: str, around: TextAround) -> bool:
    """Whether the string open after the suggestion must end with its line, and nothing else ends it."""
    if around.right.strip() or around.head.quote or (quote == "'" and around.language in SCRIPT):
        return False
    return lexis_of(around.language).quotes.get(quote) is Quote.LINE


def _closed(text: str, own: list[tuple[int, str]], around: TextAround) -> str:
    """The closers `own` after `text`: on its last line, or each on its own line, as it was opened."""
    whole, added, last = around.near_before + text, "", -1
    for at, closer in own:
        start = whole.rfind("\n", 0, len(around.near_before) + at) + 1
        line = whole[start:].partition("\n")[0]
        below = start + len(line) < len(whole) and start != last
        added += (f"\n{indent(line)}" if below else "") + closer
        last = start
    return added
