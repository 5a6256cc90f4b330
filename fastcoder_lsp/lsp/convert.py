"""Conversions between the protocol's types and ours."""

from collections.abc import Sequence

from lsprotocol import types

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.workspace.document import ContentChange, Document, Encoding, Position, position_at
from fastcoder_lsp.workspace.paths import path_of


def position_of(position: types.Position) -> Position:
    """The protocol's position as ours."""
    return Position(position.line, position.character)


def range_of(snapshot: Snapshot, start: int, end: int, encoding: Encoding) -> types.Range:
    """The protocol's range of start…end in a snapshot's text."""
    first, last = (position_at(snapshot.text, offset, encoding) for offset in (start, end))
    return types.Range(types.Position(first.line, first.character), types.Position(last.line, last.character))


def document_of(item: types.TextDocumentItem) -> Document:
    """A document as the client opened it."""
    return Document(item.uri, path_of(item.uri), str(item.language_id), item.version, item.text)


def edits_of(changes: Sequence[types.TextDocumentContentChangeEvent]) -> list[ContentChange]:
    """The client's edits, in their order."""
    return [
        ContentChange(change.text, position_of(change.range.start), position_of(change.range.end))
        if isinstance(change, types.TextDocumentContentChangePartial)
        else ContentChange(change.text)
        for change in changes
    ]
