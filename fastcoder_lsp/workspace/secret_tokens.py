"""The names, strings and signs of a line, in any language.

Owns how a string is told from what stands around it. Pure.
"""

import re
from typing import NamedTuple

from fastcoder_lsp.workspace.secret_names import NAME

BRACKETED = frozenset(("perl", "ruby", "crystal", "lua", "elixir"))
"""Whose strings may stand in brackets, as `q(…)` and `[[…]]`."""
_STRING = (
    r"""(?P<string>(?<=>)(?!\s*<)[^<>{}"'`]+(?=</)|(?<=CDATA\[)[^\]]+(?=\]\])|(?:(?<!\w)[A-Za-z]{1,3}(?=[\#"'`])|[@$]{1,2}(?=["'`]))?\#{0,3}"""
    r"""(?:"{3}.*?(?:"{3}|$)|'{3}.*?(?:'{3}|$)|"(?:[^"\\]|\\.)*+(?:"|\\?$)|(?<![\w)\]])''[^']+''|"""
    r"""(?<!\w)'(?:[^'\\]|\\.)*+'|(?<=[rbufRBUFLN])'(?:[^'\\]|\\.)*+'|`[^`]*+(?:`|$))"""
)
_BRACKETS = (
    r"""|%?q[qwx]?\s?[({\[/|](?=\S)[^)}\]/|]*[)}\]/|]?|"""
    r"""%[wWi][(\[{<|][^)}\]>|]*|(?<=[=,(]\s)\[=*\[.*?(?:\]=*\]|$)|(?<=[=,(])\[=*\[.*?(?:\]=*\]|$)"""
)
_GAP = r"""|(?P<gap>\$?\{\{[^{}]{0,200}\}\}|\$\{[\w.]*\}|\$\([^)]*\)|\$\w+|%\w+%|<[A-Za-z][\w .-]*>(?!.*</))"""
_SIGNS = (
    r"""===?|!==?|<=|>=|=~|[=~]>|->|<-(?![-\d])|:{1,3}=|(?:\?\?|\|\||[?|+.&~])=|\|\||&&|\?\?|\?[:.]|::|"""
    r""":-|\.{2,3}|<<<?[-~]?"""
)
_CODE = rf"""|(?P<name>{NAME.pattern})|(?P<number>\d[\w.]*)|(?P<sign>{_SIGNS}|--|[^\s\w]))"""
_BARE = rf"""|(?P<sign>{_SIGNS}|[\s"'`=:,;()\[\]{{}}<>|&\\])|(?P<name>(?:\\\S|[^\s"'`=:,;()\[\]{{}}<>|&\\])+))"""
_TOKENS = {
    (bare, bracketed): re.compile(
        _STRING + (_BRACKETS if bracketed else "") + ")" + (_GAP + _BARE if bare else _CODE)[:-1]
    )
    for bare in (True, False)
    for bracketed in (True, False)
}


class Token(NamedTuple):
    """A part of a line: a "name", a "string", a "number", a "gap" that something is put in, or a "sign"."""

    kind: str
    text: str
    """Of a string: what stands between its marks."""
    start: int
    end: int
    mark: str = ""
    closed: bool = True


def tokens_of(line: str, *, bare: bool, bracketed: bool) -> list[Token]:
    """Those of a line.

    Args:
        line: it.
        bare: whether values stand without quotes, so that all between blanks and separators is a name.
        bracketed: whether strings may stand in brackets.
    """
    found = []
    for match in _TOKENS[bare, bracketed].finditer(line):
        kind, text = match.lastgroup or "", match[0]
        if kind != "string":
            if text.strip():
                found.append(Token(kind, text, match.start(), match.end()))
            continue
        head = re.match(r"""[^"'`(\[{/|<]*?(["']{3}|''(?=.)|["'`]|\[=*\[|[(\[{/|<])""", text)
        if line[match.start() - 1 : match.start()] in {">", "["} and text.strip() and text[0] not in "\"'`":
            head = None
        mark = head[1] if head is not None else ""
        begin = head.end() if head is not None else 0
        closing = mark if mark[:1] in "\"'`" else ""
        closed = len(text) >= begin + len(closing) and text.endswith(closing) and not text.endswith('\\"')
        inner = text[begin : len(text) - len(closing or mark)] if closed else text[begin:]
        found.append(Token(kind, inner, match.start(), match.end(), mark, closed))
    return found
