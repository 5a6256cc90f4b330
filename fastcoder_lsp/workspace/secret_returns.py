"""Literals that a function or property with a secret's name returns on a later line.

Owns how definitions begin in each language, and where their bodies end. Pure.
"""

import re
from dataclasses import dataclass

from fastcoder_lsp.workspace.secret_names import NameSecrecy, name_words, secrecy_of, words
from fastcoder_lsp.workspace.secret_values import LiteralShape, shape_of

_MAX_LINES = 20
"""Of a body; longer functions do more than return a value."""
_MIN_SUM = 4
"""The least sum of a name's secrecy and a returned literal's shape that makes a secret."""

_DEFINES = words("def fn func function fun sub get")
_LAST_VALUE = words("rust ruby elixir scala crystal julia r")
"""Languages whose functions return their last value."""
_PROPERTIES = words("csharp swift kotlin ruby crystal elixir scala")
"""Languages whose properties need no brackets."""
_NO_FUNCTIONS = words(
    "markdown plaintext restructuredtext properties ini yaml toml dockerfile dotenv makefile diff xml html json jsonc "
    "sql css terraform http"
)
_NOT_RETURNED = words(
    "check validate verify change reset forgot forgotten update set hash encrypt decrypt mask parse remove delete show "
    "render save edit test is has on handle compare confirm require ask prompt next peek scan lex skip expect"
)
"""Verbs of functions that do not return the secret."""
_STATEMENTS = words("return new else throw await yield if for while switch catch assert raise print case with elif")
_RECEIVER = re.compile(r"^(\s*func\s*)\([^()]*\)")
"""Of a method in Go."""
_FUNCTION = re.compile(r"\b([^\W\d]\w*+)\??!?\s*+(?:[=:]\s*+(?:async\s*+)?(?:function\s*+)?)?$")
_PROPERTY = re.compile(r"^\s*(?:[\w<>?]++\s++)+([^\W\d]\w*+)\s*+(?::\s*+\w++\??\s*+)?(?:\{|do|=)?\s*$")
_STRING = r"""[A-Za-z]{0,2}(?:"([^"\\]{1,200})"|'([^'\\]{1,200})'|`([^`\\]{1,200})`)"""
_RETURNED = re.compile(
    r"(?:\breturn\b|\bget\s*+(?:\(\)\s*+)?(?:=>?|\{))\s*+(?:\(\s*+)?&?(?:new\s++)?(?:[A-Za-z_][\w.:]{0,40}\(\s*+)?"
    + _STRING
)
_LAST = re.compile(r"^\s*(?:[A-Z]\w*::\w+\()?" + _STRING + r"\)?(?:\.\w+(?:\(\))?)?\s*$")


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a function with a secret's name.

    Attributes:
        secrecy: of the name.
        depth: the indentation of its first line.
        left: lines that it may still have.
    """

    secrecy: NameSecrecy
    depth: int
    left: int = _MAX_LINES

    def below(self, line: str) -> "Body | None":
        """The rest of the body below a `line`; None if the line does not belong to it."""
        text = line.lstrip()
        deeper = len(line) - len(text) > self.depth or text[:1] in {"", "{", ")"}
        return Body(self.secrecy, self.depth, self.left - 1) if deeper and self.left else None

    def returns_secret(self, line: str, language: str) -> bool:
        """Whether a line of the body returns a literal that looks secret enough."""
        found = _RETURNED.search(line) or (_LAST.match(line) if language in _LAST_VALUE else None)
        value = next(filter(None, found.groups()), "") if found is not None else ""
        shape = shape_of(value)
        return shape > LiteralShape.NONE and not re.search(r"\s", value) and self.secrecy + shape >= _MIN_SUM


def body_below(line: str, language: str) -> Body | None:
    """The body that begins below a `line` that defines a function or property with a secret's name."""
    if language in _NO_FUNCTIONS:
        return None
    name = _defined(_RECEIVER.sub(r"\1", line), language)
    parts = name_words(name)
    if not parts or parts[0] in _NOT_RETURNED or (secrecy := secrecy_of(name)) is NameSecrecy.NONE:
        return None
    return Body(secrecy, len(line) - len(line.lstrip()))


def _defined(line: str, language: str) -> str:
    """The name of the function or property that a line begins to define; "" if there is none."""
    head, bracket, rest = line.partition("(")
    before = head.split()
    if not before or not _STATEMENTS.isdisjoint(before):
        return ""
    if not bracket:
        found = _PROPERTY.match(line) if language in _PROPERTIES else None
        return found[1] if found is not None else ""
    defines = not _DEFINES.isdisjoint(before)
    block = rest.rstrip().endswith("{") or (len(before) > 1 and rest.rstrip().endswith(")"))
    if not (defines or block) or any(mark in head for mark in "\"'`;"):
        return ""
    found = _FUNCTION.search(head)
    return found[1] if found is not None and ("=" not in head or "=>" in rest or defines) else ""
