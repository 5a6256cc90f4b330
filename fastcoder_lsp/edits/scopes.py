"""Names in a document: which occurrences of an identifier are the same variable, without a parser.

Functions, classes and blocks are found by indentation or brackets, bindings by the signs and words around a name. Where
that reads too much as a binding, fewer places count as the same variable.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from fastcoder_lsp.syntax import CLOSER_OF, INDENTED, KNOWN, SCRIPT, indent, lex, width

FILE: Final = -1  # the number of the scope that holds a whole document
_MOST_NAMES: Final = 1_000  # occurrences of a name that are looked at
_MOST_BESIDE: Final = 400  # characters on each side of a name that tell what it is
_DECLARED: Final = KNOWN - INDENTED  # an assignment to a new name is an error there
_NAME_FIRST: Final = SCRIPT | {"go", "kotlin", "rust", "scala", "swift", "zig"}  # a parameter's type follows its name
_IN_ORDER: Final = _DECLARED - SCRIPT  # a declaration holds from its end on
_AGAIN: Final = frozenset({"rust"})  # a second declaration in a block is another variable
_INDENTED_HEAD: Final = re.compile(
    r"^[ \t]*(?:async[ \t]+)?(?:(?P<class>class|module|struct)|def|local function|function|proc|func)\b[ \t]*[\w.]*",
    re.MULTILINE,
)
_PARAMETERS: Final = re.compile(r"[^\n(:]*(\()?")
_LAMBDA: Final = re.compile(r"\blambda\b")
_COMPREHENSION: Final = re.compile(r"\b(?:for|in|if)\b|\basync\s+for\b")
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
_STATEMENT: Final = re.compile(r"[;{}]")
_MEMBER: Final = re.compile(r"(?:(?<!\.)\.|\?\.|->|::)\s*$")
_ASSIGNED: Final = re.compile(r"\s*(?::=|(?:[-+*/%&|^@]|//|\*\*|>>|<<|\?\?|&&|\|\|)?=(?![=>])|\+\+|--|=>)")
_CHANGED: Final = re.compile(r"\s*(?:[-+*/%&|^@]|//|\*\*|>>|<<|\?\?|&&|\|\|)=(?![=>])")
_ANNOTATED: Final = re.compile(r"\s*[?!]?:(?!:)")
_LISTED: Final = re.compile(r"\s*,[\w\s,.*]*:?=(?![=>])")
_SHORT: Final = re.compile(r"[\w\s,.*]*:=")
_ITERATED: Final = re.compile(r"[\w\s,()\[\]{}&]*?\s(?:in|of)\s")
_DECLARING: Final = re.compile(
    r"(?:^|[\s(;{])(?:(?:let|const|var|val|auto|import)\b(?:(?!\s(?:in|of|from)\s)[^=;])*"
    r"|(?:def|class|function|fn|func|type|struct|enum|interface|trait)\s+\*?|lambda\b[^:=]*|catch\s*\([^)]*|as\s+)$"
)
_FOR: Final = re.compile(r"(?:^|[\s(;{\[])for\b(?:(?!\s(?:in|of)\s)[^=;])*$")
_VAR: Final = re.compile(r"(?:^|[\s(;{])var\b[^;]*$")
_MODIFIER: Final = re.compile(r"\b(?:mut|ref|public|private|protected|readonly|vararg|inout|val|var|_)$")
_OUTER: Final = re.compile(r"^[ \t]*(?:global|nonlocal)\b[^\n]*$")
_NO_TYPE: Final = (
    r"(?!(?:return|throw|throws|delete|await|yield|else|case|goto|new|in|not|raise|del|typeof|sizeof|if|while|do|and|or"
    r"|package|using|namespace|import|instanceof)\b)"
)
_TYPED: Final = re.compile(
    rf"\s*(?:@\w+\s+)*{_NO_TYPE}(?:(?:final|const|static|unsigned|struct|volatile|register|mut)\s+)*"
    r"[A-Za-z_][\w.:]*(?:\s*<[^;(){}=]*>)?(?:\s+(?:const|int|long|char|short|double))*(?:\s*\[\w*\])*[\s*&?]+"
)
_MORE: Final = re.compile(rf"{_TYPED.pattern}\w+[^;]*,\s*[*&]*")
_PATTERN: Final = re.compile(r"(?:instanceof|\bis)\s+(?:final\s+)?[\w.<>?, ]+\s$")


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


class Variable(NamedTuple):
    """A variable of some name: the number of the scope that binds it, or `FILE` for one that no scope binds."""

    scope: int
    since: int = 0  # where its declaration ends, in languages where another one in the block is another variable


ANYWHERE: Final = Variable(FILE)


@dataclass(frozen=True, slots=True)
class NameUse:
    """An occurrence of an identifier in code."""

    at: int
    line: int  # the offset of its line's beginning
    scope: int  # the number of the scope that binds it here, or else of the innermost scope around it, or `FILE`
    free: bool  # whether it is a member, a keyword argument or a key, which no scope binds
    bound: bool  # whether it is bound here
    parameter: bool  # whether it is bound here as a parameter
    outer: bool  # whether a statement says that a scope around binds it
    shorthand: bool  # whether it names a property and a variable at once
    changed: bool  # whether it is bound here to a value that is made of its own
    since: int  # where the binding begins to hold


class CodeScopes:
    """The scopes of a document. Takes time linear in its length, and in the occurrences of a name."""

    def __init__(self, text: str, language: str) -> None:
        self._text, self._language = text, language
        lexed = lex(text, language)
        self._pairs = _pairs(lexed.signs, len(text))
        self._opener_of = {close: opener for opener, close in self._pairs.items()}
        self._openers = sorted(self._pairs)
        self._inside = self._enclosing()
        self._quoted = sorted(self._texts(sorted(lexed.spans)))
        self._quoted_starts = [start for start, _ in self._quoted]
        self.scopes = self._nested(sorted(lexed.spans))
        self._starts = [scope.start for scope in self.scopes]

    def quoted(self, at: int) -> bool:
        """Whether an offset is in a comment or in the text of a string; code that a string embeds is not."""
        number = bisect_right(self._quoted_starts, at) - 1
        return number >= 0 and at < self._quoted[number][1]

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
            prefix = self._text[match.end() : match.end() + 1] in ("'", '"')  # of a string
            if not prefix and not self.quoted(match.start()):
                found.append(self._read(match.start(), match.end()))
        return found

    def owners(self, names: Sequence[NameUse]) -> list[Variable]:
        """For each occurrence of one variable's name the variable that it is."""
        bindings = _bindings(names)
        return [self._owner(one.scope, one.since if one.bound else one.at, bindings) for one in names]

    def owner_at(self, at: int, names: Sequence[NameUse]) -> Variable:
        """The variable that a name means at an offset, whose occurrences are `names`."""
        return self._owner(self.innermost(at), at, _bindings(names))

    def line_of(self, at: int) -> int:
        """The offset of the beginning of a line."""
        return self._text.rfind("\n", 0, at) + 1

    def _owner(self, scope: int, at: int, bindings: "dict[int, list[int]]") -> Variable:
        """The variable that a name means at `at` in `scope`; `bindings`: scope → where each of its bindings begins."""
        skips = self._language == "python" or self._language in SCRIPT  # no method sees the names of its class
        for number in self.around(scope):
            since = bindings.get(number, ())
            if self._language in _IN_ORDER and number != FILE and not self.scopes[number].is_class:
                since = [one for one in since if one <= at]
            inside = number in (scope, FILE) or self._runs_in(scope, number)
            if since and not (skips and number != FILE and self.scopes[number].is_class and not inside):
                return Variable(number, max(since) if self._language in _AGAIN and number != FILE else 0)
        return ANYWHERE

    def _runs_in(self, scope: int, number: int) -> bool:
        """Whether only blocks lie between a scope and one around it."""
        between = list(self.around(scope))
        kinds = [self.scopes[one].kind for one in between[: between.index(number)]]
        return self._language != "python" and all(kind is ScopeKind.BLOCK for kind in kinds)

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
        in_string = self._in_string(at)
        assigned = _ASSIGNED.match(after) is not None
        free = _MEMBER.search(before) is not None
        parameter = not free and in_head and scope is not None and self._is_parameter(at, end, scope, opener)
        script = self._language in SCRIPT
        own = scope is not None and opener == scope.start
        keyword = following == "=" and assigned and self._language not in _DECLARED - {"kotlin", "scala"}
        labelled = (
            following == ":" and not after.lstrip().startswith("::") and previous in "(," and self._language != "python"
        )
        named = bracket == "(" and not (in_head and own) and (keyword or labelled)
        literal = opener not in self._bodies
        member = literal or (scope is not None and scope.is_class)
        key = (
            bracket == "{"
            and previous in "{,"
            and self._braced
            and (
                (
                    following == ":"
                    and member
                    and not re.search(r"\bmap\[[^\]]*\]\S*$", text[max(opener - 80, 0) : opener])
                )
                or (following == "(" and literal and script)
            )
        )
        method = (
            self._braced and following == "(" and scope is not None and scope.is_class and not before.strip(" \t*#")
        )
        free = free or (not parameter and (named or key or method or (script and self._is_markup(at, end))))
        shorthand = not free and (script or self._language == "rust") and self._is_shorthand(at, end, opener)
        outer = _OUTER.match(before) is not None
        bound = (
            not free and not outer and not in_string and (parameter or self._is_bound(at, end, before, after, opener))
        )
        since = at
        if bound and not parameter:
            number = self._binder(number, at, before)
            since = self._since(end, number) if self._language in _IN_ORDER else at
        elif bound and scope is not None:
            since = scope.start
        elif scope is not None and in_head and not script and scope.kind is not ScopeKind.BLOCK:
            number = scope.parent  # a default value, a type or a base
        elif (
            scope is not None
            and not self._braced
            and scope.kind is ScopeKind.BLOCK
            and self._evaluated_before(at, scope)
        ):
            number = scope.parent
        changed = bound and (_CHANGED.match(after) is not None or "++" in after[:4] or "--" in after[:4])
        return NameUse(at, line, number, free, bound, parameter, outer, shorthand, changed, since)

    def _is_bound(self, at: int, end: int, before: str, after: str, opener: int) -> bool:
        """Whether a name that is no parameter is bound here."""
        text, declared = self._text, self._language in _DECLARED
        bracket = text[opener] if opener >= 0 else ""
        following = text[end : end + _MOST_BESIDE].lstrip()[:1]
        previous = before.rstrip()[-1:]
        if _DECLARING.search(before) is not None and not (declared and previous == ":" and bracket != "{"):
            return True
        if _FOR.search(before) is not None:
            ranged = _ITERATED.match(after) is not None or _SHORT.match(after) is not None
            return ranged if declared else True
        if opener >= 0 and re.search(r"\bimport\s*(?:type\s*|\w+\s*,\s*)?$", text[max(opener - 80, 0) : opener]):
            return True
        annotated = (
            (not bracket or (self._braced and bracket == "{"))
            and not before.strip()
            and _ANNOTATED.match(after) is not None
        )
        if not declared:
            listed = (
                (not bracket or opener in self._bodies)
                and re.fullmatch(r"[\w\s,.*]*", before) is not None
                and _LISTED.match(after) is not None
            )
            assigned = _ASSIGNED.match(after) is not None and (bracket != "[" or after.lstrip().startswith(":="))
            return assigned or annotated or listed
        if self._language == "go":
            return _SHORT.match(after) is not None and re.search(r"(?:^|[;{:])[\w\s,]*$", before) is not None
        if annotated and self._scope_is_class(at):
            return True
        start = max(opener + 1, text.rfind(";", opener + 1, at) + 1, at - _MOST_BESIDE)
        lead = _STATEMENT.split(text[start:at])[-1]
        if self._language in _NAME_FIRST:
            more = previous == "," and following in ("=", ",", ";") and (opener < 0 or opener in self._bodies)
            return more and re.match(r"\s*(?:let|const|var|val)\b", lead) is not None
        typed = following in ("=", ";", ",", ":", "[", "{", ")") and not after.lstrip().startswith("==")
        if typed and _PATTERN.search(lead) is not None:
            return True
        one = _TYPED.fullmatch(lead) is not None and (bracket != "(" or self._is_control(opener))
        more = following in ("=", ";", ",", "[") and _MORE.fullmatch(lead) is not None and bracket != "("
        return typed and following != ")" and (one or more)

    def _scope_is_class(self, at: int) -> bool:
        number = self.innermost(at)
        return number != FILE and self.scopes[number].is_class

    def _is_control(self, opener: int) -> bool:
        return (
            re.search(
                r"\b(?:for|foreach|try|catch|using|if|while|switch)\s*$", self._text[max(opener - 20, 0) : opener]
            )
            is not None
        )

    def _binder(self, number: int, at: int, before: str) -> int:
        """The scope that a binding in scope `number` belongs to."""
        if number == FILE:
            return number
        if not self._braced:
            scope = self.scopes[number]
            if scope.kind is ScopeKind.BLOCK and (
                scope.start <= at < scope.body or _FOR.search(self._text[scope.start : at])
            ):
                return number
            return self._function(number)
        hoisted = self._language not in _DECLARED or (self._language in SCRIPT and _VAR.search(before) is not None)
        return self._function(number) if hoisted else number

    def _function(self, number: int) -> int:
        return next(one for one in self.around(number) if one == FILE or self.scopes[one].kind is not ScopeKind.BLOCK)

    def _since(self, end: int, number: int) -> int:
        """Where a declaration before `end` ends: at its statement's end, or where the body of its scope begins."""
        scope = self.scopes[number] if number != FILE else None
        last = len(self._text) if scope is None else scope.body if end < scope.body else scope.end
        ends = re.compile(r"[;({\[]" if self._language == "rust" else r"[;({\[\n]")
        while self._language in _NAME_FIRST and (found := ends.search(self._text, end, last)) is not None:
            if found[0] in ";\n":
                return found.start()
            end = max(self._pairs.get(found.start(), 0), found.start()) + 1
        return last if self._language in _NAME_FIRST else end

    def _evaluated_before(self, at: int, scope: CodeScope) -> bool:
        """Whether an offset is in a lambda's default values, or in a comprehension's first iterable."""
        if at < scope.body:
            return True
        if self._text[scope.start] not in CLOSER_OF:
            return False
        words = (
            found
            for found in _COMPREHENSION.finditer(self._text, scope.start, scope.end)
            if self._opener(found.start()) == scope.start and not self.quoted(found.start())
        )
        seen = 0
        for found in words:
            if seen == 0 and found[0].endswith("for"):
                seen = 1
            elif seen == 1 and found[0] == "in":
                seen, start = 2, found.end()
            elif seen == 2:
                return start <= at < found.start()
        return seen == 2 and start <= at

    def _is_shorthand(self, at: int, end: int, opener: int) -> bool:
        text = self._text
        if opener < 0 or text[opener] != "{" or opener in self._bodies or text[max(opener - 1, 0)] == "$":
            return False
        previous, following = text[opener:at].rstrip()[-1:], text[end : end + _MOST_BESIDE].lstrip()[:1]
        if previous not in ("{", ",") or following not in (",", "}"):
            return False
        only = previous == "{" and following == "}"
        return not (
            self._language.endswith("react")
            and only
            and re.search(r"[\w\"'>}=]$", text[:opener].rstrip(" ")[-1:]) is not None
            and not text[:opener].endswith(("= ", "=> ", "return "))
        )

    def _is_markup(self, at: int, end: int) -> bool:
        """Whether a name is an attribute's, or text between tags."""
        before, after = self._text[max(at - _MOST_BESIDE, 0) : at], self._text[end : end + _MOST_BESIDE]
        if after[:2] in ("={", '="', "='"):
            return re.search(r"<[A-Za-z][\w.]*(?:\s[^<>]*(?:=>[^<>]*)*)?\s$", before) is not None
        return (
            re.search(r"[\w\"'}/]>[^<>{}();=]*$", before) is not None
            and re.match(r"[^<>{}();=]*(?:\{[^{}]*\}[^<>{}();=]*)*</?[\w>]", after) is not None
        )

    @property
    def _braced(self) -> bool:
        return self._language not in INDENTED

    def _is_parameter(self, at: int, end: int, scope: CodeScope, opener: int) -> bool:
        text = self._text
        if scope.is_class:
            return False
        before, after = text[max(scope.start, at - _MOST_BESIDE) : at], text[end : end + _MOST_BESIDE]
        previous = before.rstrip()[-1:]
        if self._language in INDENTED:
            return self._is_indented_parameter(before.rstrip(), scope, opener)
        if scope.kind is ScopeKind.BLOCK:
            matched = text.startswith("=>", scope.body) and not re.search(r"\bif\b", text[scope.start : at])
            if matched and text[at].islower():
                return re.match(r"\s*(?:[({!.]|::)", after) is None
            return text[scope.start] == "|" and (previous in ("|", ",", "(", "&") or before.rstrip().endswith("mut"))
        if opener < scope.start:  # an arrow function of one parameter without brackets
            return at == scope.start
        return self._is_listed(opener, scope) and self._is_named(before.rstrip(), after, scope, opener)

    def _is_indented_parameter(self, before: str, scope: CodeScope, opener: int) -> bool:
        separated = before[-1:] in ("(", ",", "*")
        if self._text.startswith("lambda", scope.start):
            return self._opener(scope.start) == opener and (before[-1:] in (",", "*") or before.endswith("lambda"))
        if scope.kind is ScopeKind.BLOCK:
            return False
        return opener < scope.start or (opener == scope.start and separated)

    def _is_listed(self, opener: int, scope: CodeScope) -> bool:
        """Whether a bracket in a function's head holds its parameters, or a pattern of them."""
        text, outer = self._text, opener
        while outer > scope.start and text[outer] in "{[" and self._language in SCRIPT:
            outer = self._inside[outer]
        return outer == scope.start or (self._language == "go" and self._inside[outer] < scope.start)

    def _is_named(self, before: str, after: str, scope: CodeScope, opener: int) -> bool:
        """Whether a name among parameters, between `before` and `after`, is one of theirs, and no type's."""
        text, previous, following = self._text, before[-1:], after.lstrip()[:1]
        if text[opener] == "{":
            return following in (",", "}", "=") and previous in ("{", ",", ":", ".")
        separated = previous in ("(", ",")
        if self._language == "go":
            return separated and (following not in (")", ".") or after.lstrip().startswith("..."))
        first = separated or previous in ("[", ".", "&") or _MODIFIER.search(before) is not None
        if self._language in _NAME_FIRST:
            return first and following in (":", ",", ")", "=", "?", "]")
        typed = re.search(r"[\w*&\]>.]$", before) is not None
        ends = re.sub(r"^\s*(?:\[[^\]]*\]\s*)+", "", after).lstrip()[:1] in (",", ")", "=")
        return ends and (typed or (first and text.startswith(("->", "=>"), scope.body)))

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

    def _braces(self) -> list["_Found"]:
        text, found = self._text, list["_Found"]()
        for opener in self._openers:
            if text[opener] != "{" or text[max(opener - 1, 0)] == "$":
                continue
            head = text[max(opener - _MOST_BESIDE, 0) : opener]
            own = _STATEMENT.split(head)[-1].rstrip().rsplit("\n", 1)[-1]
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
            if not self.quoted(opener) and not text[close + 1 : close + _MOST_BESIDE].lstrip().startswith("{"):
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
        line = text[max(text.rfind("\n", 0, start), start - _MOST_BESIDE, 0) : max(start, 0)]
        if start < 0 or _CONTROL.match(_STATEMENT.split(line)[-1]):
            return -1
        if self._language == "go" and (receiver := re.search(r"\bfunc\s*(\()[^()]*\)\s*\w+$", line)) is not None:
            start -= len(line) - receiver.start(1)
        return start

    def _before_type(self, opener: int) -> int:
        """The bracket of a function's parameters whose result has a type with braces; -1 if there is none."""
        text, at = self._text, opener
        while (close := max(text.rfind(sign, 0, at) for sign in "()[]{};")) in self._opener_of:
            if text[close] == ")" and re.match(r"\)\s*:", text[close : close + _MOST_BESIDE]) is not None:
                return self._opener_of[close]
            at = self._opener_of[close]
        return -1

    def _head(self, opener: int) -> tuple[int, bool]:
        """Where the head of a block begins, and whether it has one, such as `if`."""
        text, last = self._text, opener
        low = max(opener - _MOST_BESIDE, 0)
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
        before = self._text[max(opener - _MOST_BESIDE, 0) : opener].rstrip()
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
            before = text[max(arrow.start() - _MOST_BESIDE, 0) : arrow.start()].rstrip()
            close = max(arrow.start() - _MOST_BESIDE, 0) + len(before) - 1
            word = re.search(r"\w+$", before)
            start = close + 1 - len(word[0]) if word else self._opener_of.get(close, -1)
            body = arrow.end()
            braced = text[body : body + 1] == "{"
            if word and self._language in SCRIPT and (typed := re.search(r"\)\s*:[^;{}()=]*$", before)) is not None:
                start = self._opener_of.get(max(arrow.start() - _MOST_BESIDE, 0) + typed.start(), start)
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
                rest = text[body : body + _MOST_BESIDE]
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


_Found = tuple[int, int, int, ScopeKind]
_ELSE: Final = re.compile(r"\}\s*else\b[^{}\n]*\{")
_MACRO: Final = re.compile(r"\w!\s*[(\[][^;{}]*$")
_FORS: Final = re.compile(r"\bfor\b")
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


def _bindings(names: Sequence[NameUse]) -> dict[int, list[int]]:
    """Scope → where each of the bindings in it begins to hold."""
    outer = {one.scope for one in names if one.outer}
    found = dict[int, list[int]]()
    for one in names:
        if one.bound and one.scope not in outer:
            found.setdefault(one.scope, []).append(one.since)
    return found


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
