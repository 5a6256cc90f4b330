"""Rough lexical facts about code in any language: brackets, strings, indentation, what opens a block.

Pure functions of text, made from regular expressions: good enough to decide where a suggestion ends and whether it
balances, never a parser. Owns no policy.
"""

import re
from dataclasses import dataclass

CLOSER_OF = {"(": ")", "[": "]", "{": "}"}
"""Opening bracket → the one that closes it."""

_HASH_COMMENTS = frozenset(
    {"python", "ruby", "shellscript", "yaml", "toml", "perl", "r", "julia", "elixir", "dockerfile", "makefile", "nim"}
)
_DASH_COMMENTS = frozenset({"lua", "sql", "haskell", "elm", "ada"})
MARKUP = frozenset({"html", "xml", "vue", "svelte", "markdown", "plaintext", "latex", "restructuredtext", "astro"})
_COLON_BLOCKS = frozenset({"python", "yaml", "nim", "gdscript", "starlark"})
_END_BLOCKS = frozenset({"ruby", "lua", "shellscript", "elixir", "julia", "pascal", "vb", "fish", "crystal"})

_ANY_STRING = r"`(?:\\.|[^`\\])*(?:`|\Z)" + r'|"(?:\\.|[^"\\\n])*(?:"|$|\Z)'
_TICK_STRING = r"|'(?:\\.|[^'\\\n])*(?:'|$|\Z)"
_TICK_CHAR = r"|'(?:\\[^\n]{1,8}?|[^'\\\n])'"
_TRIPLE = r'"""(?:\\.|[^\\])*?(?:"""|\Z)|' + r"'''(?:\\.|[^\\])*?(?:'''|\Z)|"
_FLAGS = re.MULTILINE | re.DOTALL
_BRACKET = r"|[()\[\]{}]"

_HASH_CODE = re.compile(r"\#[^\n]*|" + _TRIPLE + _ANY_STRING + _TICK_STRING + _BRACKET, _FLAGS)
_DASH_CODE = re.compile(r"--[^\n]*|" + _ANY_STRING + _TICK_STRING + _BRACKET, _FLAGS)
_SLASH_CODE = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|" + _ANY_STRING + _TICK_STRING + _BRACKET, _FLAGS)
# Rust's lifetimes have a lone tick; its characters have two.
_RUST_CODE = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|" + r'"(?:\\.|[^"\\])*(?:"|\Z)' + _TICK_CHAR + _BRACKET, _FLAGS)
_MARKUP_CODE = re.compile(r"<!--.*?(?:-->|\Z)" + _BRACKET, _FLAGS)

_OPENING_TAG = re.compile(r"<([A-Za-z][\w:.-]*)(?:\s[^<>]*)?(?<!/)>\s*$")
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)(?:\s[^<>]*)?(?<!/)>")
_VOID_TAGS = frozenset({"br", "hr", "img", "input", "link", "meta", "area", "base", "col", "embed", "source", "wbr"})
_END_OPENER = re.compile(
    r"^\s*(?:def|class|module|function|local function|if|unless|while|until|for|case|begin|defmodule|struct|let)\b"
    r"|\b(?:do|then|else|begin|repeat|function\s*\([^)]*\))(?:\s*\|[^|]*\|)?\s*$"
)
_CLOSING_WORD = re.compile(r"^\s*(?:end\b|fi\b|done\b|esac\b|until\b|</|[)\]}])")
_CONTINUING_WORD = re.compile(r"^\s*(?:elif|else|elsif|elseif|except|finally|rescue|ensure|catch|case|when)\b")
_CASE_LABEL = re.compile(r"^\s*(?:case\b.*|default\s*|public|private|protected):$")


@dataclass(frozen=True, slots=True)
class Brackets:
    """What a text leaves open.

    `closers`: (offset, sign) of those that nothing in the text opened; `openers`: of those that it left open, outermost
    first. `quote`: what ends the string in which the text ends, or "".
    """

    closers: tuple[tuple[int, str], ...]
    openers: tuple[tuple[int, str], ...]
    quote: str = ""

    @property
    def complete(self) -> bool:
        """Whether a statement that ends here has closed what it opened."""
        return not self.openers and not self.quote


def signs(text: str, language: str) -> tuple[list[tuple[int, str]], str]:
    """(offset, sign) of brackets outside strings and comments, and what would end a string that is open at the end."""
    found: list[tuple[int, str]] = []
    quote = ""
    for match in _code(language).finditer(text):
        if match[0] in "()[]{}":
            found.append((match.start(), match[0]))
        elif match.end() == len(text):
            quote = _open_quote(match[0])
    return found, quote


def scan(text: str, language: str) -> Brackets:
    """The brackets of `text` outside strings and comments; a closer that does not fit is one that nothing opened."""
    closers: list[tuple[int, str]] = []
    openers: list[tuple[int, str]] = []
    found, quote = signs(text, language)
    for at, sign in found:
        if sign in CLOSER_OF:
            openers.append((at, sign))
        elif openers and CLOSER_OF[openers[-1][1]] == sign:
            openers.pop()
        else:
            closers.append((at, sign))
    return Brackets(tuple(closers), tuple(openers), quote)


def code_only(line: str, language: str) -> str:
    """`line` without its comments, and with empty strings; no trailing blanks."""

    def shortened(match: re.Match[str]) -> str:
        sign = match[0]
        if sign in "()[]{}":
            return sign
        return sign[0] + sign[0] if sign[0] in "\"'`" else ""

    return _code(language).sub(shortened, line).rstrip()


def is_comment(line: str, language: str) -> bool:
    """Whether `line` holds a comment, an attribute or a decorator and nothing else: what belongs to the next line."""
    code = code_only(line, language).strip()
    return bool(line.strip()) and (not code or code.startswith(("@", "#[")) or code.strip("\"'") == "")


def opens_block(line: str, language: str) -> bool:
    """Whether the code below `line` belongs inside of what it begins."""
    code = code_only(line, language)
    if not code.strip():
        return False
    if code.endswith(("{", "(", "[")):
        return True
    if language in _COLON_BLOCKS:
        return code.endswith(":")
    if language in MARKUP:
        tag = _OPENING_TAG.search(code)
        return bool(tag) and tag is not None and tag[1].lower() not in _VOID_TAGS
    if language in _END_BLOCKS:
        return bool(_END_OPENER.search(code)) and not re.search(r"\bend\s*$", code)
    return code.endswith(("=>", "->")) or bool(_CASE_LABEL.match(code))


def closes_block(line: str) -> bool:
    """Whether `line` begins with what ends a block: a closing bracket or tag, or `end`."""
    return bool(_CLOSING_WORD.match(line))


def continues_block(line: str) -> bool:
    """Whether `line` begins a further branch of the block above, as `else` and `except` do."""
    return bool(_CONTINUING_WORD.match(line))


def open_tags(text: str) -> list[str]:
    """The names of the tags that a text of markup opens and does not close."""
    names: list[str] = []
    for closing, name in _TAG.findall(text):
        if closing and name in names:
            del names[len(names) - 1 - names[::-1].index(name) :]
        elif not closing and name.lower() not in _VOID_TAGS:
            names.append(name)
    return names


def indent(line: str) -> str:
    """The blanks that `line` begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def width(blanks: str) -> int:
    """The columns that `blanks` fill, a tab going to the next multiple of four."""
    column = 0
    for blank in blanks:
        column = column + 1 if blank == " " else column // 4 * 4 + 4
    return column


def _code(language: str) -> re.Pattern[str]:
    if language in MARKUP:
        return _MARKUP_CODE
    if language in _HASH_COMMENTS:
        return _HASH_CODE
    if language in _DASH_COMMENTS:
        return _DASH_CODE
    return _RUST_CODE if language == "rust" else _SLASH_CODE


def _open_quote(sign: str) -> str:
    """What would end the string `sign` that stands at the end of a text; "" for a closed one and for a comment."""
    for quote in ('"""', "'''", "`", '"', "'"):
        if sign.startswith(quote):
            closed = len(sign) >= 2 * len(quote) and sign.endswith(quote) and not _escaped(sign, quote)
            return "" if closed else quote
    return ""


def _escaped(sign: str, quote: str) -> bool:
    body = sign[: -len(quote)]
    return (len(body) - len(body.rstrip("\\"))) % 2 == 1
