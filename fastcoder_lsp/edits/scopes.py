"""Names in a document: which occurrences of an identifier are the same variable, without a parser.

Functions and classes are found by indentation or brackets, bindings by the signs and words around a name. Where that
reads too much as a binding, fewer places count as the same variable.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from fastcoder_lsp.syntax import CLOSER_OF, INDENTED, SCRIPT, indent, lex, width

FILE: Final = -1  # the number of the scope that holds a whole document
_MOST_NAMES: Final = 1_000  # occurrences of a name that are looked at
_MOST_BESIDE: Final = 400  # characters on each side of a name that tell what it is
_INDENTED_HEAD: Final = re.compile(
    r"^[ \t]*(?:async[ \t]+)?(?:(?P<class>class|module|struct)|def|local function|function|proc|func)\b[ \t]*[\w.]*",
    re.MULTILINE,
)
_PARAMETERS: Final = re.compile(r"[^\n(:]*(\()?")
_CLASS_HEAD: Final = re.compile(r"\b(?:class|interface|struct|enum|trait|impl|namespace)\b")
_CONTROL: Final = re.compile(
    r"\s*(?:else\s+)?(?:if|for|foreach|while|switch|select|catch|with|match|using|lock|guard|unless|synchronized)\b"
)
_AFTER_PARAMETERS: Final = re.compile(r"""\)(?!\s*(?:,|\|\||&&|\?))[^;{}()=+/"'`$]*(?:=>\s*|->[^;{}()]*)?$""")
_ARROW: Final = re.compile(r"=>\s*")
_STATEMENT: Final = re.compile(r"[;{}]")
_MEMBER: Final = re.compile(r"(?:(?<!\.)\.|->|::)\s*$")
_ASSIGNED: Final = re.compile(r"\s*(?::=|(?:[-+*/%&|^@]|//|\*\*|>>|<<|\?\?|&&|\|\|)?=(?![=>])|\+\+|--|=>)")
_ANNOTATED: Final = re.compile(r"\s*[?!]?:(?!:)")
_LISTED: Final = re.compile(r"[\w\s,.*]*:?=(?![=>])")
_DECLARING: Final = re.compile(
    r"(?:^|[\s(;{])(?:(?:for|let|const|var|val|auto|import)\b(?:(?!\s(?:in|of|from)\s)[^=;])*"
    r"|(?:def|class|function|fn|func|type|struct|enum|interface|trait)\s+\*?|lambda\b[^:=]*|catch\s*\([^)]*|as\s+)$"
)
_OUTER: Final = re.compile(r"^[ \t]*(?:global|nonlocal)\b[^\n]*$")
_TYPED: Final = re.compile(
    r"^\s*(?!(?:return|throw|delete|await|yield|else|case|goto|new|in|not|raise|del)\b)\w[^()=]*\s[*&]*$"
)


class CodeScope(NamedTuple):
    """A function or class from `start`, its parameters' bracket, to `end`; its body begins at `body`."""

    start: int
    body: int
    end: int
    is_class: bool
    parent: int  # the number of the scope around it, or `FILE`


@dataclass(frozen=True, slots=True)
class NameUse:
    """An occurrence of an identifier in code."""

    at: int
    line: int  # the offset of its line's beginning
    scope: int  # the number of the innermost scope around it, or `FILE`
    free: bool  # whether it is a member, a keyword argument or a key, which no scope binds
    bound: bool  # whether it is bound here
    outer: bool  # whether a statement says that a scope around binds it
    shorthand: bool  # whether it names a property and a variable at once


class CodeScopes:
    """The scopes of a document. Takes time linear in its length, and in the occurrences of a name."""

    def __init__(self, text: str, language: str) -> None:
        self._text, self._language = text, language
        lexed = lex(text, language)
        self.spans = sorted(lexed.spans)
        self._span_starts = [start for start, _ in self.spans]
        self._pairs = _pairs(lexed.signs, len(text))
        self._openers = sorted(self._pairs)
        self._inside = self._enclosing()
        self.scopes = self._nested()
        self._starts = [scope.start for scope in self.scopes]

    def quoted(self, at: int) -> bool:
        """Whether an offset is in a comment or in the text of a string; code that a string embeds is not."""
        number = bisect_right(self._span_starts, at) - 1
        if number < 0 or at >= self.spans[number][1]:
            return False
        start = self.spans[number][0]
        before = self._text[max(start, at - _MOST_BESIDE) : at]
        if self._text[start] == "`":
            return before.rfind("${") <= before.rfind("}")
        formatted = re.search(r"(?<!\w)\w?[fF]\w?$", self._text[max(start - 3, 0) : start]) is not None
        return not formatted or before.rfind("{") <= before.rfind("}")

    def innermost(self, at: int) -> int:
        """The number of the innermost scope around an offset."""
        number = bisect_right(self._starts, at) - 1
        while number != FILE and at >= self.scopes[number].end:
            number = self.scopes[number].parent
        return number

    def around(self, number: int) -> Iterator[int]:
        """A scope's number, and those of the scopes around it, up to `FILE`."""
        while number != FILE:
            yield number
            number = self.scopes[number].parent
        yield FILE

    def common(self, places: Sequence[int]) -> int:
        """The innermost scope around all of some offsets."""
        chains = [list(self.around(self.innermost(at)))[::-1] for at in places]
        return next((level[0] for level in list(zip(*chains, strict=False))[::-1] if len(set(level)) == 1), FILE)

    def names(self, name: str) -> list[NameUse]:
        """The occurrences of an identifier outside comments and plain strings, in order."""
        found = list[NameUse]()
        for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", self._text):
            if len(found) >= _MOST_NAMES:
                break
            if not self.quoted(match.start()):
                found.append(self._read(match.start(), match.end()))
        return found

    def owners(self, names: Sequence[NameUse]) -> list[int]:
        """For each occurrence of one variable's name the scope that binds it, or `FILE`."""
        binding = _binding(names)
        return [self.owner(one.scope, binding) for one in names]

    def owner_at(self, at: int, names: Sequence[NameUse]) -> int:
        """The scope that binds the variable at an offset, whose occurrences are `names`."""
        return self.owner(self.innermost(at), _binding(names))

    def line_of(self, at: int) -> int:
        """The offset of the beginning of a line."""
        return self._text.rfind("\n", 0, at) + 1

    def owner(self, scope: int, binding: set[int]) -> int:
        """The scope that binds a name in `scope`, where the scopes in `binding` bind it."""
        skips = self._language == "python" or self._language in SCRIPT  # no method sees the names of its class
        for number in self.around(scope):
            if number in binding and not (skips and number not in (scope, FILE) and self.scopes[number].is_class):
                return number
        return FILE

    def _read(self, at: int, end: int) -> NameUse:
        text = self._text
        line = self.line_of(at)
        before = text[max(line, at - _MOST_BESIDE) : at]
        stop = text.find("\n", end, end + _MOST_BESIDE)
        after = text[end : stop if stop >= 0 else end + _MOST_BESIDE]
        previous = text[max(at - _MOST_BESIDE, 0) : at].rstrip()[-1:]
        following = text[end : end + _MOST_BESIDE].lstrip()[:1]
        number = self.innermost(at)
        opener = self._opener(at)
        bracket = text[opener] if opener >= 0 else ""
        scope = self.scopes[number] if number != FILE else None
        in_head = scope is not None and scope.start <= at < scope.body
        assigned = _ASSIGNED.match(after) is not None
        free = _MEMBER.search(before) is not None
        parameter = (
            in_head and scope is not None and not scope.is_class and self._is_parameter(previous, following, bracket)
        )
        named = bracket == "(" and following == "=" and assigned and not in_head and self._language not in SCRIPT
        key = bracket == "{" and following == ":" and previous in "{," and self._braced
        method = (
            self._braced and following == "(" and scope is not None and scope.is_class and not before.strip(" \t*#")
        )
        free = free or (not parameter and (named or key or method))
        shorthand = (
            not free
            and self._language in SCRIPT
            and bracket == "{"
            and previous in ("{", ",")
            and following in (",", "}")
            and not (self._language.endswith("react") and previous == "{" and following == "}")
            and text[max(opener - 1, 0)] != "$"
        )
        outer = _OUTER.match(before) is not None
        bound = (
            not free
            and not outer
            and bool(
                parameter
                or (assigned and bracket != "[")
                or (
                    (not bracket or (self._braced and bracket == "{"))
                    and not before.strip()
                    and _ANNOTATED.match(after) is not None
                )
                or _DECLARING.search(before) is not None
                or (re.fullmatch(r"[\w\s,.*]*", before) is not None and _LISTED.match(after) is not None)
                or (self._braced and following in (";", ",") and _TYPED.match(before) is not None)
                or (
                    opener >= 0
                    and re.search(r"\bimport\s*(?:type\s*|\w+\s*,\s*)?$", text[max(opener - 80, 0) : opener])
                    is not None
                )
            )
        )
        if in_head and scope is not None and not parameter and self._language not in SCRIPT:
            number = scope.parent  # a default value, a type or a base
        return NameUse(at, line, number, free, bound, outer, shorthand)

    @property
    def _braced(self) -> bool:
        return self._language not in INDENTED

    def _is_parameter(self, previous: str, following: str, bracket: str) -> bool:
        if self._language in INDENTED:
            return not bracket or (bracket == "(" and previous in ("(", ",", "*"))
        return (
            previous in ("(", ",", "*", "&", "{", "[", ".") or following in (",", ")", "=", "[")
        ) or following == "="

    def _opener(self, at: int) -> int:
        """The offset of the innermost bracket that is open at an offset, or -1."""
        number = bisect_right(self._openers, at - 1) - 1
        opener = self._openers[number] if number >= 0 else -1
        for _ in range(_MOST_NAMES):
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

    def _nested(self) -> list[CodeScope]:
        found = sorted(self._indented() if not self._braced else self._bracketed(), key=lambda one: (one[0], -one[2]))
        scopes, stack = list[CodeScope](), list[int]()
        for start, body, end, is_class in found:
            while stack and scopes[stack[-1]].end <= start:
                stack.pop()
            scopes.append(CodeScope(start, body, end, is_class, stack[-1] if stack else FILE))
            stack.append(len(scopes) - 1)
        return scopes

    def _indented(self) -> Iterator[tuple[int, int, int, bool]]:
        text, open_heads = self._text, list[tuple[int, int, int, bool]]()
        heads = {match.start(): match for match in _INDENTED_HEAD.finditer(text)}
        at, skip = 0, 0  # lines before `skip` are within brackets or a string
        spans = iter([*self.spans, (len(text) + 1, len(text) + 1)])
        span = next(spans)
        while at < len(text):
            stop = text.find("\n", at)
            stop = stop if stop >= 0 else len(text)
            while span[1] <= at:
                span = next(spans)
            line = text[at:stop]
            blanks = indent(line)
            first = at + len(blanks)
            if at >= skip and line.strip() and not (span[0] <= first < span[1]) and line[len(blanks)] not in ")]}":
                column = width(blanks)
                while open_heads and open_heads[-1][0] >= column:
                    _, start, body, is_class = open_heads.pop()
                    yield start, body, at, is_class
                if (head := heads.get(at)) is not None and (after := _PARAMETERS.match(text, head.end())) is not None:
                    start = head.end()
                    body = self._pairs.get(after.start(1), after.end()) + 1
                    skip = max(skip, body)
                    open_heads.append((column, start, body, head["class"] is not None))
            at = stop + 1
        for _, start, body, is_class in open_heads:
            yield start, body, len(text), is_class

    def _bracketed(self) -> Iterator[tuple[int, int, int, bool]]:
        text = self._text
        opener_of = {close: opener for opener, close in self._pairs.items()}
        for opener in self._openers:
            if text[opener] != "{":
                continue
            head = text[max(opener - _MOST_BESIDE, 0) : opener]
            own = _STATEMENT.split(head)[-1].rstrip().rsplit("\n", 1)[-1]
            if (parameters := _AFTER_PARAMETERS.search(head)) is not None:
                close = opener - len(head) + parameters.start()
                start = opener_of.get(close, -1)
                if (more := len(text[max(start - 9, 0) : start].rstrip())) and start > 0:  # Go's results
                    start = opener_of.get(max(start - 9, 0) + more - 1, start)
                line = text[max(text.rfind("\n", 0, start), start - _MOST_BESIDE, 0) : max(start, 0)]
                if start >= 0 and not _CONTROL.match(_STATEMENT.split(line)[-1]):
                    yield start, opener, self._pairs[opener], False
            elif _CLASS_HEAD.search(own):
                yield opener, opener, self._pairs[opener], True
        if self._language in SCRIPT:
            yield from self._arrows(opener_of)

    def _arrows(self, opener_of: dict[int, int]) -> Iterator[tuple[int, int, int, bool]]:
        """Arrow functions of one parameter without brackets, or of one expression."""
        text = self._text
        for arrow in _ARROW.finditer(text):
            if self.quoted(arrow.start()):
                continue
            before = text[max(arrow.start() - _MOST_BESIDE, 0) : arrow.start()].rstrip()
            close = max(arrow.start() - _MOST_BESIDE, 0) + len(before) - 1
            word = re.search(r"\w+$", before)
            start = close + 1 - len(word[0]) if word else opener_of.get(close, -1)
            body = arrow.end()
            if start < 0 or (text[body : body + 1] == "{" and not word):
                continue
            if text[body : body + 1] == "{":
                end = self._pairs.get(body, len(text))
            else:
                around = self._opener(arrow.start())
                end = self._pairs[around] if around >= 0 else max(text.find("\n", body), body)
            yield start, arrow.start(), end, False


def _binding(names: Sequence[NameUse]) -> set[int]:
    return {one.scope for one in names if one.bound} - {one.scope for one in names if one.outer}


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
