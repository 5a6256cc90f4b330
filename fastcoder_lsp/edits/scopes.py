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
from fastcoder_lsp.syntax import CLOSER_OF, INDENTED, KNOWN, SCRIPT

_DECLARED: Final = KNOWN - INDENTED  # an assignment to a new name is an error there
_NAME_FIRST: Final = SCRIPT | {"go", "kotlin", "rust", "scala", "swift", "zig"}  # a parameter's type follows its name
_IN_ORDER: Final = _DECLARED - SCRIPT  # a declaration holds from its end on
_AGAIN: Final = frozenset({"rust"})  # a second declaration in a block is another variable
_COMPREHENSION: Final = re.compile(r"\b(?:for|in|if)\b|\basync\s+for\b")
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


class CodeScopes(CodeBlocks):
    """The scopes of a document. Takes time linear in its length, and in the occurrences of a name."""

    def __init__(self, text: str, language: str) -> None:
        super().__init__(text, language)
        self._starts = [scope.start for scope in self.scopes]

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
        before = text[max(line, at - MOST_BESIDE) : at]
        stop = text.find("\n", end, end + MOST_BESIDE)
        after = text[end : stop if stop >= 0 else end + MOST_BESIDE]
        previous = text[max(at - MOST_BESIDE, 0) : at].rstrip()[-1:]
        following = text[end : end + MOST_BESIDE].lstrip()[:1]
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
        following = text[end : end + MOST_BESIDE].lstrip()[:1]
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
        previous, following = text[opener:at].rstrip()[-1:], text[end : end + MOST_BESIDE].lstrip()[:1]
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
        before, after = self._text[max(at - MOST_BESIDE, 0) : at], self._text[end : end + MOST_BESIDE]
        if after[:2] in ("={", '="', "='"):
            return re.search(r"<[A-Za-z][\w.]*(?:\s[^<>]*(?:=>[^<>]*)*)?\s$", before) is not None
        return (
            re.search(r"[\w\"'}/]>[^<>{}();=]*$", before) is not None
            and re.match(r"[^<>{}();=]*(?:\{[^{}]*\}[^<>{}();=]*)*</?[\w>]", after) is not None
        )

    def _is_parameter(self, at: int, end: int, scope: CodeScope, opener: int) -> bool:
        text = self._text
        if scope.is_class:
            return False
        before, after = text[max(scope.start, at - MOST_BESIDE) : at], text[end : end + MOST_BESIDE]
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


def _bindings(names: Sequence[NameUse]) -> dict[int, list[int]]:
    """Scope → where each of the bindings in it begins to hold."""
    outer = {one.scope for one in names if one.outer}
    found = dict[int, list[int]]()
    for one in names:
        if one.bound and one.scope not in outer:
            found.setdefault(one.scope, []).append(one.since)
    return found
