"""What a real checker reports about Python text, as an editor's other servers would: pyflakes, in this process."""

import ast
from functools import lru_cache
from importlib import import_module
from pathlib import PurePath

from fastcoder_lsp.core import Diagnostic
from fastcoder_lsp.core.bounds import MOST_DIAGNOSTICS
from fastcoder_lsp.model.machine import require_packages

_UNUSED = ("Unused", "Redefined")


def require_checker() -> None:
    """Check that pyflakes is installed.

    Raises:
        InstallationError: it is not.
    """
    require_packages("the arm 'diagnostics'", "pyflakes")


def diagnostics_of(text: str, path: str, offset: int) -> tuple[Diagnostic, ...]:
    """The diagnostics of a file that a client would send with the cursor at `offset`; none for other languages."""
    cursor = text.count("\n", 0, offset)
    return tuple(sorted(_all(text, path), key=lambda one: abs(one.line - cursor))[:MOST_DIAGNOSTICS])


@lru_cache(maxsize=64)
def _all(text: str, path: str) -> tuple[Diagnostic, ...]:
    """All of them; code that is not used is a hint, as in pyright."""
    if PurePath(path).suffix != ".py":
        return ()
    lines = text.split("\n")
    try:
        parsed = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        number = min(max(getattr(error, "lineno", None) or 1, 1), len(lines))
        found = [(number, 1, str(getattr(error, "msg", error)))]
    else:
        messages = import_module("pyflakes.checker").Checker(parsed, path).messages
        found = [
            (one.lineno, 4 if type(one).__name__.startswith(_UNUSED) else 1, one.message % one.message_args)
            for one in messages
        ]
    return tuple(
        Diagnostic(number - 1, severity, message, lines[number - 1].strip())
        for number, severity, message in found
        if lines[number - 1].strip()
    )
