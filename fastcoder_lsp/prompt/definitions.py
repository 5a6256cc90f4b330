"""Signatures and members of definitions near a cursor, at places that the editor's other servers gave.

The caller reads the files (`load`). If a file has changed since, the definition is searched around its place.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from fastcoder_lsp.core import Definition
from fastcoder_lsp.index.words.terms import Terms
from fastcoder_lsp.prompt.context import ContextSnippet
from fastcoder_lsp.prompt.retrieval import Load, WordQuery, worth

MAX_CHARACTERS = 500
"""Of all heads, some 150 tokens, a quarter of the other code."""
MAX_LINES = 14
"""Of a head."""
MAX_SIGNATURE_LINES = 6
MAX_SCANNED_LINES = 120
"""Of a class that are searched for members."""
MAX_LINE = 200
"""Longer lines are left out: a part of a secret need not look like one."""
MAX_MOVE = 20
"""Lines that a definition may have moved since its place was given."""
MOST_HELD = 6
"""Pieces that are probably shown; a head inside one of them is not shown twice."""
_CLASS = re.compile(
    r"\b(?:class|struct|interface|enum|trait|type|record|object|protocol|impl|union|module|namespace)\b"
)
_MODIFIER = "async static public private protected readonly abstract override get set pub fn def fun func const var let"
_MEMBER = re.compile(
    rf"(?:(?:{_MODIFIER.replace(' ', '|')}|val|final)(?:\([^()]*\))?\s+)*[^\W\d][\w$]*\s*[?!]?\s*[:(=<,;]"
)
_OPEN, _CLOSED = re.compile(r"[(\[]"), re.compile(r"[)\]]")


def heads(
    ask: WordQuery, definitions: Sequence[Definition], pieces: Sequence[ContextSnippet], load: Load, terms: Terms
) -> Iterator[ContextSnippet]:
    """Heads of definitions of names at the cursor, scored like pieces of code.

    Args:
        ask: the query of the cursor.
        definitions: the nearest first; their paths are keys of `load`.
        pieces: the other pieces of the prompt, best first.
        load: reads files.
        terms: the terms of the query.
    """
    room, seen = MAX_CHARACTERS, set[tuple[str, int]]()
    for one in definitions:
        if one.name and not np.isin(terms.of(one.name)[:1], ask.terms_Q).any():
            continue
        file = load(one.path)
        lines = file.text.split("\n") if file is not None else []
        at = _place(lines, one)
        if at is None or (one.path, at) in seen or _is_shown(one.path, at + 1, pieces):
            continue
        seen.add((one.path, at))
        text = head_of(lines, at)
        value = worth(ask, [text], terms)
        if len(text) <= room and value > 0:
            room -= len(text)
            yield ContextSnippet(one.path, text, value, one.path, line=at + 1)


def head_of(lines: Sequence[str], at: int) -> str:
    """The definition that begins in line `at`: its signature, and a class's members, without bodies."""
    if len(lines[at]) > MAX_LINE:
        return ""
    kept = [lines[at]]
    below, depth = at + 1, _deeper(lines[at])
    while depth > 0 and below < len(lines) and len(kept) < MAX_SIGNATURE_LINES:
        kept.append(lines[below])
        depth += _deeper(lines[below])
        below += 1
    if _CLASS.search(lines[at].partition("(")[0]):
        kept += _members(lines[below : at + MAX_SCANNED_LINES], _indent(lines[at]))
    return "\n".join(line.rstrip() for line in kept[:MAX_LINES] if len(line) <= MAX_LINE)


def _members(body: Sequence[str], indent: int) -> Iterator[str]:
    """The lines deeper than `indent` that begin a member."""
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
        if deep == first and _MEMBER.match(line.strip()[:MAX_LINE]):
            yield line


def _place(lines: Sequence[str], one: Definition) -> int | None:
    """The current line of a definition: the given one if it has the name, else a near one that begins with it."""
    if not one.name:
        return one.line if one.line < len(lines) and lines[one.line].strip() else None
    given = lines[one.line] if one.line < len(lines) else ""
    name = rf"(?<![\w$]){re.escape(one.name)}(?![\w$])"
    if re.search(name, given):
        return one.line
    begun = re.compile(rf"(?!\s*return\b)[\w\s*]*{name}")
    near = range(max(one.line - MAX_MOVE, 0), min(one.line + MAX_MOVE + 1, len(lines)))
    return next((at for at in sorted(near, key=lambda at: abs(at - one.line)) if begun.match(lines[at])), None)


def _is_shown(path: str, line: int, pieces: Sequence[ContextSnippet]) -> bool:
    """Whether a shown piece contains this line."""
    return any(one.source == path and one.line <= line <= one.line + one.text.count("\n") for one in pieces[:MOST_HELD])


def _deeper(line: str) -> int:
    return len(_OPEN.findall(line)) - len(_CLOSED.findall(line))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
