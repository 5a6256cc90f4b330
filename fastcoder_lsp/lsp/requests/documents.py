"""`textDocument/did…`, `notebookDocument/did…` and renamed files: the server's copy follows the editor's."""

import logging
from collections.abc import Sequence
from pathlib import PurePath

from lsprotocol import types

from fastcoder_lsp.lsp.requests.ask import document_of, edits_of, prefetch
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.lsp.usage import typed_characters
from fastcoder_lsp.workspace.documents import Cell
from fastcoder_lsp.workspace.paths import path_of
from fastcoder_lsp.workspace.settings_files import SETTINGS_FILE

logger = logging.getLogger(__name__)


def did_open(session: Session, params: types.DidOpenTextDocumentParams) -> None:
    """Open a document."""
    document = document_of(params.text_document)
    session.documents.open(document)
    session.document_opened(document.uri, document.clean_text)


def did_change(session: Session, params: types.DidChangeTextDocumentParams) -> None:
    """Apply edits; those of a document that is not open are ignored."""
    _change(session, params.text_document.uri, params.text_document.version, params.content_changes)


def did_close(session: Session, params: types.DidCloseTextDocumentParams) -> None:
    """Close a document."""
    _close(session, params.text_document.uri)


def did_save(session: Session, params: types.DidSaveTextDocumentParams) -> None:
    """Report a saved file, and apply a saved settings file."""
    session.files_changed([params.text_document.uri])
    _settings_file_changed(session, [params.text_document.uri])


def did_change_watched_files(session: Session, params: types.DidChangeWatchedFilesParams) -> None:
    """Files changed outside the editor."""
    session.files_changed([change.uri for change in params.changes])
    _settings_file_changed(session, [change.uri for change in params.changes])


def did_rename_files(session: Session, params: types.RenameFilesParams) -> None:
    """Files or folders were renamed; the client closes and opens their documents."""
    for renamed in params.files:
        session.document_renamed(renamed.old_uri, renamed.new_uri)


def notebook_did_open(session: Session, params: types.DidOpenNotebookDocumentParams) -> None:
    """Open a notebook and its cells."""
    session.documents.open_notebook(params.notebook_document.uri, _cells(params.notebook_document.cells))
    for item in params.cell_text_documents:
        did_open(session, types.DidOpenTextDocumentParams(item))


def notebook_did_change(session: Session, params: types.DidChangeNotebookDocumentParams) -> None:
    """Add, remove or edit cells."""
    cells = params.change.cells
    if cells is None:
        return
    if cells.structure is not None:
        array = cells.structure.array
        uri = params.notebook_document.uri
        session.documents.splice_cells(uri, array.start, array.delete_count, _cells(array.cells or ()))
        for item in cells.structure.did_open or ():
            did_open(session, types.DidOpenTextDocumentParams(item))
        for closed in cells.structure.did_close or ():
            _close(session, closed.uri)
    for content in cells.text_content or ():
        _change(session, content.document.uri, content.document.version, content.changes)


def notebook_did_close(session: Session, params: types.DidCloseNotebookDocumentParams) -> None:
    """Close a notebook and its cells."""
    session.documents.close_notebook(params.notebook_document.uri)
    for cell in params.cell_text_documents:
        _close(session, cell.uri)


def _change(session: Session, uri: str, version: int, changes: Sequence[types.TextDocumentContentChangeEvent]) -> None:
    document = session.documents.get(uri)
    if document is None:
        logger.debug("a change of a document that is not open: %s", uri)
        return
    before = document.clean_text
    session.usage.typed(document.language, typed_characters(edits_of(changes)))
    if not session.accepts.may_be_accepted(uri):
        document.edit(version, edits_of(changes), session.client.encoding)
        session.document_changed(uri)
        session.remember_change(uri, before, document.clean_text, accepted=False)
        return
    end = None
    for edit in edits_of(changes):  # an accept may be one edit among several
        document.edit(version, [edit], session.client.encoding)
        end = session.accepts.changed(uri, document.clean_text)
    session.document_changed(uri)
    session.remember_change(uri, before, document.clean_text, accepted=end is not None)
    if end is not None:
        prefetch(session, uri, end)


def _close(session: Session, uri: str) -> None:
    if (closed := session.documents.close(uri)) is not None:
        session.document_closed(uri, closed.clean_text)


def _cells(cells: Sequence[types.NotebookCell]) -> list[Cell]:
    return [Cell(cell.document, is_code=cell.kind is types.NotebookCellKind.Code) for cell in cells]


def _settings_file_changed(session: Session, uris: Sequence[str]) -> None:
    paths: list[PurePath | None] = [path_of(uri) for uri in uris]
    if any(path is not None and path.name == SETTINGS_FILE for path in paths):
        session.refresh()
