"""Imports whose last use the user has just deleted."""

import re
from typing import Final

from fastcoder_lsp.edits.imports.languages import syntax_of
from fastcoder_lsp.edits.imports.place import code_statements
from fastcoder_lsp.edits.imports.values import BoundName, ImportLine
from fastcoder_lsp.edits.minimal import apply, minimal
from fastcoder_lsp.edits.values import Edit, EditQuestion
from fastcoder_lsp.syntax import SCRIPT

_MOST_TEXT: Final = 1_000_000  # characters of a document
_NAME: Final = re.compile(r"(?<![\w$.])[^\W\d][\w$]*")
_KEPT: Final = re.compile(r"noqa|type:\s*ignore|eslint|@ts-|nolint|import type\s*\*|#\s*isort|pragma|keep")
_JSX: Final = re.compile(r"<(?:[A-Za-z][\w.:-]*)?(?:\s[^<>]*)?/?>")
_FACTORIES: Final = frozenset({"React", "Fragment", "h", "jsx"})
"""Names that JSX may use without saying them."""
_NAMED_FILES: Final = re.compile(r"(?:^|/)(?:__init__\.pyi?|conftest\.py|index\.[cm]?[jt]sx?|mod\.rs|lib\.rs)$")
"""Files whose imports others may use."""


def unused_imports(question: EditQuestion) -> tuple[Edit, ...]:
    """The edit that removes imports whose last use the last change deleted; empty where others may use them."""
    syntax, text = syntax_of(question.language), question.text
    if syntax is None or not question.history or len(text) > _MOST_TEXT or _NAMED_FILES.search(question.path):
        return ()
    last = question.history[-1]
    gone = set(_NAME.findall(last.old)) - set(_NAME.findall(last.new))
    if question.language == "rust":  # a trait is used by its methods' names, too
        gone = {name for name in gone if name[0].islower()}
    if last.path != question.path or not gone:
        return ()
    if question.language in SCRIPT and _JSX.search(text):
        gone -= _FACTORIES
    gone = {name for name in gone if len(re.findall(rf"(?<![\w$]){re.escape(name)}(?![\w$])", text)) == 1}
    after = text
    for name in sorted(gone):
        for line in code_statements(syntax, after, question.language):
            found = next((one for one in line.names if one.name == name), None)
            if found is not None and _may_go(after, line) and (edit := without_name(after, line, found)) is not None:
                after = apply(after, [edit])
                break
    return minimal(text, 0, len(text), after) if after != text else ()


def _may_go(text: str, line: ImportLine) -> bool:
    plain = (
        not line.guarded
        and not line.everything
        and line.form not in ("pub use", "export")
        and line.source != "__future__"
        and not text.startswith("#[", line.start)
    )
    return plain and _KEPT.search(text[line.start : line.end]) is None


def without_name(text: str, line: ImportLine, name: BoundName) -> Edit | None:
    """The edit that removes one name of a statement, or all of that; None where the form of its list is unusual."""
    if len(line.names) == 1:
        begin = text.rfind("\n", 0, line.start) + 1
        return Edit(line.start if text[begin : line.start].strip() else begin, min(line.end + 1, len(text)), "")
    if line.members is None or not line.members[0] <= name.start < line.members[1]:
        return None
    first, last = line.members
    before, after = text[first : name.start], text[name.end : last]
    comma = re.match(r"[ \t]*,[ \t]*(\n\s*)?", after)
    if comma is not None and after[comma.end() :].strip():
        return Edit(name.start, name.end + comma.end(), "")
    if before.rstrip().endswith(","):
        end = name.end + (after.index(",") if comma is not None else 0)
        return Edit(first + len(before.rstrip()) - 1, end, "")
    return None
