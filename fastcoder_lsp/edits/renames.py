"""A variable that the user renamed at one place, renamed at its other places: next edits without a model.

Scopes are the proof: where its binding has a new name, its uses have none; where one use has a new name that nothing
binds, its binding and its other uses still have the old one. All places are offered together, as soon as one changed.
Nothing is offered where the new name means another variable, or where the old one may still mean something.
"""

import builtins
import keyword
import re
from collections.abc import Iterator, Sequence
from typing import Final

from fastcoder_lsp.core import Change
from fastcoder_lsp.core.differences import whole_lines
from fastcoder_lsp.edits.arguments import function_of, named_arguments, own_uses
from fastcoder_lsp.edits.minimal import line_hunks
from fastcoder_lsp.edits.names import ANYWHERE, FILE, ScopedName, SyntaxScopes, scopes_of
from fastcoder_lsp.edits.scope_rules import NameRole
from fastcoder_lsp.edits.values import MOST_EDITS, Edit, EditQuestion

TOKEN: Final = re.compile(r"\w+|[^\S\n]+|[^\w\s]|\n")
MOST_CHANGES: Final = 16  # latest changes that are compared
MOST_LINES: Final = 64  # changed lines of them that are compared
MOST_DIFFERENT: Final = 60  # tokens, old and new, between the common ends of a line: with more it is another line
_VALUES: Final = frozenset({"true", "false", "null", "nil", "undefined", "this", "self", "super"})
"""Words of other languages than Python that no scope binds."""
_EVERYTHING: Final = re.compile(r"^[ \t]*from\b.*\bimport[ \t]*\*", re.MULTILINE)

_NO_TYPE: Final = re.compile(r"\b(?:const(?!\s+enum\b)|let|var|function)\b")
"""Words of TypeScript that declare values alone."""
_MOST_TYPE: Final = 400  # characters after a variable's name that tell its type
_VALUE: Final = (
    r"(?:std::)?(?:u?int\d*(?:_t)?|u?long|u?short|s?byte|u?char|bool(?:ean)?|float|double|decimal|string(?:_view)?|size_t"
    r"|num|U?Int|U?Long|U?Short|U?Byte|Char|Boolean|Float|Double|String|Integer|list|vector|map|set|List|Map|Set)"
    r"\b(?:<[^()]*>)?"
)
"""Types whose values nobody calls."""
_VALUE_BEFORE: Final = re.compile(rf"(?<![\w.:<]){_VALUE}(?:\[\])*[\s?&*]+$")
_VALUE_AFTER: Final = re.compile(rf"\w+\s*:\s*{_VALUE}")
_FUNCTION_AFTER: Final = re.compile(
    r"\w+\s*:\s*(?:@\w+\s+)*(?:suspend\s+)?(?:[\w.<>?]+\.)?\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*->"
)


def is_name(tokens: str) -> bool:
    """Whether a scope may bind it."""
    return tokens.isidentifier() and not keyword.iskeyword(tokens) and tokens not in _VALUES


def renamed(question: EditQuestion) -> tuple[Edit, ...]:
    """The other places of a variable that the last change renamed at one or more; empty where no scope proves them."""
    text, history = question.text, question.history
    if not history or history[-1].path != question.path:
        return ()
    pairs = {(old, new) for old, new, _ in names_changed(text, history, len(history) - 1)}
    for old, new in sorted(pairs):
        if not re.search(rf"(?<!\w){re.escape(old)}(?!\w)", text):
            continue
        made = set[int]()
        for number in range(len(history) - 1, max(len(history) - 1 - MOST_CHANGES, -1), -1):
            if history[number].path == question.path:
                made.update(at for *pair, at in names_changed(text, history, number) if pair == [old, new])
        if (scopes := scopes_of(text, question.language)) is None:
            return ()
        if places := _places(scopes, question, old, new, made):
            edits = [Edit(one.at, one.at + len(old), f"{old}: {new}" if one.shorthand else new) for one in places]
            edits += [Edit(at, at + len(old), new) for at in _named(scopes, old, [*places, *_at(scopes, new, made)])]
            return tuple(sorted(edits, key=lambda edit: edit.start)) if len(edits) <= MOST_EDITS else ()
    return ()


def _at(scopes: SyntaxScopes, name: str, made: set[int]) -> list[ScopedName]:
    return [one for one in scopes.names(name) if one.at in made]


def _named(scopes: SyntaxScopes, old: str, variable: Sequence[ScopedName]) -> Iterator[int]:
    """Where a function that calls itself names the parameter that all of `variable` are.

    Calls elsewhere in the file are other edits: see `edits_elsewhere`.
    """
    parameter = next((one for one in variable if one.parameter), None)
    if parameter is None or scopes.language != "python":
        return
    if (called := function_of(scopes, scopes.text, parameter)) is not None:
        own = scopes.scopes[parameter.scope]
        ends = [one for one in own_uses(scopes.text, "python", called) if own.start < one < own.end]
        yield from named_arguments(scopes.text, "python", ends, old)


def _places(scopes: SyntaxScopes, question: EditQuestion, old: str, new: str, made: set[int]) -> Sequence[ScopedName]:
    new_names = scopes.names(new)
    mine = [one for one in new_names if one.at in made]
    old_names = _of_its_kind(scopes, scopes.names(old), mine)
    others = [one for one in new_names if one.at not in made and not one.free]
    if not mine or any(one.free or one.called for one in mine):
        return ()
    uses = sorted([*(one for one in old_names if not one.free), *mine], key=lambda one: one.at)
    owner = dict(zip(uses, scopes.owners(uses), strict=True))
    variable = owner[mine[0]]
    places = [one for one in uses if one not in mine and owner[one] == variable]
    if any(one.called for one in places):
        calls = _calls(scopes, next((one for one in uses if one.bound and owner[one] == variable), mine[0]), old)
        if calls is None:
            return ()
        places = places if calls else [one for one in places if not one.called]
    if not 0 < len(places) <= MOST_EDITS or any(owner[one] != variable for one in mine):
        return ()
    if any(variable.scope in scopes.around(one.scope) for one in others):
        return ()
    if not _is_sure(scopes, variable.scope, [*old_names, *mine]):
        return ()
    if scopes.is_broken(FILE) and variable.scope != FILE and any(owner[one] == ANYWHERE for one in uses):
        return ()  # it may end too early
    if any(one.role is NameRole.EXPORTED for one in places) or any(one.role is NameRole.IMPORTED for one in mine):
        return ()  # other files know it, or another thing is imported now
    if any(one.bound for one in mine):
        return places if _leaves_unbound(min(one.at for one in mine if one.bound), places) else ()
    said = len(re.findall(rf"(?<!\w){re.escape(new)}(?!\w)", question.text))
    known = said > len(mine) or (question.language == "python" and hasattr(builtins, new))
    local = variable.scope != FILE and any(one.bound for one in places)
    return places if local and not known and not _EVERYTHING.search(question.text) else ()


def _of_its_kind(scopes: SyntaxScopes, names: Sequence[ScopedName], mine: Sequence[ScopedName]) -> Sequence[ScopedName]:
    """Those of the names that may be what was renamed: in TypeScript a type and a value may share a name."""
    bound = next((one for one in mine if one.bound), None)
    if bound is None or scopes.language not in ("typescript", "typescriptreact"):
        return names
    before = scopes.text[bound.line : bound.at]
    both = before.rstrip().endswith("class") if bound.typed else not (bound.parameter or _NO_TYPE.search(before))
    return names if both else [one for one in names if one.typed == bound.typed]


def _is_sure(scopes: SyntaxScopes, number: int, names: Sequence[ScopedName]) -> bool:
    """Whether the text shows which of the names are a variable of a scope."""
    if scopes.is_broken(number) or any(one.broken for one in names):
        return False
    if any(one.unclear and number in scopes.around(one.scope) for one in names):
        return False
    return not scopes.is_class(number) or all(one.role is not NameRole.MEMBER for one in names)


def _calls(scopes: SyntaxScopes, binding: ScopedName, old: str) -> bool | None:
    """Whether a call of a variable's old name calls the variable, by its type; None where nothing tells."""
    before, after = scopes.text[binding.line : binding.at], scopes.text[binding.at : binding.at + _MOST_TYPE]
    if scopes.language != "kotlin":  # a variable hides a method of its name
        return _VALUE_BEFORE.search(before) is None
    if _FUNCTION_AFTER.match(after) is not None:
        return True
    if _VALUE_AFTER.match(after) is not None:
        return False
    declared = any(one.role is NameRole.DECLARED for one in scopes.names(old))
    typed = re.match(r"\w+\s*:", after) is not None
    return None if typed != declared else not declared


def _leaves_unbound(at: int, places: Sequence[ScopedName]) -> bool:
    """Whether the first of a variable's other `places` needs the binding at `at`, which has another name now."""
    if any(one.bound and one.at < at for one in places):
        return False
    first = next((one for one in places if one.at > at), places[0])
    return (
        not first.bound
        or first.role is NameRole.CHANGED
        or any(not one.bound and one.line == first.line for one in places)
    )


def names_changed(text: str, history: Sequence[Change], number: int) -> Iterator[tuple[str, str, int]]:
    """(old name, new name, its offset) of each name that a change replaced, where the text still has the new one."""
    lines = list(changed_lines(history, number))[:MOST_LINES]
    for line, last, new in lines:
        tokens, after = TOKEN.findall(_begun(history, number, line, last)), TOKEN.findall(new)
        hunks = line_hunks(tokens, after)
        start = _start_of(text, line)
        if not hunks or hunks[-1][1] - hunks[0][0] + hunks[-1][3] - hunks[0][2] > MOST_DIFFERENT:
            continue
        for a, b, c, d in hunks:
            if b - a == d - c == 1 and is_name(tokens[a]) and is_name(after[c]):
                at = start + sum(map(len, after[:c]))
                if re.compile(rf"(?<!\w){re.escape(after[c])}(?!\w)").match(text, at):
                    yield tokens[a], after[c], at


def _begun(history: Sequence[Change], number: int, line: int, old: str) -> str:
    """A line before the changes in a row that end with this one: a pause amid a name ends a change."""
    for earlier in range(number - 1, max(number - MOST_CHANGES, -1), -1):
        if history[earlier].path == history[number].path:
            before = (was for at, was, new in changed_lines(history, earlier) if (at, new) == (line, old))
            old = next(before, old)
    return old


def _start_of(text: str, line: int) -> int:
    at = -1
    for _ in range(line):
        at = text.find("\n", at + 1)
    return at + 1


def changed_lines(history: Sequence[Change], number: int) -> Iterator[tuple[int, str, str]]:
    """(line in the file as it is now, old, new) of the changed lines; several lines where their numbers differ."""
    change = history[number]
    now = change.line
    for later in history[number + 1 :]:
        if later.path == change.path and later.line <= now:
            now = max(now + later.new.count("\n") - later.old.count("\n"), 0)
    old, new = whole_lines(change.old), whole_lines(change.new)
    for a, b, c, d in line_hunks(old, new):
        if b - a == d - c:
            yield from ((now + line, old[a - c + line], new[line]) for line in range(c, d))
        elif a < b and c < d:
            yield now + c, "".join(old[a:b]), "".join(new[c:d])
