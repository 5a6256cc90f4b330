"""The functions, classes and blocks of a document, found by indentation, words or brackets."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from fastcoder_lsp.edits.code_text import MOST_BESIDE, CodeText
from fastcoder_lsp.syntax import SCRIPT, continues_block, indent, width

FILE: Final = -1  # the number of the scope that holds a whole document
_INDENTED_HEAD: Final = re.compile(
    r"^[ \t]*(?:(?:async|private|protected|public|private_class_method|module_function)[ \t]+)?"
    r"(?:(?P<class>class|module|struct)(?=[ \t]+[\w<])|def|function|proc|func)\b[ \t]*[\w.]*",
    re.MULTILINE,
)
_PARAMETERS: Final = re.compile(r"[^\n(:]*(\()?")
_LAMBDA: Final = re.compile(r"\blambda\b")
_CLASS_HEAD: Final = re.compile(r"\b(?:class|interface|struct|enum|trait|impl|namespace|union|record|object)\b")
_CONTROL_WORD: Final = (
    "if|for|foreach|while|switch|select|catch|with|match|using|lock|guard|unless|synchronized|try|else|do|loop|unsafe"
    "|finally|when|elsif|until"
)
_CONTROL: Final = re.compile(rf"\s*(?:else\s+)?(?:{_CONTROL_WORD})\b")
_BEFORE_LIST: Final = re.compile(rf"(?<![\w.])(?:{_CONTROL_WORD})\s*$")
_CONTROLS: Final = re.compile(rf"(?<![\w.])(?:{_CONTROL_WORD})\b")
_AFTER_PARAMETERS: Final = re.compile(r"""\)(?!\s*(?:,|\|\||&&|\?))[^;{}()=+/"'`$]*(?:=>\s*|->[^;{}()]*)?$""")
_ARROW: Final = re.compile(r"=>\s*|->\s*")
_LOOP: Final = re.compile(r"\b(?:for|foreach)\s*\(")
_CLOSURE: Final = re.compile(r"(?<=[(,={\s])(?:move\s*)?\|(?!\|)([^|{};]*)\|")
_ELSE: Final = re.compile(r"\}\s*else\b[^{}\n]*\{")
_FORS: Final = re.compile(r"\bfor\b")
_RESUMED: Final = frozenset({"ruby", "elixir", "crystal", "julia"})  # a function goes on after a word such as `rescue`
_LUA_WORD: Final = re.compile(r"(?<![\w.:])(?:function|for|while|if|do|then|elseif|else|repeat|until|end)\b")
_WORD_BLOCK: Final = re.compile(
    r"(?P<open>\bdo\b|\{)[ \t]*(?P<bars>\|)[^|\n]*\||->[ \t]*(?P<list>\([^()\n]*\)|\w+)[ \t]*(?P<body>\{|do\b)"
)
_SHELL_FUNCTION: Final = re.compile(
    r"^[ \t]*(?:function[ \t]+[\w:.-]+[ \t]*(?:\(\))?|[\w:.-]+[ \t]*\(\))\s*\{", re.MULTILINE
)
_BLOCKS_ALONE: Final = frozenset({"kotlin", "swift", "scala", "groovy"})  # no brace holds values
_LISTS_BEFORE_BLOCKS: Final = _BLOCKS_ALONE | {"perl", "php"}  # a call or a word such as `match` may too
_DECLARES: Final = re.compile(
    r"\b(?:fun|func|function|fn|sub|init[?!]?|constructor|subscript|def|set|get)\b[^(){};=]*$"
)
_ARROW_HEAD: Final = re.compile(r"\{\s*(?!case\b)[\w,:.?<>()*@ \t]*(?<=[\w>?) \t])(?=->|=>)")
_BLOCK_HEAD: Final = {
    "kotlin": _ARROW_HEAD,
    "groovy": _ARROW_HEAD,
    "scala": _ARROW_HEAD,
    "swift": re.compile(
        r"\{\s*(?:\[[^\]]*\]\s*)?(?:\w+(?:\s*,\s*\w+)*|\([^{}]{0,200}?\))\s*"
        r"(?:async\s*)?(?:throws\s*)?(?:->\s*[^\n{}]{0,200}?)?(?=\bin\b)"
    ),
}
"""Parameters at the beginning of a block."""
_EXPRESSION: Final = re.compile(r"\b(?:fun|def)\b[^\n(={]{0,200}\(")
_EQUALS: Final = re.compile(r"\s*(?::[^={}\n]*(?:=>[^={}\n]*)*)?=(?![=>])")
_GENERATORS: Final = re.compile(r"\bfor\s*[({]")
_YIELD: Final = re.compile(r"\s*(?:yield\b\s*)?(\{)?")
_CASE: Final = re.compile(r"(?<![\w.])(?:case|default)\b")
_ARROW_FUNCTION: Final = re.compile(r"\bfn\s*&?\s*(\()")
_USED: Final = re.compile(r"\)\s*use\s*$")
_NAMED_HEAD: Final = re.compile(r".*\b(?:fn|func)\s+\w+[^(;{}]*(\()", re.DOTALL)
_MADE: Final = re.compile(r"\bnew\b\s*(?:[\w.]+(?:<[^()]*>)?)?\s*$")
_INITIALIZED: Final = {
    "cpp": re.compile(r"(?:,|(\))\s*(?:noexcept\s*)?(?<!:):)\s*[\w:]+(?:<[^<>]*>)?\s*$"),
    "csharp": re.compile(r"(\))\s*:\s*(?:base|this)\s*$"),
    "kotlin": re.compile(r"(\))\s*:\s*(?:super|this)\s*$"),
}
_INITIALIZING: Final = re.compile(r"\)\s*:\s*(?=(?:this\.)?\w+\s*=(?!=)|(?:(?:super|this)(?:\.\w+)?|assert)\s*\()")
_CONSTRUCTOR: Final = re.compile(r"\s*(?:@\w+\s+)*(?:const\s+)?[\w.]+")
_SUB: Final = re.compile(r"\bsub\b\s*[\w:]*\s*$")
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
        found = self._braces() if self._braced else list(self._by_words(spans))
        found.sort(key=lambda one: (one[0], -one[2]))
        scopes, stack = list[CodeScope](), list[int]()
        for start, body, end, kind in found:
            while stack and scopes[stack[-1]].end <= start:
                stack.pop()
            scopes.append(CodeScope(start, body, end, kind, stack[-1] if stack else FILE))
            stack.append(len(scopes) - 1)
        return scopes

    def _by_words(self, spans: Sequence[tuple[int, int]]) -> Iterator["_Found"]:
        if self._language == "lua":
            yield from self._lua()
        elif self._language == "shellscript":
            for found in _SHELL_FUNCTION.finditer(self._text):
                opener = found.end() - 1
                if not self.quoted(opener):
                    yield opener, opener, self._pairs.get(opener, len(self._text)), ScopeKind.FUNCTION
        else:
            yield from self._indented(spans)
            if self._language == "ruby":
                yield from self._word_blocks()
            yield from self._inline()

    def _lua(self) -> Iterator["_Found"]:
        text, heads = self._text, list[tuple[str, int, int]]()
        for found in _LUA_WORD.finditer(text):
            word, start, end = found[0], *found.span()
            if self.quoted(start):
                continue
            last = heads[-1] if heads else ("", 0, 0)
            if word == "function":
                opener = text.find("(", end)
                heads.append((word, opener, self._pairs.get(opener, opener) + 1))
            elif word == "do" and last[0] in ("for", "while"):
                heads[-1] = (word, last[1], end)
            elif word in ("then", "else", "elseif") and heads:
                if last[0] == "then":
                    yield last[1], last[2], start, ScopeKind.BLOCK
                heads[-1] = ("if" if word == "elseif" else "then", start, end)
            elif word in ("end", "until") and heads:
                name, begin, body = heads.pop()
                stop = text.find("\n", end) if word == "until" else start
                kind = ScopeKind.FUNCTION if name == "function" else ScopeKind.BLOCK
                yield begin, body, stop if stop >= 0 else len(text), kind
            elif heads or word not in ("then", "else", "elseif", "end", "until"):
                heads.append((word, start, end))
        for name, begin, body in heads:
            yield begin, body, len(text), ScopeKind.FUNCTION if name == "function" else ScopeKind.BLOCK

    def _word_blocks(self) -> Iterator["_Found"]:
        """Ruby's blocks with parameters, and its lambdas."""
        text = self._text
        for found in _WORD_BLOCK.finditer(text):
            group = "open" if found["open"] else "body"
            opener, start = found.start(group), found.start("bars" if found["open"] else "list")
            if not self.quoted(opener):
                end = self._pairs.get(opener, len(text)) if text[opener] == "{" else self._end_of_word_block(opener)
                yield start, found.end() if found["open"] else found.end("list"), end, ScopeKind.BLOCK

    def _end_of_word_block(self, at: int) -> int:
        """The end of a block that `do` begins at `at`: at `end` on its line, or where the indentation ends."""
        text = self._text
        stop = text.find("\n", at) % (len(text) + 1)
        ends = [one.start() for one in re.finditer(r"\bend\b", text[at:stop]) if not self.quoted(at + one.start())]
        if ends:
            return at + ends[-1]
        line = self.line_of(at)
        while (opener := self._opener(line)) >= 0 and text[opener] in "([":
            line = self.line_of(opener)
        return self._dedented(stop, width(indent(text[line:at])), None)

    def _dedented(self, at: int, column: int, bracket: int | None) -> int:
        """The end of the last line from `at` on before one that is not deeper than `column`.

        Line ends within brackets do not count, save in `bracket`; None counts all.
        """
        text = self._text
        for line in re.compile(r"\n(?:[ \t]*\n)*([ \t]*)(?=\S)").finditer(text, at):
            first = line.end()
            inside = bracket is not None and self._opener(line.start()) != bracket
            if not inside and not self.quoted(first) and width(line[1]) <= column and text[first] not in ")]":
                return line.start()
        return len(text)

    def _expressions(self) -> Iterator["_Found"]:
        """Functions of one expression after `=`."""
        text = self._text
        for found in _EXPRESSION.finditer(text):
            opener = found.end() - 1
            close = self._pairs.get(opener, len(text))
            while text[close + 1 : close + 2] == "(":
                close = self._pairs.get(close + 1, len(text))
            if self.quoted(opener) or (equals := _EQUALS.match(text, close + 1)) is None:
                continue
            home = self._opener(found.start())
            column = width(indent(text[self.line_of(found.start()) : found.start()]))
            last = min(self._dedented(equals.end(), column, home), self._pairs.get(home, len(text)))
            yield opener, equals.end() - 1, last, ScopeKind.FUNCTION

    def _comprehensions(self) -> Iterator["_Found"]:
        """Scala's loops."""
        text = self._text
        for found in _GENERATORS.finditer(text):
            close = self._pairs.get(found.end() - 1, len(text))
            body = _YIELD.match(text, close + 1)
            if body is not None and body[1]:
                end = self._pairs.get(body.end() - 1, len(text))
            else:
                column = width(indent(text[self.line_of(found.start()) : found.start()]))
                end = self._dedented(close, column, self._opener(found.start()))
            if not self.quoted(found.start()):
                yield found.start(), close, end, ScopeKind.BLOCK

    def _cases(self) -> Iterator["_Found"]:
        """The branches that begin with a pattern."""
        text = self._text
        starts = [
            (one.start(), self._opener(one.start())) for one in _CASE.finditer(text) if not self.quoted(one.start())
        ]
        following, sign = dict[int, int](), "=>" if self._language == "scala" else ":"
        for start, opener in reversed(starts):
            end = following.get(opener, self._pairs.get(opener, len(text)))
            following[opener] = start
            body = start
            while (body := text.find(sign, body + 1, end)) >= 0 and self._opener(body) != opener:
                pass
            if body >= 0:
                if self._language == "scala":
                    end = min(end, self._dedented(body, width(indent(text[self.line_of(start) : start])), opener))
                yield start, body, end, ScopeKind.BLOCK

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
                resumed = self._language in _RESUMED and continues_block(line)
                while open_heads and open_heads[-1][0] >= column + resumed:
                    _, start, body, kind = open_heads.pop()
                    yield start, body, at, kind
                if (head := heads.get(at)) is not None and (after := _PARAMETERS.match(text, head.end())) is not None:
                    start = after.start(1) if after[1] else head.end()
                    body = self._pairs.get(after.start(1), after.end()) + 1
                    if after[1] and self._language == "python" and head["class"] is None:
                        body = self._after(body, ":")
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
        further: Mapping[str, Sequence[Callable[[], Iterable[_Found]]]] = {
            **dict.fromkeys((*SCRIPT, "java", "csharp", "dart"), (self._arrows,)),
            "kotlin": (self._expressions,),
            "php": (self._arrow_functions,),
            "rust": (self._rust,),
            "scala": (self._arrows, self._expressions, self._cases, self._comprehensions),
            "swift": (self._cases,),
        }
        found = list(self._constructors()) if self._language == "dart" else []
        for opener in self._openers:
            if self._text[opener] == "{" and self._text[max(opener - 1, 0)] != "$" and opener not in self._bodies:
                found += self._brace(opener)
        return [*found, *(one for finder in further.get(self._language, ()) for one in finder()), *self._loops()]

    def _brace(self, opener: int) -> Iterator["_Found"]:
        """The scope whose body a brace opens, if it opens one."""
        text = self._text
        head = text[max(opener - MOST_BESIDE, 0) : opener]
        own = STATEMENT.split(head)[-1].rstrip().rsplit("\n", 1)[-1]
        start, control = self._head(opener)
        body, end, kind = opener, self._pairs[opener], ScopeKind.BLOCK
        if self._language == "scala" and _GENERATORS.fullmatch(text, start, opener + 1):
            return
        if self._language in ("csharp", "java", "groovy") and self._is_made(opener):
            if self._language == "csharp":
                return
            start, kind = opener, ScopeKind.CLASS
        elif (function := self._function_head(opener, head)) >= 0:
            start, kind = function, ScopeKind.FUNCTION
            body = self._pairs.get(start, opener) if self._language in _INITIALIZED else opener
        elif _CLASS_HEAD.search(own) and not control:
            start, kind = opener, ScopeKind.CLASS
        elif (listed := self._block_head(opener)) > opener and not text.startswith("when", start):
            start, body = opener, listed
        elif not control and not self._opens_block(opener):
            return
        elif self._language in ("go", "perl"):
            end = self._last_branch(end)
        self._bodies.add(opener)
        yield start, body, end, kind

    def _is_made(self, opener: int) -> bool:
        """Whether a brace follows a new object's arguments."""
        start = self._opener_of.get(self._close_before(opener), 0)
        return self._text[start] == "(" and _MADE.search(self._text, max(start - MOST_BESIDE, 0), start) is not None

    def _constructors(self) -> Iterator["_Found"]:
        """Dart's constructors with the values of members."""
        text = self._text
        for found in _INITIALIZING.finditer(text):
            start = self._opener_of.get(found.start(), 0)
            if self.quoted(found.start()) or not _CONSTRUCTOR.fullmatch(text, self.line_of(start), start):
                continue
            end = self._after(found.end(), ";{")
            while text[end : end + 1] == "{" and text[self._close_before(end)] in "=,:?>":  # a value
                end = self._after(self._pairs[end] + 1, ";{")
            if text[end : end + 1] == "{":
                self._bodies.add(end)
            yield start, found.start(), self._pairs.get(end, end), ScopeKind.FUNCTION

    def _block_head(self, opener: int) -> int:
        """Where the parameters end that a block begins with; -1 if it has none."""
        head = _BLOCK_HEAD.get(self._language)
        return found.end() if head is not None and (found := head.match(self._text, opener)) is not None else -1

    def _arrow_functions(self) -> Iterator["_Found"]:
        """PHP's functions of one expression."""
        text = self._text
        for found in _ARROW_FUNCTION.finditer(text):
            start = found.start(1)
            arrow = text.find("=>", self._pairs.get(start, len(text)))
            if not self.quoted(start) and arrow >= 0:
                yield start, arrow, self._after(arrow + 2, ",;"), ScopeKind.FUNCTION

    def _last_branch(self, end: int) -> int:
        """The end of the last `else` after a block, which sees the names of the `if`."""
        while (more := _ELSE.match(self._text, end)) is not None and self._pairs.get(more.end() - 1, end) > end:
            end = self._pairs[more.end() - 1]
        return end

    def _loops(self) -> Iterator["_Found"]:
        """Loops without braces."""
        text = self._text
        for loop in _LOOP.finditer(text) if self._language != "scala" else ():
            opener = loop.end() - 1
            close = self._pairs.get(opener, len(text))
            if not self.quoted(opener) and not text[close + 1 : close + MOST_BESIDE].lstrip().startswith("{"):
                yield loop.start(), close, self._after(close + 1, ";"), ScopeKind.BLOCK

    def _function_head(self, opener: int, head: str) -> int:
        """Where the head of a function begins whose body `opener` opens; -1 if it opens none."""
        text = self._text
        if self._language == "perl" and (sub := _SUB.search(head)) is not None:
            return opener - len(head) + sub.start()
        start = self._parameters_before(opener, head)
        if start > 0 and (close := self._close_before(start)) >= 0 and text[close] == ")":  # Go's results
            start = self._opener_of.get(close, start)
        line = text[max(text.rfind("\n", 0, start), start - MOST_BESIDE, 0) : max(start, 0)]
        if start < 0 or _CONTROL.match(STATEMENT.split(line)[-1]) or _BEFORE_LIST.search(line):
            return -1
        if self._language == "go" and (receiver := re.search(r"\bfunc\s*(\()[^()]*\)\s*\w+$", line)) is not None:
            start -= len(line) - receiver.start(1)
        return start

    def _parameters_before(self, opener: int, head: str) -> int:
        """The bracket that may open the parameters of a function; -1 if there is none."""
        text = self._text
        before_values = (":", "|", "&", "<") if self._language in SCRIPT else (",",) if self._language == "dart" else ()
        if head.rstrip()[-1:] in before_values:  # or before a type
            return -1
        if self._language in ("rust", "swift") and (named := _NAMED_HEAD.search(head)) is not None:
            start = opener - len(head) + named.start(1)
            if (close := self._pairs.get(start, opener)) < opener and not STATEMENT.search(text, close, opener):
                return start
        if (start := self._before_initializers(opener)) >= 0:
            return start
        if (parameters := _AFTER_PARAMETERS.search(head)) is None:
            return self._before_type(opener) if self._language in SCRIPT else -1
        start = self._opener_of.get(opener - len(head) + parameters.start(), -1)
        if (used := _USED.search(text, max(start - MOST_BESIDE, 0), max(start, 0))) is not None:
            start = self._opener_of.get(used.start(), -1)
        if self._language not in _LISTS_BEFORE_BLOCKS or _DECLARES.search(
            text, max(start - MOST_BESIDE, 0), max(start, 0)
        ):
            return start
        return -1

    def _close_before(self, at: int) -> int:
        """The offset of the last sign before `at` that is no blank, among some; -1 if there is none."""
        first = max(at - 80, 0)
        return first + len(text) - 1 if (text := self._text[first:at].rstrip()) else -1

    def _before_initializers(self, opener: int) -> int:
        """The bracket of a constructor's parameters before the values of members; -1 if there is none."""
        text, at, value = self._text, opener, _INITIALIZED.get(self._language)
        while value is not None and (start := self._opener_of.get(self._close_before(at), -1)) >= 0:
            if (more := value.search(text, max(start - MOST_BESIDE, 0), start)) is None:
                return -1
            if more[1]:
                return self._opener_of.get(more.start(1), -1)
            at = more.start()
        return -1

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
        if self._language in _BLOCKS_ALONE:
            return True
        if self._language == "perl" and re.search(
            r"(?<![$@%&\w>])[a-z]+\s+$", self._text[max(opener - 20, 0) : opener]
        ):
            return True
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
            if self._language == "scala" and re.search(
                r"\bcase\b.*$", text[self.line_of(arrow.start()) : arrow.start()]
            ):
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
            end = self._pairs.get(body, len(text)) if braced else self._after(body, ",;")
            if self._language == "scala":
                column = width(indent(text[self.line_of(start) : start]))
                end = min(end, self._dedented(body, column, self._opener(start)))
            head = -1 if word else self._before_initializers(close + 1)
            start, body = (start, arrow.start()) if head < 0 else (head, self._pairs[head])
            yield start, body, end, ScopeKind.FUNCTION

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
