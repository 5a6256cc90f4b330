"""The editor's knowledge beyond texts: `fastcoder/cursor`, `…/definitions`, `…/diagnostics` and `…/yanked`.

They carry places, and text only in a diagnostic's message: `runtime/context` checks the reading rules when it reads a
definition's file, and copied lines are cut from the server's own document.
"""

import logging
from typing import Final, TypeGuard

from fastcoder_lsp.core import Definition, Diagnostic
from fastcoder_lsp.core.bounds import MOST_DIAGNOSTICS
from fastcoder_lsp.lsp.known_clients import at
from fastcoder_lsp.lsp.requests.ask import prepare
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.workspace.document import Document, Position
from fastcoder_lsp.workspace.documents import yank_of
from fastcoder_lsp.workspace.paths import path_of
from fastcoder_lsp.workspace.secret_lines import MAX_LINE, judge, tells_secret

logger = logging.getLogger(__name__)

MAX_DEFINITIONS: Final = 16  # for one document: the first ones, which are nearest to the cursor
MAX_ENTRIES: Final = 64  # of a message that are read
MAX_NAME: Final = 200
MAX_PATH: Final = 4096
LAST_LINE: Final = 1_000_000
MAX_MESSAGE: Final = 300  # characters of a diagnostic's message that are kept
JUDGED_LINES: Final = 100  # on each side of the first diagnostic: no message may tell a part of a secret there
JUDGED_CHARACTERS: Final = 16_000  # of these lines
MAX_SOURCE: Final = 200  # longest line, in characters, whose diagnostics are kept
_WARNING, _HINT = 2, 4
_UNNECESSARY: Final = 1  # the protocol's severities and its tag of unused code


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


def diagnostics(session: Session, params: object) -> None:
    """`fastcoder/diagnostics` {textDocument: {uri, version}, diagnostics: [Diagnostic]}, nearest to the cursor first.

    Reports of the editor's other servers about that version (null: any). The errors, warnings and notes on unused code
    replace the document's earlier ones from its next version on. Entries that are malformed are ignored; a malformed
    message, or one of another version, changes nothing. Lines alone count, whatever the unit of `character`.
    """
    uri, version = at(params, "textDocument", "uri"), at(params, "textDocument", "version")
    given = at(params, "diagnostics")
    if not isinstance(uri, str) or not isinstance(given, list) or not (version is None or _is_int(version)):
        logger.warning(
            "ignored fastcoder/diagnostics: it needs textDocument.uri, its version, and a list `diagnostics`"
        )
        return
    document = session.documents.get(uri)
    if document is None or version not in (None, document.version):
        logger.debug("diagnostics of a document that is not open, or of another version: %s", uri)
        return
    settings = session.settings(session.folder_of(uri))
    if not (settings.context_enabled and settings.context_diagnostics):
        document.diagnostics = ()
        return
    secret = _secret_lines(document, at(next(iter(given), None), "range", "start", "line"))
    read = [_diagnostic(one, document, secret) for one in given[:MAX_ENTRIES]]
    if wrong := read.count(None) + max(len(given) - MAX_ENTRIES, 0):
        logger.warning("fastcoder/diagnostics: ignored %d of %d: malformed, or too many", wrong, len(given))
    useful = dict.fromkeys(one for one in read if one is not None and one.source)
    document.diagnostics = tuple(useful)[:MOST_DIAGNOSTICS]


def _secret_lines(document: Document, near: object) -> frozenset[str]:
    """The lines around line `near` that look like secrets, stripped; the first diagnostics are near the cursor."""
    first = max(near - JUDGED_LINES, 0) if _is_int(near) else 0
    lines, room = list[str](), JUDGED_CHARACTERS
    for line in document.lines(first, first + 2 * JUDGED_LINES):
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    judged = judge(lines, document.language)
    return frozenset(line.strip() for line, secret in zip(lines, judged, strict=True) if secret)


def _diagnostic(value: object, document: Document, secret: frozenset[str]) -> Diagnostic | None:
    """A diagnostic, with an empty `source` if it is of no use for a prompt; None if it is malformed.

    The whole message is judged, and by the text that it is about: later a part of a secret may be all that is left.
    """
    message, severity, tags = at(value, "message"), at(value, "severity"), at(value, "tags")
    line, character = at(value, "range", "start", "line"), at(value, "range", "start", "character")
    if not (_is_int(line) and _is_int(character) and 0 <= line <= LAST_LINE and character >= 0):
        return None
    if not isinstance(message, str) or not (severity is None or (_is_int(severity) and 1 <= severity <= _HINT)):
        return None
    if not (tags is None or isinstance(tags, list)):
        return None
    unused = tags is not None and _UNNECESSARY in tags[:MAX_ENTRIES]
    kind = _HINT if unused else _WARNING if severity is None else severity
    words = " ".join(message[:MAX_LINE].split())
    told, source = words[:MAX_MESSAGE], next(iter(document.lines(line, line)), "").strip()
    useful = told and len(source) <= MAX_SOURCE and (unused or kind <= _WARNING)
    useful = useful and not tells_secret(words, source, secret)
    return Diagnostic(line, kind, told, source if useful else "")


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
