"""Edits of other files on their way to the editor: texts, versions, and the protocol's edit of the workspace.

The host says where the edits are. Each file's text is compared here with the one that was searched: at the offer, and
again before anything changes. A file that is another one by then is left out.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from lsprotocol import types
from msgspec import structs
from pygls.exceptions import JsonRpcInvalidParams

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.core import Reason, Snapshot
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.edits.analogy import without_model
from fastcoder_lsp.edits.elsewhere import MOST_FOUND, FileEdits, concerns_others, digest_of
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.lsp.edits import OfferedFile
from fastcoder_lsp.lsp.requests.ask import range_of
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.workspace.folders import Folder
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.paths import path_of, uri_of

SEARCH_S: Final = 2.0  # how long a question waits for a search; a host may be lost meanwhile
READ_S: Final = 6.0  # how long the user's own question waits for a folder that is still being read
APPLY_COMMAND: Final = "fastcoder.applyEdits"
_ANNOTATION: Final = "fastcoder"


async def files_elsewhere(session: Session, question: EditQuestion, most: int = MOST_FOUND) -> list[OfferedFile]:
    """The files that want the changes of a question, too: the question's own first, then the nearest."""
    return (await _searched(session, question, most, 0.0))[0]


async def _searched(
    session: Session, question: EditQuestion, most: int, patience_s: float
) -> tuple[list[OfferedFile], bool]:
    """The same, and whether these are all."""
    folder = session.folder_of(question.uri)
    if folder is None or not concerns_others(question.history):
        return [], True
    future = session.service.edits.search(question, most, patience_s)
    try:
        found = await asyncio.wait_for(asyncio.wrap_future(future), SEARCH_S + patience_s)
    except TimeoutError:
        return [], False
    offered = [await _offered(session, folder, question, one) for one in found.files]
    return [one for one in offered if one is not None], found.complete


async def all_files(session: Session, question: EditQuestion, patience_s: float) -> list[OfferedFile] | Reason:
    """The same for a preview, with the other places of the question's own file; a reason while others are unknown."""
    own = without_model(question).edits
    found, complete = await _searched(session, question, MOST_FOUND, patience_s)
    if not complete:
        return reasons.still_reading()
    if not own:
        return found
    same = [one for one in found if one.question.uri == question.uri and one.question.text == question.text]
    named = (edit for one in same for edit in one.edits)
    more = [one for one in named if all(one.end < edit.start or edit.end < one.start for edit in own)]
    here = OfferedFile(question, tuple(sorted([*own, *more], key=lambda edit: edit.start)), is_open=True)
    return [here, *(one for one in found if one.question.uri != question.uri)]


async def _offered(session: Session, folder: Folder, question: EditQuestion, found: FileEdits) -> OfferedFile | None:
    path = folder.path / found.path
    uri, text, version = await _text_now(session, folder, path)
    if text is None or digest_of(text) != found.digest or any(edit.end > len(text) for edit in found.edits):
        return None
    own = uri == question.uri
    if not own and session.rules(folder).may_read(path) is not None:  # a changed rule applies at once
        return None
    there = structs.replace(
        question,
        uri=uri,
        path=found.path,
        language=question.language if own else language_of(path),
        version=version or 0,
        text=text,
        offset=question.offset if own else 0,
    )
    return OfferedFile(there, found.edits, is_open=version is not None)


async def _text_now(session: Session, folder: Folder, path: Path) -> tuple[str, str | None, int | None]:
    """A file's URI, its text (None where it may not be read), and its version if it is open."""
    if (document := session.documents.get(uri_of(path))) is not None:
        return document.uri, document.clean_text, document.version
    text = await asyncio.to_thread(session.rules(folder).read_text, path)
    return uri_of(path), text.replace("\r\n", "\n") if isinstance(text, str) else None, None


async def unchanged(session: Session, offered: Sequence[OfferedFile]) -> list[OfferedFile]:
    """The files that are still as they were at the offer, and may still be read."""
    kept = list[OfferedFile]()
    for one in offered:
        path = path_of(one.question.uri)
        folder = session.folder_of(one.question.uri)
        if path is not None and folder is not None:
            uri, text, version = await _text_now(session, folder, path)
            if text == one.question.text and (version == one.question.version or not one.is_open):
                now = structs.replace(one.question, uri=uri, version=version or 0)
                kept.append(OfferedFile(now, one.edits, is_open=version is not None))
    return kept


def workspace_edit(session: Session, offered: Sequence[OfferedFile], title: str) -> dict[str, Any]:
    """The protocol's edit: each place waits for the user's confirmation where the editor can show that."""
    annotated = session.client.annotates_edits
    label = {"annotationId": _ANNOTATION} if annotated else {}
    changes = [
        {
            "textDocument": {"uri": one.question.uri, "version": one.question.version if one.is_open else None},
            "edits": [{**edit, **label} for edit in _text_edits(session, one)],
        }
        for one in offered
    ]
    if not session.client.versions_edits:
        return {"changes": {one["textDocument"]["uri"]: one["edits"] for one in changes}}  # type: ignore[index]
    annotations = {_ANNOTATION: {"label": title, "needsConfirmation": True}}
    return {"documentChanges": changes, **({"changeAnnotations": annotations} if annotated else {})}


def _text_edits(session: Session, one: OfferedFile) -> list[dict[str, object]]:
    asked = one.question
    snapshot = Snapshot(asked.uri, None, asked.language, asked.version, asked.text)
    encoding = session.client.encoding
    return [{"range": range_of(snapshot, edit.start, edit.end, encoding), "newText": edit.text} for edit in one.edits]


def title_of(offered: Sequence[OfferedFile]) -> str:
    """The edits of some files, in words."""
    places = sum(len(one.edits) for one in offered)
    return f"Make the same change at {counted(places, 'more place')} in {counted(len(offered), 'file')}"


def offer(session: Session, offered: Sequence[OfferedFile]) -> dict[str, Any]:
    """The answer to `fastcoder/editsElsewhere`: the edit of all files, and the name by which it is applied."""
    title = title_of(offered)
    return {
        "id": session.edits.offer(offered),
        "title": title,
        "edit": workspace_edit(session, offered, title),
    }


def nothing_elsewhere(reason: Reason | None = None) -> dict[str, Any]:
    """The same where there is none."""
    return {"id": None, "edit": None, "message": (reason or reasons.no_edit_elsewhere()).text}


async def apply_edits(session: Session, arguments: Sequence[object]) -> object:
    """The command that makes an offer's edits: the client is asked to apply those of unchanged files."""
    offered = session.edits.offered(arguments[0] if arguments else None)
    if offered is None:
        raise JsonRpcInvalidParams("no such edits: they were made, or others were offered since")
    kept = await unchanged(session, offered)
    if left := len(offered) - len(kept):
        text = f"fastcoder: {counted(left, 'file')} changed meanwhile and {'is' if left == 1 else 'are'} left out."
        message = types.ShowMessageParams(type=types.MessageType.Info, message=text)
        session.endpoint.notify("window/showMessage", message)
    if not kept:
        return {"applied": False}
    title = title_of(kept)
    params = {"label": title, "edit": workspace_edit(session, kept, title)}
    answer = await asyncio.wrap_future(session.endpoint.send_request("workspace/applyEdit", params))
    applied = isinstance(answer, dict) and answer.get("applied") is True
    session.edits.settle_offer(arguments[0], made=applied)
    return {"applied": applied}
