"""`fastcoder/yanked`: where somebody has just copied code: a place alone, never what a register or a clipboard holds.

Owns what of a client's words is believed; `workspace/documents` decides which lines are taken.
"""

import logging
from typing import Final, TypeGuard

from fastcoder_lsp.lsp.plain import at
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.workspace.documents import yank_of

logger = logging.getLogger(__name__)

LAST_LINE: Final = 1_000_000


def yanked(session: Session, params: object) -> None:
    """`fastcoder/yanked` {textDocument: {uri, version}, range}: of that version; it ends as the protocol's ranges do.

    The lines that the range touches are kept, as the server's copy of the document has them, and go along with what is
    asked of each document from its next version on. A message that makes no sense, or is of another version than the
    server has (null: whichever it is), changes nothing.
    """
    uri, version = at(params, "textDocument", "uri"), at(params, "textDocument", "version")
    lines = _lines(at(params, "range"))
    if not isinstance(uri, str) or lines is None or not (version is None or _is_whole(version)):
        logger.warning("ignored fastcoder/yanked: it needs textDocument.uri, its version, and a range of lines")
        return
    document = session.documents.get(uri)
    if document is None or version not in (None, document.version):
        logger.debug("a yank in a document that is not open, or of another version: %s", uri)
        return
    folder = session.folder_of(uri)
    settings = session.settings(folder)
    if not (settings.context_enabled and session.completes(settings)):
        return
    if session.rules(folder).may_complete(document.file, document.language) is not None:
        return  # it may hold secrets, by what the editor says of it, too, which nobody knows when it is shown
    yank = yank_of(document, *lines)
    if yank is not None:
        session.documents.yanked(yank)


def _lines(place: object) -> tuple[int, int] | None:
    """The first and the last line that a range touches; None where it is none."""
    first, last, behind = at(place, "start", "line"), at(place, "end", "line"), at(place, "end", "character")
    if not (_is_whole(first) and _is_whole(last) and _is_whole(behind) and 0 <= first <= last <= LAST_LINE):
        return None
    return first, last - 1 if behind == 0 and last > first else last


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
