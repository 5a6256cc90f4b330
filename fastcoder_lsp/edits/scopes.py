"""Names in a document: which occurrences of an identifier are the same variable, without a parser.

Functions, classes and blocks are found by indentation or brackets, bindings by the signs and words around a name. Where
that reads too much as a binding, fewer places count as the same variable.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from fastcoder_lsp.edits.blocks import FILE, STATEMENT, CodeBlocks, CodeScope, ScopeKind
from fastcoder_lsp.edits.code_text import MOST_BESIDE, MOST_NAMES
from fastcoder_lsp.edits.signs import (
    binds,
    has_own_bindings,
    holds_function,
    is_called,
    is_other,
    is_outer,
    is_property,
    is_unclear,
)
from fastcoder_lsp.syntax import CLOSER_OF, INDENTED, KNOWN, SCRIPT

_DECLARED: Final = (KNOWN - INDENTED) | {"lua", "perl", "shellscript"}  # an assignment to a new name is an error there
_NAME_FIRST: Final = SCRIPT | {
    "go",
    "kotlin",
    "rust",
    "scala",
    "swift",
    "zig",
    "lua",
    "perl",
    "php",
    "shellscript",
}  # a parameter's type follows its name
_IN_ORDER: Final = _DECLARED - SCRIPT - {"shellscript"}  # a declaration holds from its end on
_AGAIN: Final = frozenset({"lua", "perl", "rust"})  # a second declaration in a block is another variable
_CLOSED: Final = frozenset({"php", "ruby"})  # a function sees no variables of the code around it
_SEEN_BY_DEFAULTS: Final = SCRIPT | {"ruby", "kotlin", "julia", "r", "groovy"}  # a default may use other parameters
_SIGILS: Final = frozenset({"perl", "php"})
_ARROW_MEMBERS: Final = frozenset({"c", "cpp", "cuda-cpp", "objective-c", "objective-cpp", "perl", "php"})
_NAMED: Final = frozenset(
    {"python", "kotlin", "rust", "scala", "julia", "r", "starlark", "gdscript"}
)  # `name=` in a call
_COMPREHENSION: Final = re.compile(r"\b(?:for|in|if)\b|\basync\s+for\b")
_MEMBER: Final = re.compile(r"(?:(?<!\.)\.|\?\.|::)\s*$")
_MEMBER_IN_SCALA: Final = re.compile(r"\.\s*$")
_TAG_END: Final = re.compile(r"</(?:[A-Za-z][\w.-]*)?>|\s/>")
_POINTED: Final = re.compile(r"->\s*$")
_ASSIGNED: Final = re.compile(r"\s*(?::=|(?:[-+*/%&|^@]|//|\*\*|>>|<<|\?\?|&&|\|\|)?=(?![=>~])|\+\+|--|=>)")
_CHANGED: Final = re.compile(r"\s*(?:[-+*/%&|^@]|//|\*\*|>>|<<|\?\?|&&|\|\|)=(?![=>])")
_ANNOTATED: Final = re.compile(r"\s*[?!]?:(?!:)")
_LISTED: Final = re.compile(r"\s*,[\w\s,.*]*:?=(?![=>])")
_SHORT: Final = re.compile(r"[\w\s,.*]*:=")
_ITERATED: Final = re.compile(r"[\w\s,()\[\]{}&]*?\s(?:in|of)\s")
_DECLARING_WORDS: Final = (
    r"|(?:def|class|function|fn|func|type|struct|enum|interface|trait)\s+\*?|lambda\b[^:=]*|catch\s*\([^)]*|as\s+)$"
)
_DECLARING: Final = re.compile(
    rf"(?:^|[\s(;{{])(?:(?:let|const|var|val|auto|import)\b(?:(?!\s(?:in|of|from)\s)[^=;])*{_DECLARING_WORDS}"
)
_DECLARING_BRACELESS: Final = re.compile(
    rf"(?:^|[\s(;{{])(?:(?:let|var|val|import)\b(?:(?!\sin\s)[^=;{{}}])*{_DECLARING_WORDS}"
)
_BRACELESS: Final = frozenset({"kotlin", "scala", "swift"})  # no pattern has braces
_DECLARING_TYPED: Final = re.compile(
    rf"(?:^|[\s(;{{])(?:(?:const|var|auto|final|import)\b(?:(?:(?!\sin\s)[^=;{{}}()])*|\s*\([^=;()]*){_DECLARING_WORDS}"
)
_FOR: Final = re.compile(r"(?:^|[\s(;{\[])for\b(?:(?!\s(?:in|of)\s)[^=;])*$")
_VAR: Final = re.compile(r"(?:^|[\s(;{])var\b[^;]*$")
_MODIFIER: Final = re.compile(
    r"\b(?:mut|ref|public|private|protected|readonly|vararg|inout|noinline|crossinline|val|var|_)$"
)
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
    unclear: bool  # whether it is another thing's name, too, or may mean another variable
    changed: bool  # whether it is bound here to a value that is made of its own
    since: int  # where the binding begins to hold
    called: bool  # whether it is called, and may be a method's name


class CodeScopes(CodeBlocks):
    """The scopes of a document. Takes time linear in its length, and in the occurrences of a name."""

    def __init__(self, text: str, language: str) -> None:
        super().__init__(text, language)
        self._starts = [scope.start for scope in self.scopes]
        typed = language in _DECLARED - _NAME_FIRST
        self._declaring = _DECLARING_TYPED if typed else _DECLARING_BRACELESS if language in _BRACELESS else _DECLARING
        self._has_markup = language.endswith("react") or (
            language == "javascript" and any(not self.quoted(tag.start()) for tag in _TAG_END.finditer(text))
        )
        self._string_starts = {start for start, _ in self._spans if text[start] in "'\""}

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
            if len(found) >= MOST_NAMES:
                break
            at, end = match.span()
            prefix = end in self._string_starts and self._language != "lua"
            if not prefix and (not self.quoted(at) or is_unclear(self._language, self._line_before(at), "")):
                found.append(self._read(at, end))
        return found

    def owners(self, names: Sequence[NameUse]) -> list[Variable]:
        """For each occurrence of one variable's name the variable that it is."""
        bindings, outer = _bindings(names)
        return [self._owner(one.scope, one.since if one.bound else one.at, bindings, outer) for one in names]

    def owner_at(self, at: int, names: Sequence[NameUse]) -> Variable:
        """The variable that a name means at an offset, whose occurrences are `names`."""
        return self._owner(self.innermost(at), at, *_bindings(names))

    def calls(self, name: str, bindings: Sequence[NameUse]) -> bool | None:
        """Whether a call of a variable's old name calls the variable; None where nothing tells."""
        declared = re.search(rf"\bfun\s+(?:<[^>]*>\s*)?(?:[\w<>?]+\.)?{re.escape(name)}\s*\(", self._text) is not None
        for one in bindings:
            start = max(self._opener(one.at) + 1, one.at - MOST_BESIDE, 0)
            lead = self._text[start : one.at]
            after = re.compile(r"\w+(.*)").match(self._text, one.at)
            if after is not None:
                return holds_function(self._language, lead, after[1], declared=declared)
        return None

    def _owner(self, scope: int, at: int, bindings: "dict[int, list[int]]", outer: set[int]) -> Variable:
        """The variable that a name means at `at` in `scope`; `bindings`: scope → where each of its bindings begins."""
        skips = self._language == "python" or self._language in SCRIPT  # no method sees the names of its class
        for number in self.around(scope):
            since = bindings.get(number, ())
            if self._language in _IN_ORDER and number != FILE and not self.scopes[number].is_class:
                since = [one for one in since if one <= at]
            inside = number in (scope, FILE) or self._runs_in(scope, number)
            if since and not (skips and number != FILE and self.scopes[number].is_class and not inside):
                return Variable(number, max(since) if self._language in _AGAIN and number != FILE else 0)
            if number not in outer and self._is_closed(number):
                return Variable(number)
        return ANYWHERE

    def _is_closed(self, number: int) -> bool:
        """Whether a scope is a function that sees no variables of the code around it."""
        if self._language not in _CLOSED or number == FILE or self.scopes[number].kind is not ScopeKind.FUNCTION:
            return False
        return self._language != "php" or self._text[self.scopes[number].body] == "{"

    def _runs_in(self, scope: int, number: int) -> bool:
        """Whether only blocks lie between a scope and one around it."""
        between = list(self.around(scope))
        kinds = [self.scopes[one].kind for one in between[: between.index(number)]]
        return self._language != "python" and all(kind is ScopeKind.BLOCK for kind in kinds)

    def _line_before(self, at: int) -> str:
        return self._text[max(self.line_of(at), at - MOST_BESIDE) : at]

    def _read(self, at: int, end: int) -> NameUse:
        text = self._text
        line = self.line_of(at)
        before = self._line_before(at)
        stop = text.find("\n", end, end + MOST_BESIDE)
        after = text[end : stop if stop >= 0 else end + MOST_BESIDE]
        previous = text[max(at - MOST_BESIDE, 0) : at].rstrip()[-1:]
        following = text[end : end + MOST_BESIDE].lstrip()[:1]
        number = self.innermost(at)
        opener = self._opener(at)
        bracket = text[opener] if opener >= 0 else ""
        scope = self.scopes[number] if number != FILE else None
        in_head = scope is not None and scope.start <= at < scope.body
        assigned = _ASSIGNED.match(after) is not None
        embedded = self._hole(at) is not None
        free = (
            (_MEMBER_IN_SCALA if self._language == "scala" else _MEMBER).search(before) is not None
            or (self._language in _ARROW_MEMBERS and _POINTED.search(before) is not None)
            or is_other(self._language, before, after, embedded=embedded)
        )
        parameter = not free and in_head and scope is not None and self._is_parameter(at, end, scope, opener)
        script = self._language in SCRIPT
        own = scope is not None and opener == scope.start
        keyword = following == "=" and assigned and self._language in _NAMED
        labelled = (
            following == ":" and not after.lstrip().startswith("::") and previous in "(," and self._language != "python"
        )
        named = bracket == "(" and not (in_head and own) and (keyword or labelled)
        literal = opener not in self._bodies
        stated = literal or (scope is not None and scope.is_class)
        key = (
            bracket == "{"
            and previous in "{,"
            and (self._braced or self._language == "lua")
            and (
                (following == "=" and assigned and self._is_table(opener))
                or (
                    following == ":"
                    and self._language != "dart"
                    and stated
                    and not re.search(r"\bmap\[[^\]]*\]\S*$", text[max(opener - 80, 0) : opener])
                )
                or (following == "(" and literal and script)
            )
        )
        method = (
            self._braced and following == "(" and scope is not None and scope.is_class and not before.strip(" \t*#")
        )
        member = (
            self._language in ("cpp", "dart")
            and scope is not None
            and opener == self._opener(scope.start)
            and previous in (",", ":")
            and (following in ("(", "{") if self._language == "cpp" else assigned)
        )
        free = free or member or (not parameter and (named or key or method or (script and self._is_markup(at, end))))
        shorthand = not free and (script or self._language == "rust") and self._is_shorthand(at, end, opener)
        outer = is_outer(self._language, before)
        bound = (
            not free
            and not outer
            and (parameter or not (embedded or self._is_typing(in_head, scope)))
            and (parameter or self._is_bound(at, end, before, after, opener))
        )
        since = at
        if bound and not parameter:
            number = self._binder(number, at, before)
            since = self._since(end, number) if self._language in _IN_ORDER else at
        elif bound and scope is not None:
            since = scope.start
        elif (
            scope is not None
            and in_head
            and self._language not in _SEEN_BY_DEFAULTS
            and not outer
            and scope.kind is not ScopeKind.BLOCK
        ):
            number = scope.parent  # a default value, a type or a base
        elif (
            scope is not None
            and not self._braced
            and scope.kind is ScopeKind.BLOCK
            and self._evaluated_before(at, scope)
        ):
            number = scope.parent
        changed = bound and (_CHANGED.match(after) is not None or "++" in after[:4] or "--" in after[:4])
        unclear = is_unclear(self._language, before, after) or (
            bracket == "(" and is_property(self._language, text[max(opener - MOST_BESIDE, 0) : at])
        )
        called = not (free or bound) and is_called(self._language, after)
        return NameUse(at, line, number, free, bound, parameter, outer, shorthand, unclear, changed, since, called)

    def _is_bound(self, at: int, end: int, before: str, after: str, opener: int) -> bool:
        """Whether a name that is no parameter is bound here."""
        text, declared = self._text, self._language in _DECLARED
        bracket = text[opener] if opener >= 0 else ""
        following = text[end : end + MOST_BESIDE].lstrip()[:1]
        previous = before.rstrip()[-1:]
        if (stated := self._is_stated(at, after, opener)) or has_own_bindings(self._language):
            return stated
        if self._declaring.search(before) is not None and not (declared and previous == ":" and bracket != "{"):
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
            assigned = assigned and not (self._language in _CLOSED and after.lstrip().startswith("=>"))
            return assigned or annotated or listed
        if self._language == "go":
            return _SHORT.match(after) is not None and re.search(r"(?:^|[;{:])[\w\s,]*$", before) is not None
        if annotated and self._scope_is_class(at):
            return True
        start = max(opener + 1, text.rfind(";", opener + 1, at) + 1, at - MOST_BESIDE)
        lead = STATEMENT.split(text[start:at])[-1]
        if self._language in _NAME_FIRST:
            more = previous == "," and following in ("=", ",", ";") and (opener < 0 or opener in self._bodies)
            return more and re.match(r"\s*(?:let|const|var|val)\b", lead) is not None
        typed = following in ("=", ";", ",", ":", "[", "{", ")") and not after.lstrip().startswith("==")
        if typed and _PATTERN.search(lead) is not None:
            return True
        one = _TYPED.fullmatch(lead) is not None and (bracket != "(" or self._is_control(opener))
        more = following in ("=", ";", ",", "[") and _MORE.fullmatch(lead) is not None and bracket != "("
        return typed and following != ")" and (one or more)

    def _is_stated(self, at: int, after: str, opener: int) -> bool:
        """Whether the language's own words bind a name here, maybe in a list of several lines."""
        listed = opener >= 0 and self._text[opener] == "("
        first = self.line_of(opener if listed else at)
        generated = self._language == "scala" and after.lstrip().startswith("<-")
        return generated or binds(self._language, self._text[max(first, at - MOST_BESIDE) : at])

    def _is_typing(self, in_head: bool, scope: CodeScope | None) -> bool:
        """Whether a name that is no parameter is in the head of a function, whose types and defaults bind nothing."""
        return self._language == "python" and in_head and scope is not None and scope.kind is ScopeKind.FUNCTION

    def _is_table(self, opener: int) -> bool:
        """Whether a brace opens values whose keys an equals sign follows."""
        changed = re.search(r"\bwith\s*$", self._text[max(opener - 20, 0) : opener]) is not None
        return self._language == "lua" or (self._language == "csharp" and (changed or opener not in self._bodies))

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
        if not self._braced and self._language != "lua":
            scope = self.scopes[number]
            if scope.kind is ScopeKind.BLOCK and (
                scope.start <= at < scope.body
                or (self._language == "python" and _FOR.search(self._text[scope.start : at]))
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
        ends = re.compile(r"[;({\[]" if self._language in ("perl", "rust") else r"[;({\[\n]")
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
        previous, following = text[opener:at].rstrip()[-1:], text[end : end + MOST_BESIDE].lstrip()[:1]
        if previous not in ("{", ",") or following not in (",", "}"):
            return False
        only = previous == "{" and following == "}"
        if only and self._has_markup and self._is_markup(opener, self._pairs[opener] + 1):
            return False
        return not (
            self._has_markup
            and only
            and re.search(r"[\w\"'>}=]$", text[:opener].rstrip(" ")[-1:]) is not None
            and not text[:opener].endswith(("= ", "=> ", "return "))
        )

    def _is_markup(self, at: int, end: int) -> bool:
        """Whether a name is an attribute's, or text between tags."""
        before, after = self._text[max(at - MOST_BESIDE, 0) : at], self._text[end : end + MOST_BESIDE]
        tag = re.search(r"(?:(?:^|[^\w)\]])<|</)$", before) is not None and self._text[at].islower()
        if tag and self._language != "typescript" and after[:1] in (" ", "\n", "/", ">"):
            return True
        if re.search(r"</?\w[\w.]*-$" if after[:1] != "-" else r"</?(?:\w[\w.]*-)*$", before) is not None:
            return True
        if re.match(r"(?:-[\w-]*)?=[{\"']", after) is not None or re.search(r"\w-$", before) is not None:
            attribute = re.search(r"<[A-Za-z][\w.-]*(?:\s[^<>]*(?:=>[^<>]*)*)?\s(?:[\w:-]*[-:])?$", before)
            return attribute is not None and re.match(r"(?:-[\w-]*)?(?:=[{\"']|[\s/>])", after) is not None
        return (
            re.search(r"[\w\"'}/]>[^<>{}();=]*(?:\{[^{}]*\}[^<>{}();=]*)*$", before) is not None
            and re.match(r"[^<>{}();=]*(?:\{(?:[^{}]|\{[^{}]*\})*\}[^<>{}();=]*)*</?[\w>]", after) is not None
        )

    def _is_parameter(self, at: int, end: int, scope: CodeScope, opener: int) -> bool:
        text = self._text
        if scope.is_class:
            return False
        before, after = text[max(scope.start, at - MOST_BESIDE) : at], text[end : end + MOST_BESIDE]
        previous = before.rstrip()[-1:]
        if self._language in INDENTED - {"lua"}:
            return self._is_indented_parameter(before.rstrip(), scope, opener)
        if self._language in _SIGILS:
            before = before[: before.rfind("$")].rstrip(" \n\t&.")
            return opener == scope.start and re.search(r"[(,\w?|\])]$", before) is not None
        if scope.kind is ScopeKind.BLOCK and text[scope.start] == "{":
            ends = re.match(r"\s*(?:[:,)]|->|=>|in\b)", after) is not None
            return ends and previous in ("{", "(", ",", "]") and not text.startswith("=", at)
        if scope.kind is ScopeKind.BLOCK and self._language == "swift" and text.startswith("case", scope.start):
            return re.search(r"\b(?:let|var)\b[^{}]*$", before) is not None
        if scope.kind is ScopeKind.BLOCK:
            matched = text.startswith("=>", scope.body) and not re.search(r"\bif\b", text[scope.start : at])
            if matched and text[at].islower():
                return re.match(r"\s*(?:[({!.]|::)", after) is None
            return text[scope.start] == "|" and (previous in ("|", ",", "(", "&") or before.rstrip().endswith("mut"))
        if opener < scope.start:  # an arrow function of one parameter without brackets
            return at == scope.start
        return self._is_listed(opener, scope) and self._is_named(before.rstrip(), after, scope, opener)

    def _is_indented_parameter(self, before: str, scope: CodeScope, opener: int) -> bool:
        separated = re.search(r"[(,]\s*[*&]*$", before) is not None
        if self._text.startswith("lambda", scope.start):
            return self._opener(scope.start) == opener and (before[-1:] in (",", "*") or before.endswith("lambda"))
        if scope.kind is ScopeKind.BLOCK and self._language == "ruby":
            return before[-1:] in ("|", "(", ",", "*", "&", ";") or before.endswith("->")
        if scope.kind is ScopeKind.BLOCK:
            return False
        bare = opener < scope.start and self._language != "python"
        return bare or (opener == scope.start and separated)

    def _is_listed(self, opener: int, scope: CodeScope) -> bool:
        """Whether a bracket in a function's head holds its parameters, or a pattern of them."""
        text, outer = self._text, opener
        while outer > scope.start and text[outer] in "{[" and self._language in SCRIPT | {"dart"}:
            outer = self._inside[outer]
        if self._language == "scala" and self._inside[outer] == self._inside.get(scope.start):
            return True
        return outer == scope.start or (self._language == "go" and self._inside[outer] < scope.start)

    def _is_named(self, before: str, after: str, scope: CodeScope, opener: int) -> bool:
        """Whether a name among parameters, between `before` and `after`, is one of theirs, and no type's."""
        text, previous, following = self._text, before[-1:], after.lstrip()[:1]
        if text[opener] == "{" and self._language != "dart":
            return following in (",", "}", "=") and previous in ("{", ",", ":", ".")
        separated = previous in ("(", ",")
        if self._language == "go":
            return separated and (following not in (")", ".") or after.lstrip().startswith("..."))
        first = separated or previous in ("[", ".", "&") or _MODIFIER.search(before) is not None
        if self._language == "swift" and following == ":":
            return True
        if self._language in _NAME_FIRST:
            return first and following in (":", ",", ")", "=", "?", "]")
        typed = re.search(r"[\w*&\]>.?]$|\bFunction(?:<[^()]*>)?\([^()]*\)$", before) is not None
        ends = re.sub(r"^\s*(?:\[[^\]]*\]\s*)+", "", after).lstrip()[:1] in (",", ")", "=", "}", "]")
        return ends and (typed or (first and text.startswith(("->", "=>"), scope.body)))


def _bindings(names: Sequence[NameUse]) -> tuple[dict[int, list[int]], set[int]]:
    """Scope → where each of the bindings in it begins to hold; the scopes where a scope around binds the name."""
    outer = {one.scope for one in names if one.outer}
    found = dict[int, list[int]]()
    for one in names:
        if one.bound and one.scope not in outer:
            found.setdefault(one.scope, []).append(one.since)
    return found, outer
