"""The calls of Python's functions that name a parameter, where the text shows what is called."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from fastcoder_lsp.edits.names import FILE, ScopedName, SyntaxScopes, scopes_of
from fastcoder_lsp.edits.syntax_tree import quoting

_DEFINES: Final = re.compile(r"^(?P<indent>[ \t]*)(?:async[ \t]+)?def[ \t]+(?P<name>\w+)[ \t]*\(", re.MULTILINE)
_CLASS: Final = re.compile(r"^class[ \t]+(?P<name>\w+)", re.MULTILINE)
_MOST_ARGUMENTS: Final = 4_000  # characters of a call


def function_of(scopes: SyntaxScopes, text: str, parameter: ScopedName) -> str | None:
    """The function or class of a Python file whose calls name a parameter; None for methods and inner functions.

    Calls cannot name a parameter that takes several arguments.
    """
    if text.endswith("*", 0, parameter.at):
        return None
    start = scopes.scopes[parameter.scope].start
    if (head := _DEFINES.match(text, text.rfind("\n", 0, start) + 1)) is None:
        return None
    if not head["indent"]:
        return head["name"]
    classes = [one for one in _CLASS.finditer(text, 0, head.start()) if not scopes.quoted(one.start())]
    around = scopes.scopes[parameter.scope].parent
    is_own = classes and around != FILE and scopes.scopes[around].parent == FILE and scopes.is_class(around)
    return classes[-1]["name"] if is_own and head["name"] == "__init__" else None


def own_uses(text: str, language: str, name: str) -> tuple[int, ...]:
    """Where each use of a definition ends in its own file; none where the file binds its name twice."""
    if (scopes := scopes_of(text, language)) is None:
        return ()
    uses = [one for one in scopes.names(name) if not one.free]
    owners = scopes.owners(uses)
    mine = [one for one, owner in zip(uses, owners, strict=True) if owner.scope == FILE]
    if sum(one.bound for one in mine) != 1:
        return ()
    return tuple(one.at + len(name) for one in mine if not one.bound)


def named_arguments(text: str, language: str, ends: Iterable[int], name: str) -> Iterator[int]:
    """Where calls name an argument so; each calls what ends at one of `ends`."""
    is_quoted = quoting(text, language)
    for end in ends:
        yield from _named_argument(is_quoted, text, end, name)


def _named_argument(is_quoted: Callable[[int], bool], text: str, end: int, name: str) -> Iterator[int]:
    """Where the call of what ends at `end` names an argument so; nothing where that is no call."""
    opener = re.compile(r"[ \t]*\(").match(text, end)
    if opener is None:
        return
    depth = 1
    for found in re.compile(rf"[()\[\]{{}}]|(?<=[(,\s]){re.escape(name)}(?=\s*=(?!=))").finditer(
        text, opener.end(), opener.end() + _MOST_ARGUMENTS
    ):
        if is_quoted(found.start()):
            continue
        if found[0] in ("(", "[", "{"):
            depth += 1
        elif found[0] in (")", "]", "}"):
            depth -= 1
            if not depth:
                return
        elif depth == 1:
            yield found.start()
