"""What is told of documents, and of notebooks, whose cells are documents."""

from enum import IntEnum

from fastcoder_lsp.lsp.types.places import (
    TextDocumentContentChangeEvent,
    TextDocumentIdentifier,
    TextDocumentItem,
    Value,
    VersionedTextDocumentIdentifier,
)


class DidOpenTextDocumentParams(Value, frozen=True):
    """`textDocument/didOpen`."""

    text_document: TextDocumentItem


class DidChangeTextDocumentParams(Value, frozen=True):
    """`textDocument/didChange`."""

    text_document: VersionedTextDocumentIdentifier
    content_changes: list[TextDocumentContentChangeEvent]


class DidCloseTextDocumentParams(Value, frozen=True):
    """`textDocument/didClose`."""

    text_document: TextDocumentIdentifier


class DidSaveTextDocumentParams(Value, frozen=True):
    """`textDocument/didSave`."""

    text_document: TextDocumentIdentifier


class NotebookCellKind(IntEnum):
    """What a cell holds."""

    Markup = 1
    Code = 2


class NotebookCell(Value, frozen=True):
    """A cell; its text is a document of its own."""

    kind: NotebookCellKind
    document: str


class NotebookDocument(Value, frozen=True):
    """A notebook."""

    uri: str
    cells: list[NotebookCell]


class NotebookDocumentIdentifier(Value, frozen=True):
    """A notebook, by its name."""

    uri: str


class DidOpenNotebookDocumentParams(Value, frozen=True):
    """`notebookDocument/didOpen`."""

    notebook_document: NotebookDocument
    cell_text_documents: list[TextDocumentItem]


class NotebookCellArrayChange(Value, frozen=True):
    """`cells` for `delete_count` ones from `start` on."""

    start: int
    delete_count: int
    cells: list[NotebookCell] | None = None


class NotebookCellStructureChange(Value, frozen=True):
    """Cells that came and went."""

    array: NotebookCellArrayChange
    did_open: list[TextDocumentItem] | None = None
    did_close: list[TextDocumentIdentifier] | None = None


class NotebookCellContentChange(Value, frozen=True):
    """Edits of a cell's text."""

    document: VersionedTextDocumentIdentifier
    changes: list[TextDocumentContentChangeEvent]


class NotebookCellChanges(Value, frozen=True):
    """What became of a notebook's cells."""

    structure: NotebookCellStructureChange | None = None
    text_content: list[NotebookCellContentChange] | None = None


class NotebookDocumentChangeEvent(Value, frozen=True):
    """What became of a notebook."""

    cells: NotebookCellChanges | None = None


class DidChangeNotebookDocumentParams(Value, frozen=True):
    """`notebookDocument/didChange`."""

    notebook_document: NotebookDocumentIdentifier
    change: NotebookDocumentChangeEvent


class DidCloseNotebookDocumentParams(Value, frozen=True):
    """`notebookDocument/didClose`."""

    notebook_document: NotebookDocumentIdentifier
    cell_text_documents: list[TextDocumentIdentifier]
