"""The editor's knowledge beyond texts: `fastcoder/cursor`, `…/definitions` and `…/yanked`.

They carry places and no text: `runtime/context` checks the reading rules when it reads a definition's file, and copied
lines are cut from the server's own document.
"""

import logging
from typing import Final, TypeGuard

from fastcoder_lsp.core import Definition
from fastcoder_lsp.lsp.known_clients import at
from fastcoder_lsp.lsp.requests.ask import prepare
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.workspace.document import Position
from fastcoder_lsp.workspace.documents import yank_of
from fastcoder_lsp.workspace.paths import path_of

logger = logging.getLogger(__name__)

MAX_DEFINITIONS: Final = 16  # for one document: the first ones, which are nearest to the cursor
MAX_ENTRIES: Final = 64  # of a message that are read
MAX_NAME: Final = 200
MAX_PATH: Final = 4096
LAST_LINE: Final = 1_000_000


def cursor(session: Session, params: object) -> None:
    """`fastcoder/cursor` {textDocument: {uri, version}, position}: the cursor rests there, and nothing is selected.

    A suggestion is prepared there if the user has changed a document in the last minutes. A malformed message, or one
    of another version (null: any), changes nothing.
    """
    uri, version = at(params, "textDocument", "uri"), at(params, "textDocument", "version")
    line, character = at(params, "position", "line"), at(params, "position", "character")
    if not (isinstance(uri, str) and _is_int(line) and _is_int(character) and (version is None or _is_int(version))):
        logger.warning("ignored fastcoder/cursor: it needs textDocument.uri, its version, and a position")
        return
    document = session.documents.get(uri)
    if document is None or version not in (None, document.version):
        logger.debug("a cursor in a document that is not open, or of another version: %s", uri)
        return
    if session.is_editing:
        prepare(session, uri, document.offset_at(Position(line, character), session.client.encoding))


def definitions(session: Session, params: object) -> None:
    """`fastcoder/definitions` {textDocument: {uri, version}, definitions: [{name, uri, range}]}, nearest first.

    `name` and `version` are optional. The places replace the document's earlier ones from its next version on. Entries
    that are malformed, not in a file or in the document itself are ignored; a malformed message changes nothing.
    """
    uri, given = at(params, "textDocument", "uri"), at(params, "definitions")
    if not isinstance(uri, str) or not isinstance(given, list):
        logger.warning("ignored fastcoder/definitions: it needs textDocument.uri and a list `definitions`")
        return
    document = session.documents.get(uri)
    if document is None:
        logger.debug("definitions for a document that is not open: %s", uri)
        return
    if not session.settings(session.folder_of(uri)).context_enabled:
        document.definitions = ()
        return
    read = [_read(one) for one in given[:MAX_ENTRIES]]
    if wrong := read.count(None) + max(len(given) - MAX_ENTRIES, 0):
        logger.warning(
            "fastcoder/definitions: ignored %d of %d: not in a file, malformed, or too many", wrong, len(given)
        )
    own = str(document.file)
    others = dict.fromkeys(one for one in read if one is not None and one.path != own)
    document.definitions = tuple(others)[:MAX_DEFINITIONS]


def _read(value: object) -> Definition | None:
    name, uri, line = at(value, "name"), at(value, "uri"), at(value, "range", "start", "line")
    if not isinstance(uri, str) or len(uri) > 3 * MAX_PATH or not uri.lower().startswith("file:"):
        return None
    if not isinstance(line, int) or isinstance(line, bool) or not 0 <= line <= LAST_LINE:
        return None
    if name is not None and (not isinstance(name, str) or len(name) > MAX_NAME):
        return None
    path = path_of(uri)
    if path is None or not path.is_absolute() or ".." in path.parts or len(str(path)) > MAX_PATH:
        return None
    return Definition(name or "", str(path), line)


def yanked(session: Session, params: object) -> None:
    """`fastcoder/yanked` {textDocument: {uri, version}, range}: the user copied a range of that version.

    The lines that the range touches, by the server's copy, are in every document's snapshot from its next version on.
    The range ends as the protocol's do. A malformed message, or one of another version (null: any), changes nothing.
    """
    uri, version = at(params, "textDocument", "uri"), at(params, "textDocument", "version")
    lines = _lines(at(params, "range"))
    if not isinstance(uri, str) or lines is None or not (version is None or _is_int(version)):
        logger.warning("ignored fastcoder/yanked: it needs textDocument.uri, its version, and a range of lines")
        return
    document = session.documents.get(uri)
    if document is None or version not in (None, document.version):
        logger.debug("a yank in a document that is not open, or of another version: %s", uri)
        return
    folder = session.folder_of(uri)
    settings = session.settings(folder)
    if not (settings.context_enabled and session.is_enabled(settings)):
        return
    if session.rules(folder).may_complete(document.file, document.language) is not None:
        return  # it may contain secrets by the editor's language id, which is unknown when it is shown
    yank = yank_of(document, *lines)
    if yank is not None:
        session.documents.yanked(yank)


def _lines(place: object) -> tuple[int, int] | None:
    """The first and the last line that a range touches; None if it is not a range."""
    first, last, end_character = at(place, "start", "line"), at(place, "end", "line"), at(place, "end", "character")
    if not (_is_int(first) and _is_int(last) and _is_int(end_character) and 0 <= first <= last <= LAST_LINE):
        return None
    return first, last - 1 if end_character == 0 and last > first else last


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
