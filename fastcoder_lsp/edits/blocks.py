"""The functions, classes and blocks of a document, found by indentation, words or brackets."""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from fastcoder_lsp.edits.code_text import MOST_BESIDE, CodeText
from fastcoder_lsp.syntax import SCRIPT, indent, width

FILE: Final = -1  # the number of the scope that holds a whole document
_INDENTED_HEAD: Final = re.compile(
    r"^[ \t]*(?:async[ \t]+)?(?:(?P<class>class|module|struct)|def|local function|function|proc|func)\b[ \t]*[\w.]*",
    re.MULTILINE,
)
_PARAMETERS: Final = re.compile(r"[^\n(:]*(\()?")
_LAMBDA: Final = re.compile(r"\blambda\b")
_CLASS_HEAD: Final = re.compile(r"\b(?:class|interface|struct|enum|trait|impl|namespace|union|record|object)\b")
_CONTROL_WORD: Final = (
    "if|for|foreach|while|switch|select|catch|with|match|using|lock|guard|unless|synchronized|try|else|do|loop|unsafe"
    "|finally|when"
)
_CONTROL: Final = re.compile(rf"\s*(?:else\s+)?(?:{_CONTROL_WORD})\b")
_CONTROLS: Final = re.compile(rf"(?<![\w.])(?:{_CONTROL_WORD})\b")
_AFTER_PARAMETERS: Final = re.compile(r"""\)(?!\s*(?:,|\|\||&&|\?))[^;{}()=+/"'`$]*(?:=>\s*|->[^;{}()]*)?$""")
_ARROW: Final = re.compile(r"=>\s*|->\s*")
_LOOP: Final = re.compile(r"\b(?:for|foreach)\s*\(")
_CLOSURE: Final = re.compile(r"(?<=[(,={\s])(?:move\s*)?\|(?!\|)([^|{};]*)\|")
_ELSE: Final = re.compile(r"\}\s*else\b[^{}\n]*\{")
_FORS: Final = re.compile(r"\bfor\b")
STATEMENT: Final = re.compile(r"[;{}]")


class ScopeKind(Enum):
    """The owner of a scope's names."""

    FUNCTION = "function"
    CLASS = "class"
    BLOCK = "block, lambda or comprehension"


class CodeScope(NamedTuple):
    """A function, class or block from `start`, where its head begins, to `end`; its body begins at `body`."""

    start: int
    body: int
    end: int
    kind: ScopeKind
    parent: int  # the number of the scope around it, or `FILE`

    @property
    def is_class(self) -> bool:
        """Whether it is a class."""
        return self.kind is ScopeKind.CLASS


_Found = tuple[int, int, int, ScopeKind]


class CodeBlocks(CodeText):
    """The scopes of a document. Takes time linear in its length."""

    def __init__(self, text: str, language: str) -> None:
        super().__init__(text, language)
        self.scopes = self._nested(self._spans)

    def _nested(self, spans: Sequence[tuple[int, int]]) -> list[CodeScope]:
        self._bodies = set[int]()  # brackets that hold statements, no values
        found = self._braces() if self._braced else [*self._indented(spans), *self._inline()]
        found.sort(key=lambda one: (one[0], -one[2]))
        scopes, stack = list[CodeScope](), list[int]()
        for start, body, end, kind in found:
            while stack and scopes[stack[-1]].end <= start:
                stack.pop()
            scopes.append(CodeScope(start, body, end, kind, stack[-1] if stack else FILE))
            stack.append(len(scopes) - 1)
        return scopes

    def _indented(self, spans: Sequence[tuple[int, int]]) -> Iterator["_Found"]:
        text, open_heads = self._text, list[tuple[int, int, int, ScopeKind]]()
        heads = {match.start(): match for match in _INDENTED_HEAD.finditer(text)}
        at, skip = 0, 0  # lines before `skip` are within brackets or a string
        ends = iter([*spans, (len(text) + 1, len(text) + 1)])
        span = next(ends)
        while at < len(text):
            stop = text.find("\n", at)
            stop = stop if stop >= 0 else len(text)
            while span[1] <= at:
                span = next(ends)
            line = text[at:stop]
            blanks = indent(line)
            first = at + len(blanks)
            if at >= skip and line.strip() and not (span[0] <= first < span[1]) and line[len(blanks)] not in ")]}":
                column = width(blanks)
                while open_heads and open_heads[-1][0] >= column:
                    _, start, body, kind = open_heads.pop()
                    yield start, body, at, kind
                if (head := heads.get(at)) is not None and (after := _PARAMETERS.match(text, head.end())) is not None:
                    start = after.start(1) if after[1] else head.end()
                    body = self._pairs.get(after.start(1), after.end()) + 1
                    skip = max(skip, body)
                    kind = ScopeKind.CLASS if head["class"] is not None else ScopeKind.FUNCTION
                    open_heads.append((column, start, body, kind))
            at = stop + 1
        for _, start, body, kind in open_heads:
            yield start, body, len(text), kind

    def _inline(self) -> Iterator["_Found"]:
        """Python's lambdas and comprehensions."""
        if self._language != "python":
            return
        text = self._text
        for found in _LAMBDA.finditer(text):
            colon = self._after(found.end(), ":")
            if not self.quoted(found.start()) and colon < len(text):
                yield found.start(), colon, self._after(colon + 1, ",)]}\n"), ScopeKind.BLOCK
        inside = {self._opener(found.start()) for found in _FORS.finditer(text) if not self.quoted(found.start())}
        for opener in inside - {-1}:
            yield opener, opener, self._pairs[opener], ScopeKind.BLOCK

    def _braces(self) -> list["_Found"]:
        text, found = self._text, list["_Found"]()
        for opener in self._openers:
            if text[opener] != "{" or text[max(opener - 1, 0)] == "$":
                continue
            head = text[max(opener - MOST_BESIDE, 0) : opener]
            own = STATEMENT.split(head)[-1].rstrip().rsplit("\n", 1)[-1]
            start, control = self._head(opener)
            end, kind = self._pairs[opener], ScopeKind.BLOCK
            if (function := self._function_head(opener, head)) >= 0:
                start, kind = function, ScopeKind.FUNCTION
            elif _CLASS_HEAD.search(own) and not control:
                start, kind = opener, ScopeKind.CLASS
            elif not control and not self._opens_block(opener):
                continue
            elif self._language == "go":
                end = self._last_branch(end)
            self._bodies.add(opener)
            found.append((start, opener, end, kind))
        if self._language in SCRIPT | {"java", "csharp", "dart", "scala"}:
            found += self._arrows()
        if self._language == "rust":
            found += self._rust()
        return [*found, *self._loops()]

    def _last_branch(self, end: int) -> int:
        """The end of the last `else` after a block, which sees the names of the `if`."""
        while (more := _ELSE.match(self._text, end)) is not None and self._pairs.get(more.end() - 1, end) > end:
            end = self._pairs[more.end() - 1]
        return end

    def _loops(self) -> Iterator["_Found"]:
        """Loops without braces."""
        text = self._text
        for loop in _LOOP.finditer(text):
            opener = loop.end() - 1
            close = self._pairs.get(opener, len(text))
            if not self.quoted(opener) and not text[close + 1 : close + MOST_BESIDE].lstrip().startswith("{"):
                yield loop.start(), close, self._after(close + 1, ";"), ScopeKind.BLOCK

    def _function_head(self, opener: int, head: str) -> int:
        """Where the head of a function begins whose body `opener` opens; -1 if it opens none."""
        text = self._text
        if self._language in SCRIPT and head.rstrip()[-1:] in (":", "|", "&", "<"):  # a type
            return -1
        if (parameters := _AFTER_PARAMETERS.search(head)) is not None:
            start = self._opener_of.get(opener - len(head) + parameters.start(), -1)
        elif self._language in SCRIPT:
            start = self._before_type(opener)
        else:
            return -1
        if (more := len(text[max(start - 9, 0) : start].rstrip())) and start > 0:  # Go's results
            start = self._opener_of.get(max(start - 9, 0) + more - 1, start)
        line = text[max(text.rfind("\n", 0, start), start - MOST_BESIDE, 0) : max(start, 0)]
        if start < 0 or _CONTROL.match(STATEMENT.split(line)[-1]):
            return -1
        if self._language == "go" and (receiver := re.search(r"\bfunc\s*(\()[^()]*\)\s*\w+$", line)) is not None:
            start -= len(line) - receiver.start(1)
        return start

    def _before_type(self, opener: int) -> int:
        """The bracket of a function's parameters whose result has a type with braces; -1 if there is none."""
        text, at = self._text, opener
        while (close := max(text.rfind(sign, 0, at) for sign in "()[]{};")) in self._opener_of:
            if text[close] == ")" and re.match(r"\)\s*:", text[close : close + MOST_BESIDE]) is not None:
                return self._opener_of[close]
            at = self._opener_of[close]
        return -1

    def _head(self, opener: int) -> tuple[int, bool]:
        """Where the head of a block begins, and whether it has one, such as `if`."""
        text, last = self._text, opener
        low = max(opener - MOST_BESIDE, 0)
        while True:
            start = max(text.rfind(sign, low, last) for sign in "()[]{};")
            controls = [one for one in _CONTROLS.finditer(text, max(start, low), last) if not self.quoted(one.start())]
            if controls:
                return controls[-1].start(), True
            if start >= 0 and text[start] == ";" and self._language == "go" and "\n" not in text[start:last]:
                last = start
            elif start >= 0 and text[start] in ")]" and start in self._opener_of:
                last = self._opener_of[start]
            else:
                return opener, False

    def _opens_block(self, opener: int) -> bool:
        """Whether a brace without a head opens a block, and no value."""
        before = self._text[max(opener - MOST_BESIDE, 0) : opener].rstrip()
        around = self._inside[opener]
        if around >= 0 and self._text[around] == "{" and around not in self._bodies:
            return False
        if before.endswith(("=>", "->")):
            return True
        if before[-1:] == ":":
            return re.search(r"(?:\bcase\b[^;{}]*|\bdefault\s*):$", before) is not None
        return (
            not before
            or before[-1] in "{};"
            or re.search(r"\b(?:async|move|default|static|const)$", before) is not None
        )

    def _arrows(self) -> Iterator["_Found"]:
        """Arrow functions of one parameter without brackets, or of one expression."""
        text = self._text
        for arrow in _ARROW.finditer(text):
            if self.quoted(arrow.start()) or (arrow[0][0] == "-" and self._language != "java"):
                continue
            before = text[max(arrow.start() - MOST_BESIDE, 0) : arrow.start()].rstrip()
            close = max(arrow.start() - MOST_BESIDE, 0) + len(before) - 1
            word = re.search(r"\w+$", before)
            start = close + 1 - len(word[0]) if word else self._opener_of.get(close, -1)
            body = arrow.end()
            braced = text[body : body + 1] == "{"
            if word and self._language in SCRIPT and (typed := re.search(r"\)\s*:[^;{}()=]*$", before)) is not None:
                start = self._opener_of.get(max(arrow.start() - MOST_BESIDE, 0) + typed.start(), start)
                word = None
            if start < 0 or (braced and not word and self._language in SCRIPT):
                continue
            kind = ScopeKind.FUNCTION
            yield start, arrow.start(), self._pairs.get(body, len(text)) if braced else self._after(body, ",;"), kind

    def _rust(self) -> Iterator["_Found"]:
        """Closures, and the arms of `match`."""
        text = self._text
        for closure in _CLOSURE.finditer(text):
            if not self.quoted(closure.start()):
                start, body = text.index("|", closure.start()), closure.end()
                rest = text[body : body + MOST_BESIDE]
                brace = body + len(rest) - len(rest.lstrip())
                end = self._pairs.get(brace, len(text)) if text[brace : brace + 1] == "{" else self._after(body, ",;")
                yield start, body, end, ScopeKind.BLOCK
        for arrow in _ARROW.finditer(text):
            opener = self._opener(arrow.start())
            if arrow[0][0] == "-" or self.quoted(arrow.start()) or opener < 0:
                continue
            start = self._before(arrow.start(), opener)
            braced = text[arrow.end() : arrow.end() + 1] == "{"
            end = self._pairs.get(arrow.end(), len(text)) if braced else self._after(arrow.end(), ",")
            yield start, arrow.start(), end, ScopeKind.BLOCK

    def _before(self, at: int, opener: int) -> int:
        """Where the pattern of an arm begins, which ends at `at`."""
        text, last = self._text, at
        while True:
            start = max(text.rfind(sign, opener, last) for sign in "()[]{},")
            if start <= opener or text[start] == ",":
                return start + 1
            if (start in self._opener_of and text[start] != "}") or (
                start in self._opener_of
                and re.match(r"[^\n]*(?:if\b|=>)", text[start + 1 : at + 2])
                and text[start + 1 : at].count("\n") == 0
            ):
                last = self._opener_of[start]
            else:
                return start + 1
