"""`fastcoder/definitions`: where names near the cursor are defined, which the editor's other servers know.

Owns what of a client's words is believed: places alone, of files on this disk. Whether they may be read is asked when
they are, by whoever reads them (`runtime/context`).
"""

import logging
from typing import Final

from fastcoder_lsp.core import Definition
from fastcoder_lsp.lsp.plain import at
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.workspace.uris import path_of

logger = logging.getLogger(__name__)

MOST: Final = 16
"""Definitions that are kept for a document: the first ones, which are nearest to the cursor."""
MOST_LOOKED_AT: Final = 64
"""Of a message."""
LONGEST_NAME: Final = 200
LONGEST_PATH: Final = 4096
LAST_LINE: Final = 1_000_000


def definitions(session: Session, params: object) -> None:
    """`fastcoder/definitions` {textDocument: {uri, version}, definitions: [{name, uri, range}]}, nearest first.

    `name` may be left out, and `version`: the places are in other files. They take the place of what the document had,
    and hold from its next version on. Entries that make no sense, that are of no file or of the document itself are
    left out; a message that makes none changes nothing.
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
    read = [_read(one) for one in given[:MOST_LOOKED_AT]]
    if wrong := read.count(None) + max(len(given) - MOST_LOOKED_AT, 0):
        logger.warning(
            "fastcoder/definitions: ignored %d of %d: not in a file, malformed, or too many", wrong, len(given)
        )
    own = str(document.file)
    document.definitions = tuple(dict.fromkeys(one for one in read if one is not None and one.path != own))[:MOST]


def _read(value: object) -> Definition | None:
    """A definition; None where it is of no file on this disk, or is malformed."""
    name, uri, line = at(value, "name"), at(value, "uri"), at(value, "range", "start", "line")
    if not isinstance(uri, str) or len(uri) > 3 * LONGEST_PATH or not uri.lower().startswith("file:"):
        return None
    if not isinstance(line, int) or isinstance(line, bool) or not 0 <= line <= LAST_LINE:
        return None
    if name is not None and (not isinstance(name, str) or len(name) > LONGEST_NAME):
        return None
    path = path_of(uri)
    if path is None or not path.is_absolute() or ".." in path.parts or len(str(path)) > LONGEST_PATH:
        return None
    return Definition(name or "", str(path), line)
