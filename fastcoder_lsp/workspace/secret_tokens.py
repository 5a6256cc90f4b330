"""The names, strings and signs of a line, in any language.

Owns how a string is told from what stands around it. Pure.
"""

import re
from typing import NamedTuple

from fastcoder_lsp.workspace.secret_names import NAME

BRACKETED = frozenset(("perl", "ruby", "crystal", "lua", "elixir"))
"""Whose strings may stand in brackets, as `q(…)` and `[[…]]`."""
_STRING = (
    r"""(?P<string>(?:(?<!\w)[A-Za-z]{1,3}(?=[\#"'`])|[@$]{1,2}(?=["'`]))?\#{0,3}"""
    r"""(?:"{3}.*?(?:"{3}|$)|'{3}.*?(?:'{3}|$)|"(?:[^"\\]|\\.)*+(?:"|\\?$)|(?<![\w)\]])''[^']+''|"""
    r"""(?<!\w)'(?:[^'\\]|\\.)*+'|(?<=[rbufRBUFLN])'(?:[^'\\]|\\.)*+'|`[^`]*+(?:`|$))"""
)
_BRACKETS = (
    r"""|%?q[qwx]?\s?[({\[/|](?=\S)[^)}\]/|]*[)}\]/|]?|"""
    r"""%[wWi][(\[{<|][^)}\]>|]*|(?<=[=,(]\s)\[=*\[.*?(?:\]=*\]|$)|(?<=[=,(])\[=*\[.*?(?:\]=*\]|$)"""
)
_REST = (
    rf""")|(?P<name>{NAME.pattern})|(?P<number>\d[\w.]*)|"""
    r"""(?P<sign>===?|!==?|[<>]=|[=~]>|->|<-(?![-\d])|:{1,3}=|(?:\?\?|\|\||[?|+.&~])=|\|\||&&|\?\?|\?[:.]|::|:-|\.{2,3}|<<<?[-~]?|--|[^\s\w])"""
)
_TOKENS = {True: re.compile(_STRING + _BRACKETS + _REST), False: re.compile(_STRING + _REST)}


class Token(NamedTuple):
    """A part of a line: a "name", a "string", a "number", or a "sign"."""

    kind: str
    text: str
    """Of a string: what stands between its marks."""
    start: int
    end: int
    mark: str = ""
    closed: bool = True


def tokens_of(line: str, *, bracketed: bool) -> list[Token]:
    """Those of a line; `bracketed` where strings may stand in brackets."""
    found = []
    for match in _TOKENS[bracketed].finditer(line):
        kind, text = match.lastgroup or "", match[0]
        if kind != "string":
            found.append(Token(kind, text, match.start(), match.end()))
            continue
        head = re.match(r"""[^"'`(\[{/|<]*(["']{3}|''|["'`]|\[=*\[|\S)""", text)
        mark = head[1] if head is not None else text[0]
        begin = head.end() if head is not None else 1
        closing = mark if mark[0] in "\"'`" else ""
        closed = len(text) > begin and text.endswith(closing) and not (closing == '"' and text.endswith('\\"'))
        inner = text[begin : len(text) - len(closing or mark)] if closed else text[begin:]
        found.append(Token(kind, inner, match.start(), match.end(), mark, closed))
    return found
