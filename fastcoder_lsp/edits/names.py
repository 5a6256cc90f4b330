"""The names of a document by its syntax tree: which scope binds each of them, and which nothing binds."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, NamedTuple

from tree_sitter import Node

from fastcoder_lsp.edits.scope_rules import NameRole, ScopeOwner, rules_of
from fastcoder_lsp.edits.syntax_tree import SyntaxTree, TreeStep, parsed

FILE: Final = -1  # the number of the scope that holds a whole document
MOST_NAMES: Final = 1_000  # occurrences of a name that are looked at
_WORD: Final = re.compile(r"[^\W\d]\w*")
_MOST_BESIDE: Final = 400  # characters on each side of a name that tell what it is
_LARGEST_ERROR: Final = 40  # characters of an error that hides no scope


class ScopedVariable(NamedTuple):
    """A variable of some name: the number of the scope that binds it, or `FILE` for one that no scope binds."""

    scope: int
    since: int = 0  # where its declaration ends, in languages where another one in the block is another variable


ANYWHERE: Final = ScopedVariable(FILE)


@dataclass(frozen=True, slots=True)
class ScopedName:
    """An occurrence of a word in code."""

    name: str
    at: int
    line: int  # the offset of its line's beginning
    scope: int  # the number of the scope that binds it here, or else of the innermost scope around it, or `FILE`
    role: NameRole
    since: int  # where the binding begins to hold
    shorthand: bool = False  # whether it names a property and a variable at once
    called: bool = False  # whether it is called
    broken: bool = False  # whether it is in a part of the text that has an error
    typed: bool = False  # whether it stands where the grammar expects a type

    @property
    def free(self) -> bool:
        """Whether it is a member, a keyword argument or a key, which no scope binds."""
        return self.role.free

    @property
    def bound(self) -> bool:
        """Whether it is bound here."""
        return self.role.binds

    @property
    def parameter(self) -> bool:
        """Whether it is bound here as a parameter."""
        return self.role in (NameRole.PARAMETER, NameRole.PROPERTY)

    @property
    def unclear(self) -> bool:
        """Whether it is another thing's name, too, or may mean another variable."""
        return self.broken or self.role in (NameRole.UNCLEAR, NameRole.PROPERTY)


class SyntaxScope(NamedTuple):
    """A function, class or block of the document."""

    start: int
    end: int
    kind: ScopeOwner
    parent: int  # the number of the scope around it, or `FILE`


class SyntaxScopes:
    """The scopes and names of a document. Takes time linear in its length, and in the occurrences of a name."""

    def __init__(self, tree: SyntaxTree, language: str) -> None:
        self.text, self.language, self._tree, self._rules = tree.text, language, tree, rules_of(language)
        self.scopes = list[SyntaxScope]()
        self._numbers = dict[tuple[int, int, str], int]()  # (start, end, kind) of a node → the number of its scope

    def names(self, *wanted: str) -> list[ScopedName]:
        """The occurrences of some words, or else of all, in code, in order."""
        pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, wanted))})(?!\w)") if wanted else _WORD
        spans = [found.span() for found in pattern.finditer(self.text)]
        found = list[ScopedName]()
        for at, end, path in self._tree.paths(spans[:MOST_NAMES] if wanted else spans, self._scope_of, FILE):
            node, kind = path[-1].node, path[-1].kind
            whole = node.start_byte == at and node.end_byte == end and not node.child_count
            if whole and self.language == "python" and self.text[end : end + 1] in ("'", '"'):
                continue  # a string's prefix
            if whole and (kind in self._rules.names or (node.is_named and kind not in self._rules.texts)):
                found.append(self._read(at, end, path))
            elif kind in self._rules.texts and (role := self._embedded(at, end)) is not None:
                found.append(ScopedName(self.text[at:end], at, self._line(at), path[-1].scope, role, since=at))
        return found

    def quoted(self, at: int) -> bool:
        """Whether an offset is in a comment or in the text of a string."""
        return self._tree.quoted(at)

    def innermost(self, at: int) -> int:
        """The number of the innermost scope around an offset."""
        return next((path[-1].scope for _, _, path in self._tree.paths([(at, at + 1)], self._scope_of, FILE)), FILE)

    def around(self, number: int) -> Iterator[int]:
        """A scope's number, and those of the scopes around it, up to `FILE`."""
        while number != FILE:
            yield number
            number = self.scopes[number].parent
        yield FILE

    def blocks(self, number: int) -> Iterator[int]:
        """A scope's number, and those around it up to its function."""
        for around in self.around(number):
            yield around
            if around == FILE or self.scopes[around].kind is not ScopeOwner.BLOCK:
                return

    def common(self, places: Sequence[int]) -> int:
        """The innermost scope around all of some offsets."""
        chains = [list(self.around(self.innermost(at)))[::-1] for at in places]
        return next((level[0] for level in list(zip(*chains, strict=False))[::-1] if len(set(level)) == 1), FILE)

    def owners(self, names: Sequence[ScopedName]) -> list[ScopedVariable]:
        """For each occurrence of one variable's name the variable that it is."""
        bindings = NameBindings(self, names, adopts=self._rules.adopts)
        found = (self._owner(one.scope, one.since if one.bound else one.at, bindings) for one in names)
        return [owner or ANYWHERE for owner in found]

    def owner_at(self, at: int, names: Sequence[ScopedName]) -> ScopedVariable:
        """The variable that a name means at an offset, whose occurrences are `names`."""
        return self._owner(self.innermost(at), at, NameBindings(self, names, adopts=self._rules.adopts)) or ANYWHERE

    def unbound(self) -> list[ScopedName]:
        """The variables and types that the document uses and that nothing in it binds, in order."""
        uses = dict[str, list[ScopedName]]()
        for one in self.names():
            if not one.free:
                uses.setdefault(one.name, []).append(one)
        found = list[ScopedName]()
        for names in uses.values():
            bindings = NameBindings(self, names, adopts=self._rules.adopts)
            if not any(one.role in (NameRole.UNCLEAR, NameRole.OUTER) for one in names):
                uses_alone = (one for one in names if one.role in (NameRole.USE, NameRole.EXPORTED))
                found += [one for one in uses_alone if self._owner(one.scope, one.at, bindings) is None]
        return sorted(found, key=lambda one: one.at)

    def is_broken(self, number: int) -> bool:
        """Whether an error in a scope may hide where scopes begin or end."""
        scope = self.scopes[number] if number != FILE else None
        start, end = (scope.start, scope.end) if scope is not None else (0, len(self.text))
        return any(start <= node.start_byte <= end and _hides(node) for node in self._tree.errors)

    def is_class(self, number: int) -> bool:
        """Whether a scope is a class."""
        return number != FILE and self.scopes[number].kind is ScopeOwner.CLASS

    def _owner(self, scope: int, at: int, bindings: "NameBindings") -> ScopedVariable | None:
        """The variable that a name means at `at` in `scope`; None where nothing binds it."""
        rules = self._rules
        for number in self.around(scope):
            since: Iterable[int] = bindings.since.get(number, ())
            if rules.in_order and number != FILE and not self.is_class(number):
                since = [one for one in since if one <= at]
            hidden = rules.class_hides and self.is_class(number) and not self._runs_in(scope, number)
            if since and not hidden:
                return ScopedVariable(number, max(since) if rules.again and number != FILE else 0)
            closed = number != FILE and self.scopes[number].kind is ScopeOwner.CLOSED
            if closed and number not in bindings.outer:
                return ScopedVariable(number) if rules.implicit else None
        return None

    def _runs_in(self, scope: int, number: int) -> bool:
        """Whether a scope is a class, or a block in it."""
        between = list(self.around(scope))
        return all(self.scopes[one].kind is ScopeOwner.BLOCK for one in between[: between.index(number)])

    def _scope_of(self, node: Node, kind: str, edge: str, around: int) -> int:
        rules = self._rules
        outside = rules.outside_if.get(edge) or rules.outside_if.get(edge.partition("/")[0].partition(".")[0])
        if around != FILE and (edge in rules.outside or (outside is not None and outside(node))):
            around = self.scopes[around].parent
        end = node.end_byte
        if kind in rules.continued and (before := node.prev_named_sibling) is not None:
            node, kind, edge = before, before.type, ""
        owner = rules.scopes.get(edge) or rules.scopes.get(kind)
        if owner is None or owner is ScopeOwner.NONE or not node.is_named:
            return around
        key = (node.start_byte, node.end_byte, kind)
        if key not in self._numbers:
            self._numbers[key] = len(self.scopes)
            self.scopes.append(SyntaxScope(node.start_byte, end, owner, around))
        return self._numbers[key]

    def _read(self, at: int, end: int, path: Sequence[TreeStep]) -> ScopedName:
        rules, leaf = self._rules, path[-1]
        role, number = rules.roles.get(leaf.edge), len(path) - 1
        role = role if role in (NameRole.MEMBER, NameRole.DECLARED) else NameRole.FREE
        if leaf.kind in rules.names:
            role = NameRole.THROUGH
            while role is NameRole.THROUGH and number:
                edge, parent = path[number].edge, path[number - 1].kind
                role = rules.role(edge, parent)
                if (refine := rules.refined.get(edge) or rules.refined.get(parent)) is not None:
                    role = refine(role, path[: number + 1])
                number -= 1
            if (refine := rules.refined.get("*")) is not None:
                role = refine(role, path)
            role = NameRole.USE if role is NameRole.THROUGH else role
        scope, since = leaf.scope, at
        if role.binds:
            scope, since = self._binder(path[number].scope, role), end
            if (declared := rules.since.get(path[number + 1].edge)) is not None:
                since = declared(path[number + 1].node)
            elif role in (NameRole.PARAMETER, NameRole.PROPERTY, NameRole.ABOVE):
                since = self.scopes[scope].start if scope != FILE else 0
            elif rules.after and path[number].kind not in rules.scopes:
                since = path[number].node.end_byte
        return ScopedName(
            self.text[at:end],
            at,
            self._line(at),
            scope,
            role,
            since,
            shorthand=leaf.kind in rules.shorthands or leaf.edge in rules.shorthands,
            called=rules.calls and role is NameRole.USE and self._beside(end).lstrip().startswith("("),
            typed=leaf.kind == "type_identifier",
            broken=any(step.kind == "ERROR" for step in takewhile(lambda one: one.scope == leaf.scope, reversed(path))),
        )

    def _line(self, at: int) -> int:
        return self.text.rfind("\n", 0, at) + 1

    def _beside(self, at: int) -> str:
        return self.text[at : at + _MOST_BESIDE]

    def _embedded(self, at: int, end: int) -> NameRole | None:
        """The role of a name in a string, by the text on its two sides."""
        if self._rules.embedded is None:
            return None
        before, after, role = self._rules.embedded
        shown = before.search(self.text[max(self._line(at), at - _MOST_BESIDE) : at]) is not None
        return role if shown and after.match(self._beside(end)) is not None else None

    def _binder(self, number: int, role: NameRole) -> int:
        """The scope that a binding in scope `number` belongs to."""
        if role is NameRole.ABOVE:
            number = self.scopes[number].parent if number != FILE else FILE
            while number != FILE and self.scopes[number].kind is ScopeOwner.TEMPLATE:
                number = self.scopes[number].parent
        hoists = role.hoists and not self._rules.adopts
        while hoists and number != FILE and self.scopes[number].kind is ScopeOwner.BLOCK:
            number = self.scopes[number].parent
        return number


class NameBindings:
    """Where the occurrences of a name bind it."""

    def __init__(self, scopes: SyntaxScopes, names: Iterable[ScopedName], *, adopts: bool) -> None:
        names = list(names)
        self.outer = {one.scope for one in names if one.role is NameRole.OUTER}
        self.since = dict[int, list[int]]()
        """Scope → where each of the bindings in it begins to hold."""
        for one in names:
            number = one.scope
            if one.bound and number not in self.outer:
                if adopts and one.role.hoists:
                    number = next((around for around in scopes.blocks(number) if around in self.since), number)
                self.since.setdefault(number, []).append(one.since)


def scopes_of(text: str, language: str) -> SyntaxScopes | None:
    """The scopes of a document; None without a grammar, or where the text is too long or too hard to parse."""
    tree = parsed(text, language)
    return SyntaxScopes(tree, language) if tree is not None else None


def _hides(error: Node) -> bool:
    """Whether an error may begin or end a scope or a string: it is long, or has words, brackets or quotes."""
    signs = [child.type for child in error.children if not child.is_named]
    signs += [] if error.children else [(error.text or b"").decode()]
    long = error.end_byte - error.start_byte > _LARGEST_ERROR
    return error.is_missing or long or any(sign.strip(".,;:=+-*/%&|!?<>") for sign in signs)
