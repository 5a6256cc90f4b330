"""Approximate lexical facts about code in any language: brackets, strings, comments, indentation, blocks.

Pure functions of text, without a parser: `lexis` describes the strings and comments of each language, `lexer` finds the
brackets and tells comments and strings from code, and `blocks` recognises the lines that begin and end a block.
"""

from fastcoder_lsp.syntax.blocks import (
    INDENTED,
    closes_block,
    code_only,
    continues_block,
    indent,
    is_comment,
    open_tags,
    opens_block,
    width,
    without_bare_comment,
)
from fastcoder_lsp.syntax.lexer import CLOSER_OF, Lexed, LexerState, Region, Regions, lex
from fastcoder_lsp.syntax.lexis import KNOWN, MARKUP, SCRIPT, Quote, lexis_of

__all__ = [
    "CLOSER_OF",
    "INDENTED",
    "KNOWN",
    "MARKUP",
    "SCRIPT",
    "Lexed",
    "LexerState",
    "Quote",
    "Region",
    "Regions",
    "closes_block",
    "code_only",
    "continues_block",
    "indent",
    "is_comment",
    "lex",
    "lexis_of",
    "open_tags",
    "opens_block",
    "width",
    "without_bare_comment",
]
