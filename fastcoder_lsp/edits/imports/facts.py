"""The facts that are kept of a file's imports."""

from typing import Final, NamedTuple

MOST_FACTS: Final = 2_000  # imported, defined and used names of one file

TYPE_KINDS: Final = ("type", "inline type")  # of imports that types alone may use: a statement, or a member of one


class ImportTarget(NamedTuple):
    """The thing that an import names, whatever it is called in a file.

    `source` is a module's or package's full name, or a path from the workspace folder, which begins with a slash.
    """

    source: str
    member: str = ""  # the imported name; empty for the source itself, `*` for all of it under a name, or `default`
    kind: str = ""  # `type`, `inline type`, `static`, `function`, `const`: an import of its own form


class NamedTarget(NamedTuple):
    """A name in a file, its target, and the source as the file spells it."""

    name: str
    target: ImportTarget
    spelled: str


class FileImports(NamedTuple):
    """The facts that the table keeps of one file."""

    imported: tuple[NamedTarget, ...] = ()
    defined: tuple[tuple[str, str], ...] = ()
    """(name, member) of the file's own definitions that others may import."""
    package: str = ""
    used: frozenset[str] = frozenset()  # names that tell what an import is for, where the import names none
    types: frozenset[str] = frozenset()  # those of the definitions that are types, and no values
    single: bool | None = None  # whether each statement imports one name; None where that does not show


class ImportableName(NamedTuple):
    """A file that defines a name."""

    path: str
    package: str  # the source by which others import it; empty where none can
    member: str
