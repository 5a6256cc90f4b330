"""Lines of code in any language: their indentation, and whether they open, continue or close a block."""

import re

from fastcoder_lsp.syntax.lexer import lex
from fastcoder_lsp.syntax.lexis import MARKUP

_COLON_BLOCKS = frozenset({"python", "yaml", "nim", "gdscript", "starlark"})
_END_BLOCKS = frozenset({"ruby", "lua", "shellscript", "elixir", "julia", "pascal", "vb", "fish", "crystal"})
INDENTED = _COLON_BLOCKS | _END_BLOCKS
"""Languages whose blocks have no brackets, so that indentation shows them."""

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


def code_only(line: str, language: str) -> str:
    """`line` without comments and trailing blanks, and with its strings emptied."""
    kept, at = [], 0
    for begin, end in lex(line, language).spans:
        if begin < at:
            continue
        quote = line[begin] if line[begin] in "\"'`" else ""
        kept += [line[at:begin], quote * 2]
        at = end
    return ("".join(kept) + line[at:]).rstrip()


def is_comment(line: str, language: str) -> bool:
    """Whether `line` is only a comment, an attribute or a decorator, and so belongs to the next line."""
    code = code_only(line, language).strip()
    return bool(line.strip()) and (not code or code.startswith(("@", "#[")) or code.strip("\"'") == "")


def without_bare_comment(text: str, language: str) -> str:
    """`text`, cut short in a comment, without lines of it that hold only its marks: a bare `# ` or `/**`."""
    lexed = lex(text, language)
    if not lexed.comment:
        return text
    begin = max(lexed.spans[-1][0], text.rfind("\n") + 1)
    if any(map(str.isalnum, text[begin:])):
        return text
    return without_bare_comment(text[:begin].rstrip(), language)


def opens_block(line: str, language: str) -> bool:
    """Whether `line` opens a block that the code below belongs to."""
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
    """Whether `line` begins with the end of a block: a closing bracket or tag, or `end`."""
    return bool(_CLOSING_WORD.match(line))


def continues_block(line: str) -> bool:
    """Whether `line` begins another branch of the block above, such as `else` or `except`."""
    return bool(_CONTINUING_WORD.match(line))


def open_tags(text: str) -> list[str]:
    """The names of the tags that markup opens and does not close."""
    names: list[str] = []
    for closing, name in _TAG.findall(text):
        if closing and name in names:
            del names[len(names) - 1 - names[::-1].index(name) :]
        elif not closing and name.lower() not in _VOID_TAGS:
            names.append(name)
    return names


def indent(line: str) -> str:
    """The leading blanks of `line`."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def width(blanks: str) -> int:
    """The width of `blanks` in columns, with tab stops every four."""
    column = 0
    for blank in blanks:
        column = column + 1 if blank == " " else column // 4 * 4 + 4
    return column
