"""The syntax tree of a document, by tree-sitter's grammars, which are imported with the first document that needs them.

A parser takes time linear in the text, save for hostile ones: it stops after `MOST_S`. Trees of the latest texts are
kept. One character is one byte of a parsed text, so that its offsets are those of the document.
"""

import importlib
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from tree_sitter import Language, Node, Parser, Point, Tree

from fastcoder_lsp.syntax import lex

MOST_TEXT: Final = 1_000_000  # characters of a document
MOST_S: Final = 0.2  # seconds of parsing
_CHUNK: Final = 1 << 16
_DEEPEST: Final = 1_000  # nodes around a word
GRAMMARS: Final = {
    "c": "c",
    "cpp": "cpp",
    "csharp": "c_sharp",
    "cuda-cpp": "cpp",
    "dart": "dart",
    "go": "go",
    "java": "java",
    "javascript": "javascript",
    "javascriptreact": "javascript",
    "kotlin": "kotlin",
    "lua": "lua",
    "perl": "perl",
    "php": "php.language_php",
    "python": "python",
    "ruby": "ruby",
    "rust": "rust",
    "scala": "scala",
    "shellscript": "bash",
    "swift": "swift",
    "typescript": "typescript.language_typescript",
    "typescriptreact": "typescript.language_tsx",
}
"""Language id → the package of its grammar after `tree_sitter_`, and the function that gives it, if not `language`."""
_LETTER: Final = re.compile(r"[^\W\x00-\x7f]")
_SIGN: Final = re.compile(r"[^\x01-\x7f]")
_TEXTUAL: Final = re.compile(r"comment|string|heredoc|regex|text|char|quoted|raw")
_HOLE: Final = re.compile(r"interpolat|substitution|expression$|expansion$")


class TreeStep(NamedTuple):
    """A node around a word; `edge` is the way to it: its parent's kind and its field there, or else its own kind."""

    node: Node
    kind: str
    edge: str
    scope: int  # the number of the innermost scope around its parts


class SyntaxTree:
    """A parsed document. Offsets count characters."""

    def __init__(self, text: str, tree: Tree) -> None:
        self.text, self.root = text, tree.root_node
        self._tree = tree

    def paths(
        self, spans: Sequence[tuple[int, int]], scope_of: Callable[[Node, str, str, int], int], file: int
    ) -> Iterator[tuple[int, int, list[TreeStep]]]:
        """(start, end, the steps from the root) of each of some words, in order; the last step may be no word.

        `scope_of`: a node, its kind, the edge to it and the scope around it → the scope around its parts.
        """
        cursor = self._tree.walk()
        path = [TreeStep(self.root, self.root.type, "", file)]
        for at, end in spans:
            while len(path) > 1 and path[-1].node.end_byte <= at:
                cursor.goto_parent()
                path.pop()
            while len(path) < _DEEPEST and cursor.goto_first_child_for_byte(at) is not None:
                node = cursor.node
                if node is None or node.start_byte > at:
                    cursor.goto_parent()
                    break
                kind, field, above = node.type, cursor.field_name, path[-1]
                edge = f"{above.kind}.{field}" if field else f"{above.kind}/{kind}"
                path.append(TreeStep(node, kind, edge, scope_of(node, kind, edge, above.scope)))
            yield at, end, path

    @cached_property
    def errors(self) -> list[Node]:
        """The nodes that no grammar explains, and those that are missing."""
        found, rest = list[Node](), [self.root]
        while rest:
            node = rest.pop()
            if node.is_error or node.is_missing:
                found.append(node)
            if node.has_error:
                rest += node.children
        return found

    def quoted(self, at: int) -> bool:
        """Whether an offset is in a comment or in the text of a string; code that a string embeds is not."""
        node = self.root.named_descendant_for_byte_range(at, at + 1)
        return node is not None and _TEXTUAL.search(node.type) is not None and _HOLE.search(node.type) is None


@lru_cache(maxsize=4)
def parsed(text: str, language: str) -> SyntaxTree | None:
    """The tree of a text; None without a grammar, or where the text is too long or too hard to parse."""
    grammar = _grammar(language) if len(text) <= MOST_TEXT else None
    if grammar is None:
        return None
    source, latest = _ascii(text), time.monotonic() + MOST_S

    def chunk(at: int, _: Point) -> bytes:
        return source[at : at + _CHUNK]

    def is_late(_at: int, _failed: bool) -> bool:
        return time.monotonic() > latest

    try:
        return SyntaxTree(text, Parser(grammar).parse(chunk, encoding="utf8", progress_callback=is_late))
    except ValueError:
        return None


def is_parsed(language: str) -> bool:
    """Whether a language has a grammar."""
    return _grammar(language) is not None


def quoting(text: str, language: str) -> Callable[[int], bool]:
    """Whether an offset is in a comment or in the text of a string: by the tree, or else by a lexer."""
    if (tree := parsed(text, language)) is not None:
        return tree.quoted
    spans = lex(text, language).spans
    return lambda at: any(start <= at < end for start, end in spans)


@lru_cache
def _grammar(language: str) -> Language | None:
    package, _, function = GRAMMARS.get(language, "").partition(".")
    if not package:
        return None
    try:
        grammar = getattr(importlib.import_module(f"tree_sitter_{package}"), function or "language")()
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # older packages give a number
            return Language(grammar)
    except (ImportError, AttributeError, ValueError):  # it is not installed, or for another version
        return None


def _ascii(text: str) -> bytes:
    """The text with one byte for each character: other letters are letters, other signs are blanks."""
    if text.isascii() and "\0" not in text:
        return text.encode()
    return _SIGN.sub(" ", _LETTER.sub("z", text)).encode()
