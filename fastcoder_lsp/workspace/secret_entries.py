"""Names and values of one entry that stand on lines of their own, in either order; and bodies of secret functions.

An entry is an object, a block, an element or the arguments of a call: `name: DB_PASSWORD`, `type: string`, `value: …`.
Its lines have the same indentation. A netrc entry, `machine …`, `login …`, `password …`, is one in any language: a
string or a here-document may hold it. `Body` finds the literals that a function or property with a secret's name
returns.
"""

import re
from dataclasses import dataclass, replace

from fastcoder_lsp.workspace.secret_names import NameSecrecy, name_words, secrecy_of, words
from fastcoder_lsp.workspace.secret_values import LiteralShape, shape_of

_MAX_LINES = 20  # of an entry
_MIN_SUM = 4  # the least sum of a name's secrecy and a value's shape that makes a secret
_MAX_COMMENT_WORDS = 4  # a longer comment describes more than the argument below it
_LIKELY = re.compile(
    r"""(?i)(?:-\s+)?(?:<\w[\w:.-]{0,60}\s{1,8}|[<"'])?(?:\w{0,20}name|key|id|var|param|option|val|default|content|"""
    r"""plaintext|secret_?value|string)|[\[\#/]|["']--"""
)
"""A quick filter: matches every text that may begin an entry, except options of a command, `"--token"`."""
_SIGN = r"""["']?\s{0,20}(?:=>|[:=>])\s{0,20}"""
_NAME = re.compile(
    r"""(?:(?P<tag><\w[\w:.-]{0,60}\s{1,8})|[<"'])?(?:\w{0,20}[nN]ame|[kK]ey|id|var(?:iable)?|param(?:eter)?|option)"""
    + _SIGN
    + r"""["']?(?P<name>[^\s"'<>,;{}]{2,80})["']?\s{0,8}(?:[,;]|/?>|</\w{1,20}>|(?:\#|//).*)?$"""
)
_FLAG = re.compile(r"""(?:^|\(|,\s?)["']--([A-Za-z][\w-]{1,60})["'],""")
_SECTION = re.compile(r"\[([\w. -]{1,80})\]$")
_SECTIONS = frozenset(("ini", "toml", "properties"))
_VALUE = re.compile(
    r"""(?i)[<"']?(?:value|val|default_?value|default|content|plaintext|secret_?value|string)"""
    + _SIGN
    + r"""(?P<value>\S.*)$"""
)
_QUOTED = re.compile(r"""[rbufRBUF@$]{0,2}(?:"([^"\s]{1,400})"|'([^'\s]{1,400})'|`([^`\s]{1,400})`)""")
_WORD = re.compile(r"[^\s,;<>\"'(){}\[\]]{1,400}(?=\s*(?:$|#|<))")
_SCALAR = re.compile(r"[|>][-+\d]{0,2}\s{0,8}(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class SecretEntry:
    """An open entry."""

    depth: int  # the indentation of its lines; its least, where `loose`
    loose: bool = False  # whether the next line decides the indentation, as after the beginning of a call
    left: int = _MAX_LINES  # lines that it may still have
    secrecy: NameSecrecy = NameSecrecy.NONE  # of the name that its lines give
    comment: bool = False  # whether a comment gives the name of a lone argument
    values: tuple[tuple[int, LiteralShape], ...] = ()
    """The lines above with values: how many lines above the last one read, and the shape of each."""
    hidden: tuple[int, ...] = ()
    """The lines above, counted from this one, whose values the name of this line makes secret."""
    scalar: bool = False  # whether the lines below that are indented more belong to its value


def read_entry(entry: SecretEntry | None, line: str, language: str, *, bare: bool) -> tuple[bool, SecretEntry | None]:
    """Whether a line gives the value of an entry that names a secret, and the entry that is open below it.

    `entry` is open above; `bare`: values have no quotes.
    """
    text = line.lstrip()
    if entry is None and not _LIKELY.match(text) and "--" not in text:
        return False, None
    item = text.startswith("- ")
    text = text[2:].lstrip() if item else text
    depth = len(line) - len(text)
    text = text.rstrip()
    if entry is not None:
        values = tuple((above + 1, shape) for above, shape in entry.values)
        entry = replace(entry, left=entry.left - 1, values=values, hidden=()) if entry.left else None
    if not text:
        return False, entry
    section = _SECTION.match(text) if language in _SECTIONS else None
    if entry is not None and (depth < entry.depth or (item and depth <= entry.depth) or section is not None):
        entry = None
    if entry is not None and entry.loose:
        entry = replace(entry, depth=depth, loose=False)
    if entry is not None and depth > entry.depth:
        grown = entry.values + ((0, LiteralShape.LONG),) * entry.scalar
        return False, replace(entry, values=grown)
    if section is not None:
        return False, _named(SecretEntry(depth), section[1])
    return _read(entry or SecretEntry(depth), text, depth, bare=bare)


def _read(entry: SecretEntry, text: str, depth: int, *, bare: bool) -> tuple[bool, SecretEntry | None]:
    entry = replace(entry, scalar=False)
    if entry.comment:
        value = _QUOTED.match(text)
        lone = value is not None and text[value.end() :] in {"", ","}
        return lone and _is_secret(entry.secrecy, _shape(text, bare=False)), None
    if text[0] in "#/":
        spoken = text.strip("#/* :.").split()
        named = 0 < len(spoken) <= _MAX_COMMENT_WORDS and secrecy_of(spoken[-1]) is NameSecrecy.SURE
        kept = entry if entry.secrecy or entry.values else None
        return False, SecretEntry(depth, left=1, secrecy=NameSecrecy.SURE, comment=True) if named and not kept else kept
    if (value := _VALUE.match(text)) is not None:
        shape = _shape(value["value"], bare=bare or text[0] == "<")
        scalar = bare and _SCALAR.match(value["value"]) is not None
        shape = LiteralShape.LONG if scalar else shape
        entry = replace(entry, values=(*entry.values, (0, shape)), scalar=scalar)
        return _is_secret(entry.secrecy, shape), entry
    if (flag := _FLAG.search(text)) is not None and not text.endswith(")"):
        return False, _named(SecretEntry(depth + (text[0] not in "\"'"), loose=text[0] not in "\"'"), flag[1])
    if (name := _NAME.match(text)) is not None:
        if name["tag"]:
            return False, _named(SecretEntry(depth + 1, loose=True), name["name"]) if text[-1] != ">" else None
        return False, _named(entry, name["name"]) or entry
    return False, entry if entry.secrecy or entry.values else None


def _named(entry: SecretEntry, name: str) -> SecretEntry | None:
    secrecy = secrecy_of(re.split(r"[.:/]", name.rstrip(".:/"))[-1])
    if secrecy < NameSecrecy.MAYBE:
        return None
    hidden = tuple(above for above, shape in entry.values if _is_secret(secrecy, shape))
    return replace(entry, secrecy=max(secrecy, entry.secrecy), hidden=hidden)


def _is_secret(secrecy: NameSecrecy, shape: LiteralShape) -> bool:
    return secrecy >= NameSecrecy.MAYBE and shape > LiteralShape.NONE and secrecy + shape >= _MIN_SUM


def _shape(text: str, *, bare: bool) -> LiteralShape:
    if (quoted := _QUOTED.match(text)) is not None:
        return shape_of(next(filter(None, quoted.groups())))
    word = _WORD.match(text) if bare else None
    return shape_of(word[0]) if word is not None else LiteralShape.NONE


_NETRC_BEGINS = re.compile(r"""(?:^|["'`])[\s+-]*(?:machine|default)(?=\s|\\[nrt]|$)""")
_NETRC_BREAK = re.compile(r"(?:\s|\\[nrt])+")
_NETRC_AROUND = " \t\r\"'`+,;()"  # around the line of a netrc entry in a string, or in a list of strings
_NETRC_WORDS = frozenset(("machine", "login", "account", "password"))


@dataclass(frozen=True, slots=True)
class NetrcEntry:
    """An open entry of a netrc file, with `left` lines at most."""

    expects: str = ""  # the word whose value is next; "" if a word is
    named: bool = False  # it names a machine or a login, so that a password in it is one
    left: int = _MAX_LINES


def read_netrc(entry: NetrcEntry | None, line: str) -> tuple[bool, NetrcEntry | None]:
    """Whether a line holds the password of a netrc entry (netrc(5) of ftp and curl), and the entry open below it."""
    begun = _NETRC_BEGINS.search(line) if entry is None and ("machine" in line or "default" in line) else None
    if entry is None and begun is None:
        return False, None
    entry = NetrcEntry() if entry is None else replace(entry, left=entry.left - 1)
    words = _NETRC_BREAK.split((line[begun.start() :] if begun is not None else line).strip(_NETRC_AROUND))
    secret = False
    for word in filter(None, words):
        if entry.expects:
            secret |= entry.expects == "password" and entry.named
            entry = replace(entry, expects="", named=entry.named or entry.expects in {"machine", "login"})
        elif word in _NETRC_WORDS:
            entry = replace(entry, expects=word)
        elif word == "default":
            entry = NetrcEntry()
        elif word.startswith("#"):
            break
        else:
            return secret, None
    return secret, entry if entry.left > 0 else None


"""Of a body; longer functions do more than return a value."""
"""The least sum of a name's secrecy and a returned literal's shape that makes a secret."""

_DEFINES = words("def fn func function fun sub get")
_LAST_VALUE = words("rust ruby elixir scala crystal julia r")  # languages whose functions return their last value
_PROPERTIES = words("csharp swift kotlin ruby crystal elixir scala")  # languages whose properties need no brackets
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
_RECEIVER = re.compile(r"^(\s*func\s*)\([^()]*\)")  # of a method in Go
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
    """The body of a function whose name has this secrecy: the indentation of its first line, and lines left."""

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
