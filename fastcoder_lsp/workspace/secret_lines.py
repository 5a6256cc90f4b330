"""Lines that look like secrets: no suggestions are made in them, and none enters a prompt.

`secret_text` judges each line. A name's value may follow on a later line, so a file is judged from its beginning.
`rules` excludes files whose names suggest secrets.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from fastcoder_lsp.workspace.secret_entries import read_entry, read_netrc
from fastcoder_lsp.workspace.secret_names import LIKELY, NameSecrecy, secrecy_of
from fastcoder_lsp.workspace.secret_text import (
    BARE_LANGUAGES,
    DEEPER,
    MAX_LINES,
    NOTHING_OPEN,
    Judged,
    OpenConstructs,
    Text,
    depth_of,
)
from fastcoder_lsp.workspace.secret_values import ends_in_random, has_key_literal

KEYS = "PRIVATE KEY"  # excludes a file that is available only in parts
_MAX_LEFT = 400  # characters left of the cursor that are read
_MAX_KEY_BLOCK = 16_000  # characters above in which the beginning of a key's block counts, whatever is between
_MAX_LINE = 2_000  # a longer line, in characters, counts as a secret unread, so that no line takes long
_MAX_CACHED_LINE = 1_000  # the longest line, in characters, whose judgement is cached

_BLOCK = 64  # lines that are judged and remembered together
_MAX_CACHED_BLOCK = 32_000  # characters of a block that is remembered
_LEAST_VALUE = 6  # characters of a value that other lines are searched for

_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_KEY_OPENS = re.compile(_KEY_BEGINS.pattern + r"""(?:\\[rn])*["'`]?[\s,+.;&\\(]*$""")
_KEY_ENDS = "-----END "
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]*(?:\\[rn])*")
_KEY_QUOTES = " \t\r\"'`,.;&\\()"  # around the lines of a key in source code
_WORDS, _PIECES = re.compile(r"\w{4,}"), re.compile(r"""[^\s"'`()\[\]{},;…]{4,}""")
_QUOTED = re.compile(r"""["'`]([^"'`]+)["'`]""")
_KIND = re.compile(r"^kind:\s*[\"']?Secret\b", re.MULTILINE)

_QUOTED_LEFT = re.compile(
    r"""([^\W\d][\w.-]{0,80})["'\]]{0,2}\s*(?::[\w\s.\[\]|?&'<>]{1,40})?(?::=|=>|=|:)\s*[rbufRBUF@$]{0,2}["'`][^"'`]*$"""
)
_BARE_LEFT = re.compile(
    r"^\s*(?:export\s+|set\s+|ENV\s+|ARG\s+|-\s+)?[\"']?([^\W\d][\w.-]{0,80})[\"']?\s*[:=]\s*\S*+(?:\s+#.*)?$"
)


def beginning(text: str, language: str) -> OpenConstructs:
    """The open constructs at the beginning of a whole `text`."""
    return OpenConstructs(manifest=True) if language == "yaml" and _KIND.search(text) else NOTHING_OPEN


def judge(line: str, language: str, above: OpenConstructs) -> Judged:
    """Whether a line is a secret or part of one that began above, and the constructs that it leaves open."""
    tracked = above.body is not None or above.entry is not None or above.netrc is not None
    secret, opened = _judge(line, language, replace(above, body=None, entry=None, netrc=None) if tracked else above)
    if above.body is not None and (body := above.body.below(line)) is not None:
        secret = secret or body.returns_secret(line, language)
        opened = replace(opened, body=body) if opened.body is None else opened
    if len(line) > _MAX_LINE:
        return secret, opened
    given, entry = read_entry(above.entry, line, language, bare=language in BARE_LANGUAGES)
    if given and entry is not None and entry.scalar:
        opened = replace(opened, end=DEEPER, depth=depth_of(line), left=MAX_LINES)
    in_netrc, netrc = read_netrc(above.netrc, line)
    if entry is not None or netrc is not None:
        opened = replace(opened, entry=entry, netrc=netrc)
    return secret or given or in_netrc, opened


def _judge(line: str, language: str, above: OpenConstructs) -> Judged:
    closed = NOTHING_OPEN if not above.manifest else OpenConstructs(manifest=True)
    blank, depth = not line.strip(), depth_of(line)
    if above.end and above.left > 0 and (above.end != DEEPER or blank or depth > above.depth):
        if above.end in line and above.end != DEEPER:
            return True, closed
        counted = above.end != _KEY_ENDS or not _is_key_body(line)  # keys with signatures have thousands of lines
        return True, replace(above, left=above.left - counted)
    if len(line) > _MAX_LINE:
        return True, closed
    if "-----BEGIN" in line and (key := _KEY_BEGINS.search(line)) is not None:
        ended = _KEY_ENDS in line[key.end() :]
        whole = _KEY_OPENS.search(line) is not None
        return whole or ended, replace(closed, end=_KEY_ENDS, left=MAX_LINES) if whole and not ended else closed
    if above.left <= 0 or above.end or (not blank and _is_outdented(line, language, above)):
        above = closed
    if above == NOTHING_OPEN:
        return (_judge_alone if len(line) < _MAX_CACHED_LINE else _judge_alone.__wrapped__)(line, language)
    if blank:
        return False, replace(above, left=above.left - 1) if above.left else above
    secret, opened = Text(line, language, above).judge()
    return secret or has_key_literal(line), opened


def _is_outdented(line: str, language: str, above: OpenConstructs) -> bool:
    depth = depth_of(line)
    item = language == "yaml" and not line.lstrip().startswith("- ")
    return bool(above.frames) and (depth < above.depth or (item and depth == above.depth))


def judge_lines(lines: Iterable[str], language: str, above: OpenConstructs) -> tuple[list[bool], OpenConstructs]:
    """Whether each of some lines looks like a secret (a name below its value makes one), and what they leave open."""
    judged: list[bool] = []
    for line in lines:
        secret, above = judge(line, language, above)
        judged.append(secret)
        for distance in above.entry.hidden if above.entry is not None else ():
            if distance < len(judged):
                judged[-1 - distance] = True
    return judged, above


def judge_unfinished(above: Sequence[str], lines: Sequence[str], language: str, text: str) -> list[bool]:
    """Whether each of some consecutive lines of `text` looks like a secret, or like the beginning of one.

    `above`: the lines before them.
    """
    _, opened = _judge_remembered(above, language, beginning(text, language))
    judged, _ = judge_lines(lines, language, opened)
    return [secret or in_secret(line, language) for line, secret in zip(lines, judged, strict=True)]


def _judge_remembered(lines: Sequence[str], language: str, above: OpenConstructs) -> tuple[list[bool], OpenConstructs]:
    """As `judge_lines`, but blocks of lines that were judged lately are not judged again: a key changes one of them."""
    judged = [False] * len(lines)
    for start in range(0, len(lines), _BLOCK):
        block = tuple(lines[start : start + _BLOCK])
        short = sum(map(len, block)) <= _MAX_CACHED_BLOCK
        secret, above = (_judge_block if short else _judge_block.__wrapped__)(block, language, above)
        for number in secret:
            if start + number >= 0:
                judged[start + number] = True
    return judged, above


@lru_cache(maxsize=1024)
def _judge_block(
    lines: tuple[str, ...], language: str, above: OpenConstructs
) -> tuple[tuple[int, ...], OpenConstructs]:
    """The secret lines, counted from the first; negative: above them."""
    secret = list[int]()
    for number, line in enumerate(lines):
        found, above = judge(line, language, above)
        secret += [number] if found else []
        secret += [number - distance for distance in above.entry.hidden] if above.entry is not None else []
    return tuple(secret), above


def without_secrets(text: str, language: str) -> str:
    """A file without the lines that look like secrets or parts of secrets."""
    lines = text.split("\n")
    judged, _ = judge_lines(lines, language, beginning(text, language))
    return "\n".join(line for line, secret in zip(lines, judged, strict=True) if not secret)


@lru_cache(maxsize=32)
def secret_lines(text: str, language: str) -> frozenset[str]:
    """The lines of a file that look like secrets, stripped."""
    lines = text.split("\n")
    judged, _ = _judge_remembered(lines, language, beginning(text, language))
    return frozenset(line.strip() for line, secret in zip(lines, judged, strict=True) if secret)


def without_lines(piece: str, secret: frozenset[str]) -> str:
    """Lines of a file without its `secret` ones; lines without letters or digits, such as brackets, stay."""
    lines = piece.split("\n")
    return "\n".join(line for line in lines if line.strip() not in secret or not any(map(str.isalnum, line)))


def secret_values(line: str) -> list[str]:
    """The parts of a secret line by which other lines are recognised that hold the same value."""
    values = _QUOTED.findall(line) or [line.partition("=")[2] or line.partition(":")[2] or line]
    return [value for one in values if len(value := one.strip()) >= _LEAST_VALUE]


def tells_secret(message: str, source: str, secret: frozenset[str], language: str) -> bool:
    """Whether another program's message about the line `source` may tell even a short part of a `secret` line.

    A message may be cut, and may write letters in another case.
    """
    if source in secret or without_secrets(f"{source}\n{message}", language) != f"{source}\n{message}":
        return True
    held, said = "\n".join(secret).lower(), message.lower()
    both = ((held, said), (said, held))
    return any(part in one for one, other in both for parts in (_WORDS, _PIECES) for part in parts.findall(other))


def in_secret(before: str, language: str) -> bool:
    """Whether the text left of the cursor looks like part of a secret, or its beginning."""
    left = before[-_MAX_LEFT:].rpartition("\n")[2]
    if (match := _QUOTED_LEFT.search(left)) is not None and secrecy_of(match[1]) >= NameSecrecy.MAYBE:
        return True
    bare = _BARE_LEFT.match(left) if language in BARE_LANGUAGES else None
    if bare is not None and secrecy_of(bare[1]) >= NameSecrecy.MAYBE:
        return True
    return ends_in_random(left) or _in_netrc(before[-_MAX_LEFT:]) or _in_key(before)


def _in_netrc(before: str) -> bool:
    secret, entry = False, None
    for line in before.split("\n"):
        secret, entry = read_netrc(entry, line)
    return secret or (entry is not None and entry.named and entry.expects == "password")


def _in_key(before: str) -> bool:
    """Whether a private key has begun above and not ended."""
    near = before[-_MAX_KEY_BLOCK:]
    begun = [match.end() for match in _KEY_BEGINS.finditer(near)]
    return _KEY_ENDS not in near[begun[-1] :] if begun else bool(key_above(before, len(before)))


def key_above(text: str, end: int) -> str:
    """The line that begins the private key in whose body `end` is, however far above; empty if it is in none."""
    at = text.rfind("\n", 0, end) + 1
    while at > 0:
        start = text.rfind("\n", 0, at - 1) + 1
        line = text[start : at - 1]
        if len(line) > _MAX_LINE:
            return ""
        if _KEY_OPENS.search(line) is not None:
            return line
        if not _is_key_body(line):
            return ""
        at = start
    return ""


def _is_key_body(line: str) -> bool:
    return _KEY_BODY.fullmatch(line.strip(_KEY_QUOTES)) is not None


@lru_cache(maxsize=20_000)
def _judge_alone(line: str, language: str) -> Judged:
    found = Text(line, language).judge() if LIKELY.search(line) is not None else (False, NOTHING_OPEN)
    return (True, found[1]) if found[0] or has_key_literal(line) else found
