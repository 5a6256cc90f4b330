"""What kind of text a text ends in: code, a comment, a string, or prose."""

import re
from typing import Literal

from fastcoder_lsp.syntax.lexer import LexerState, lex

Region = Literal["code", "comment", "string", "prose"]

_PROSE = frozenset({"markdown", "plaintext", "text", "restructuredtext", "rst", "git-commit", "gitcommit"})
"""The language ids of prose, as VS Code, Neovim and Emacs send them."""
_COMMIT_FILES = ("COMMIT_EDITMSG", "MERGE_MSG", "TAG_EDITMSG")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)


class Regions:
    """Finds the region at the end of a text; a text that continues the last one is scanned from its last line on."""

    def __init__(self) -> None:
        self._language, self._head, self._start = "", "", LexerState()

    def region(self, before: str, language: str, path: str | None = None) -> Region:
        """The region at the end of `before`, the beginning of a document in `language` at `path`."""
        if language in _PROSE or (path or "").endswith(_COMMIT_FILES):
            return "code" if language == "markdown" and _in_fence(before) else "prose"
        continues = language == self._language and before.startswith(self._head)
        lexed = lex(before, language, self._start if continues else None)
        self._language, self._start = language, lexed.last_line
        self._head = before[: self._start.at]
        return "comment" if lexed.comment else "string" if lexed.quote else "code"


def _in_fence(before: str) -> bool:
    """Whether a Markdown text ends inside a fenced code block."""
    fence = ""
    for mark, info in _FENCE.findall(before[: before.rfind("\n") + 1]):
        if not fence:
            fence = mark if mark[0] == "~" or "`" not in info else ""
        elif mark.startswith(fence) and not info.strip():
            fence = ""
    return bool(fence)
