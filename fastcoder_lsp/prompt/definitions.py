"""The heads of definitions of names near a cursor, where somebody knows which they are: an editor's other servers.

Owns what of a definition is shown and which of them are; the places are given (`core.Definition`), and reading their
files is the caller's (`load`). A text that has changed since is looked at around the place that was told.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from fastcoder_lsp.core import Definition
from fastcoder_lsp.index.words.terms import Terms
from fastcoder_lsp.prompt.context import ContextSnippet
from fastcoder_lsp.prompt.retrieval import Load, Question, worth

MOST_CHARACTERS = 500
"""Of all heads together: some 150 tokens, a quarter of what is shown."""
MOST_LINES = 14
"""Of a head."""
MOST_SIGNATURE = 6
"""Lines of a signature."""
MOST_SCANNED = 120
"""Lines of a body that are looked at for what a class has."""
LONGEST_LINE = 200
"""Longer ones are left out: a part of a secret need not look like one."""
MOVED = 20
"""Lines that a definition may have moved since it was told."""
MOST_HELD = 6
"""Pieces of code that are shown as likely as not: what they hold is not shown twice."""
_CLASS = re.compile(
    r"\b(?:class|struct|interface|enum|trait|type|record|object|protocol|impl|union|module|namespace)\b"
)
_MODIFIER = "async static public private protected readonly abstract override get set pub fn def fun func const var let"
_MEMBER = re.compile(
    rf"(?:(?:{_MODIFIER.replace(' ', '|')}|val|final)(?:\([^()]*\))?\s+)*[^\W\d][\w$]*\s*[?!]?\s*[:(=<,;]"
)
_OPEN, _CLOSED = re.compile(r"[(\[]"), re.compile(r"[)\]]")


def heads(
    ask: Question, definitions: Sequence[Definition], pieces: Sequence[ContextSnippet], load: Load, terms: Terms
) -> Iterator[ContextSnippet]:
    """Heads of definitions that are named at the cursor, scored by what they are worth beside pieces of code.

    Args:
        ask: what is asked for there.
        definitions: the nearest first; their paths are keys of `load`.
        pieces: what is shown anyway, best first.
        load: gives files.
        terms: that the question was made with.
    """
    room, seen = MOST_CHARACTERS, set[tuple[str, int]]()
    for one in definitions:
        if one.name and not np.isin(terms.of(one.name)[:1], ask.terms_Q).any():
            continue
        file = load(one.path)
        lines = file.text.split("\n") if file is not None else []
        at = _place(lines, one)
        if at is None or (one.path, at) in seen or _held(one.path, at + 1, pieces):
            continue
        seen.add((one.path, at))
        text = head_of(lines, at)
        value = worth(ask, [text], terms)
        if len(text) <= room and value > 0:
            room -= len(text)
            yield ContextSnippet(one.path, text, value, one.path, line=at + 1)


def head_of(lines: Sequence[str], at: int) -> str:
    """The definition that begins in a line: its signature; of a class what it has, too, without bodies."""
    if len(lines[at]) > LONGEST_LINE:
        return ""
    kept = [lines[at]]
    below, depth = at + 1, _deeper(lines[at])
    while depth > 0 and below < len(lines) and len(kept) < MOST_SIGNATURE:
        kept.append(lines[below])
        depth += _deeper(lines[below])
        below += 1
    if _CLASS.search(lines[at].partition("(")[0]):
        kept += _members(lines[below : at + MOST_SCANNED], _indent(lines[at]))
    return "\n".join(line.rstrip() for line in kept[:MOST_LINES] if len(line) <= LONGEST_LINE)


def _members(body: Sequence[str], indent: int) -> Iterator[str]:
    """The lines that begin a member, of what is deeper than `indent`."""
    first: int | None = None
    for line in body:
        if not line.strip():
            continue
        deep = _indent(line)
        if deep <= indent:
            if line.strip() == "{":
                continue
            return
        first = deep if first is None else first
        if deep == first and _MEMBER.match(line.strip()[:LONGEST_LINE]):
            yield line


def _place(lines: Sequence[str], one: Definition) -> int | None:
    """The line of a definition by now: where it was told, if its name stands there, or close by where one begins so."""
    if not one.name:
        return one.line if one.line < len(lines) and lines[one.line].strip() else None
    told = lines[one.line] if one.line < len(lines) else ""
    name = rf"(?<![\w$]){re.escape(one.name)}(?![\w$])"
    if re.search(name, told):
        return one.line
    begun = re.compile(rf"(?!\s*return\b)[\w\s*]*{name}")
    near = range(max(one.line - MOVED, 0), min(one.line + MOVED + 1, len(lines)))
    return next((at for at in sorted(near, key=lambda at: abs(at - one.line)) if begun.match(lines[at])), None)


def _held(path: str, line: int, pieces: Sequence[ContextSnippet]) -> bool:
    """Whether a piece that is shown has this line."""
    return any(one.source == path and one.line <= line <= one.line + one.text.count("\n") for one in pieces[:MOST_HELD])


def _deeper(line: str) -> int:
    return len(_OPEN.findall(line)) - len(_CLOSED.findall(line))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
