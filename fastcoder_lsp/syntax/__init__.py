"""Rough lexical facts about code in any language: brackets, strings, indentation, what opens a block.

Pure functions of text, never a parser: `lexis` says what strings and comments look like, `lexer` finds the brackets,
and `blocks` what begins and ends a block. Makes no decisions.
"""

from fastcoder_lsp.syntax.blocks import (
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
from fastcoder_lsp.syntax.lexer import CLOSER_OF, Brackets, Lexed, LexerState, lex, scan, signs
from fastcoder_lsp.syntax.lexis import KNOWN, MARKUP, SCRIPT, Quote, lexis_of

__all__ = [
    "CLOSER_OF",
    "KNOWN",
    "MARKUP",
    "SCRIPT",
    "Brackets",
    "Lexed",
    "LexerState",
    "Quote",
    "closes_block",
    "code_only",
    "continues_block",
    "indent",
    "is_comment",
    "lex",
    "lexis_of",
    "open_tags",
    "opens_block",
    "scan",
    "signs",
    "width",
    "without_bare_comment",
]
