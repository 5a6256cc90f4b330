r"""Next-edit suggestions: the methods that GitHub's Copilot server has, and one of our own.

    textDocument/copilotInlineEdit {"textDocument": {"uri": U, "version": V}, "position": P,
                                    "context": {"triggerKind": 1}}
    → {"edits": [{"text": T, "range": R, "textDocument": {"uri": U, "version": V},
                  "command": {"title": "…", "command": NAME, "arguments": [ID]}}],
       "imports": [{"name": N, "range": R}]}
    fastcoder/editsElsewhere        {"textDocument": {"uri": U, "version": V}, "position": P}
    → {"id": ID, "title": "…", "edit": WORKSPACE_EDIT} or {"id": null, "edit": null, "message": "…"}
    textDocument/didShowInlineEdit  {"item": {"command": {"arguments": [ID]}}}   (notification)
    textDocument/didFocus           {"textDocument": {"uri": U}} or {}           (notification)
    fastcoder/editRejected          {"item": {"command": {"arguments": [ID]}}}   (notification)
    workspace/executeCommand        {"command": NAME, "arguments": [ID]}         (request or notification, once applied)

- `context` may be absent. `triggerKind` 1 means that the user asked by key, as in `textDocument/inlineCompletion`:
  then neither `edits.automatic`, the rules about pauses, nor earlier rejections hold it back.
- `edits` is a list, empty where there is nothing to show; `fastcoder/why` says why. Its first entry is the one nearest
  the cursor. The ranges do not overlap, and all refer to version V of the same document: apply all of them as one
  change, or the first one and ask again. `text` has `\n` line ends; an empty range inserts, an empty text deletes.
- A range is minimal: it may begin and end in the middle of a line. It may lie out of the visible part of the document.
- An edit that only inserts text at the cursor is never sent: ghost text (`textDocument/inlineCompletion`) shows it.
- NAME is `github.copilot.didAcceptCompletionItem` with the client's `commandSuffix`. The server offers the command, and
  says `"fastcoderEdits": true` in the `experimental` part of its capabilities, if `edits.model` is set, or
  `edits.analogy` or `edits.imports` is on, at `initialize`; later `edits` in `fastcoder/status` says whether one is.
- The same question about the same version is answered at once. One that comes while the user types is answered after a
  pause.
- After Escape send `fastcoder/editRejected`: the same edit is not suggested again for a while. An edit that was shown
  (`didShowInlineEdit`) and neither accepted nor rejected counts as ignored.
- An answer may be about another file, whose version is null while the editor has it closed: open it, and show the edits
  there. `"elsewhere": true` in the answer says that more files want the same change.
- `fastcoder/editsElsewhere` gives the user's change at all its places, the document's own included, as one edit whose
  places wait for confirmation where the client supports change annotations. Show a preview, and then run the command
  `fastcoder.applyEdits` [ID]: the server compares every file with its text at the offer, and sends
  `workspace/applyEdit` for those that are the same. A client that applies the edit itself runs NAME [ID]. Send
  `fastcoder/editRejected` where the user says no. Clients that do not follow `fastcoder/status` get a code action.
- `imports` is there only where the edits import names: each with a place where the document uses it. Unless the user
  asked by key, ask the document's other servers for code actions at these places before showing the edits.
- A request whose document has changed before its answer came gets `[]`, as does every request while a newer one waits.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lsprotocol import types
from msgspec import structs
from pygls.exceptions import JsonRpcInvalidParams

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Reason, Snapshot
from fastcoder_lsp.core.bounds import MOST_CHANGES
from fastcoder_lsp.edits.analogy import without_model
from fastcoder_lsp.edits.elsewhere import SOURCE as ELSEWHERE
from fastcoder_lsp.edits.imports.missing import SOURCE as IMPORTS
from fastcoder_lsp.edits.imports.missing import MissingImport, missing_imports
from fastcoder_lsp.edits.imports.unused import unused_imports
from fastcoder_lsp.edits.learned import kind_of
from fastcoder_lsp.edits.minimal import apply
from fastcoder_lsp.edits.values import Edit, EditAnswer, EditQuestion
from fastcoder_lsp.lsp.known_clients import at
from fastcoder_lsp.lsp.requests.ask import range_of, request_at_start
from fastcoder_lsp.lsp.requests.elsewhere import (
    APPLY_COMMAND,
    READ_S,
    all_files,
    files_elsewhere,
    nothing_elsewhere,
    offer,
)
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.workspace.document import Encoding, Position, position_at
from fastcoder_lsp.workspace.typed_secrets import types_secret

ACCEPT_COMMAND: Final = "github.copilot.didAcceptCompletionItem"
_TITLE: Final = "Accept the edit"
_MOST_NAME: Final = 1_000  # characters of a language's name
_IMPORTS_MAY: Final = frozenset({"edit-pasted", "edit-deletion"})
"""Reasons that hold back other edits: pasted text may lack imports, and a deletion may leave one unused."""
_TYPING_S: Final = 0.05  # between two looks whether the user still types: clients ask once after a change, some at once
_ACTION: Final = "refactor.rewrite"
_NEXT_FILES: Final = 2  # files that are searched for: the one that is offered, and whether there are more
_INVOKED: Final = types.InlineCompletionTriggerKind.Invoked.value


@dataclass(frozen=True, slots=True)
class ShownEdits:
    """The edits of one file that are shown, the nearest to the cursor first.

    `more`: more files want the same. `imports`: the names that the edits import.
    """

    question: EditQuestion
    edits: Sequence[Edit]
    kind: str
    is_open: bool = True
    more: bool = False
    imports: Sequence[MissingImport] = ()


async def inline_edit(session: Session, params: object) -> dict[str, object]:
    """`textDocument/copilotInlineEdit`: the question is sent before the next message is read."""
    uri, version, position = _place_of(params)
    invoked = at(params, "context", "triggerKind") == _INVOKED
    snapshot = session.documents.snapshot(uri)
    session.edits.counts.requests += 1
    if invoked:
        session.edits.gate.learned.wake()
    number = session.edits.counts.requests
    question = _question(session, snapshot, uri, version, position, invoked=invoked)
    while isinstance(question, Reason) and question.code == "edit-typing" and number == session.edits.counts.requests:
        await asyncio.sleep(_TYPING_S)
        question = _question(session, session.documents.snapshot(uri), uri, version, position, invoked=invoked)
    if isinstance(question, Reason) or snapshot is None:
        return _nothing(session, uri, position, question)
    settings = session.settings(session.folder_of(uri), question.language)
    held = session.edits.gate.before(question, session.edits.history.facts(uri, session.edits.clock()))
    shown: ShownEdits | Reason = held or reasons.no_edit_model(repeated=settings.edits_analogy)
    for ways in (_imports,) if held else (_repeated, _imports, _repeated_elsewhere, _answered_by_model):
        found = await ways(session, question, settings)
        if _has_changed(session, question):
            return _nothing(session, uri, position, reasons.changed())
        if isinstance(found, ShownEdits):
            return _sent(session, found)
        shown = found or shown
    return _nothing(session, uri, position, shown)


async def _repeated(session: Session, question: EditQuestion, settings: Settings) -> ShownEdits | Reason | None:
    """The user's repeated changes and the rest of a rename, in the same file; None where there are none."""
    answer = without_model(question) if settings.edits_analogy else EditAnswer()
    return _worth_showing(session, question, answer) if answer.edits else None


async def _imports(session: Session, question: EditQuestion, settings: Settings) -> ShownEdits | Reason | None:
    """The imports that the last changes need, or those that they left unused; None where there are none."""
    folder = session.folder_of(question.uri)
    table = session.imports.table(folder.path, question.language) if folder is not None else None
    if folder is None or table is None or not settings.edits_imports:
        return None
    root, rules = folder.path, session.rules(folder)
    added = missing_imports(question, table, lambda path: rules.may_read(root / path) is None)
    if not (edits := added.edits or unused_imports(question)):
        return None
    shown = _worth_showing(session, question, EditAnswer(edits, source=IMPORTS))
    return replace(shown, imports=added.imports) if isinstance(shown, ShownEdits) else shown


async def _repeated_elsewhere(
    session: Session, question: EditQuestion, settings: Settings
) -> ShownEdits | Reason | None:
    """The same in another file: the nearest one that wants them."""
    if not settings.edits_analogy:
        return None
    offered, held = await files_elsewhere(session, question, _NEXT_FILES), None
    for one in offered:
        shown = _worth_showing(session, one.question, EditAnswer(one.edits, source=ELSEWHERE))
        if isinstance(shown, ShownEdits):
            return replace(shown, is_open=one.is_open, more=one is not offered[-1])
        held = shown
    return held


async def _answered_by_model(
    session: Session, question: EditQuestion, settings: Settings
) -> ShownEdits | Reason | None:
    """The edit model's, if there is one."""
    if not settings.edits_model:
        return None
    if (held := session.edits.gate.unwanted(question, "model")) is not None:
        return held
    return _worth_showing(session, question, await _answer_of_model(session, question, settings))


def _has_changed(session: Session, question: EditQuestion) -> bool:
    """Whether the question's text is not the document's any more; its indentation may have become known meanwhile."""
    now = session.documents.snapshot(question.uri)
    return now is None or (now.version, now.text) != (question.version, question.text)


async def _answer_of_model(session: Session, question: EditQuestion, settings: Settings) -> EditAnswer:
    """The edit model's answer; its prompt holds other files' changes only where `context.enabled` allows them."""
    if settings.context_enabled is False:
        question = structs.replace(
            question, history=tuple(one for one in question.history if one.path == question.path)
        )
    if not question.history:
        return EditAnswer(reason=reasons.changed_elsewhere())
    future = session.service.edits.submit(question)
    answer = future.result() if future.done() else await asyncio.wrap_future(future)
    if answer.ms:
        session.edits.spans.record(answer.ms)
    return answer


async def edits_elsewhere(session: Session, params: object) -> dict[str, object]:
    """`fastcoder/editsElsewhere`: the user asks for the same change at all other places of the repository."""
    session.edits.gate.learned.wake()
    return await _everywhere(session, params, READ_S)


async def _everywhere(session: Session, params: object, patience_s: float) -> dict[str, object]:
    uri, version, position = _place_of(params)
    snapshot = session.documents.snapshot(uri)
    question = _question(session, snapshot, uri, version, position, invoked=True)
    if isinstance(question, Reason):
        return nothing_elsewhere(question)
    offered = await all_files(session, question, patience_s)
    if _has_changed(session, question):
        return nothing_elsewhere(reasons.changed())
    if isinstance(offered, Reason):
        return nothing_elsewhere(offered)
    return offer(session, offered) if offered else nothing_elsewhere()


async def code_action(session: Session, params: types.CodeActionParams) -> list[dict[str, object]]:
    """`textDocument/codeAction`: the same, for editors without a plugin of ours."""
    wanted = params.context.only
    if wanted and not any(_ACTION.startswith(f"{kind}.") or kind == _ACTION for kind in wanted):
        return []
    start = params.range.start
    place = {
        "textDocument": {"uri": params.text_document.uri},
        "position": {"line": start.line, "character": start.character},
    }
    found = await _everywhere(session, place, 0.0)  # editors ask wherever the cursor rests
    if found["id"] is None:
        return []
    command = f"{APPLY_COMMAND}{session.client.command_suffix}"
    made = {"title": found["title"], "command": command, "arguments": [found["id"]]}
    return [{"title": found["title"], "kind": _ACTION, "command": made}]


def did_show(session: Session, params: object) -> None:
    """`textDocument/didShowInlineEdit`: the editor shows an edit."""
    session.edits.shown(_id_of(params))


def rejected(session: Session, params: object) -> None:
    """`fastcoder/editRejected`: the user rejected an edit."""
    session.edits.rejected(_id_of(params))


def did_focus(session: Session, params: object) -> None:
    """`textDocument/didFocus`: questions about other documents are withdrawn."""
    uri = at(params, "textDocument", "uri")
    if isinstance(uri, str):
        session.service.edits.focus(uri)


def accepted(session: Session, arguments: Sequence[object]) -> None:
    """The command of an edit: the user accepted it."""
    session.edits.accepted(arguments[0] if arguments else None)


def _question(
    session: Session, snapshot: Snapshot | None, uri: str, version: object, position: Position, *, invoked: bool
) -> EditQuestion | Reason:
    allowed, document = request_at_start(session, uri), session.documents.get(uri)
    if isinstance(allowed, Reason):
        if invoked and document is not None:
            session.outcomes.say(uri, allowed)
        return allowed
    if snapshot is None or document is None or (version is not None and version != document.version):
        return reasons.changed()
    settings = session.settings(session.folder_of(uri), snapshot.language)
    if not (settings.edits_model or settings.edits_analogy or settings.edits_imports):
        return reasons.no_edit_model()
    policy = session.policy(uri, snapshot.language)
    if not invoked and policy.quiet.snoozed:
        return reasons.snoozed()
    if not invoked and not (settings.edits_automatic and policy.ahead and not policy.quiet.invoked):
        return reasons.edits_by_key()
    now = session.edits.clock()
    facts = session.edits.history.facts(uri, now)
    # Before all that reads the text, which takes milliseconds: questions wait here while the user types.
    if not invoked and (held := session.edits.gate.typing(facts)) is not None:
        return held
    offset = document.offset_at(position, session.client.encoding)
    if not settings.where_secrets and types_secret(snapshot.text[:offset], snapshot.language):
        return reasons.secret_line()
    path, folder = session.edit_path(uri)
    history = session.edits.history.changes(now, folder)[-MOST_CHANGES:]
    question = EditQuestion(
        number=0,
        uri=uri,
        path=path,
        language=snapshot.language[:_MOST_NAME],
        version=document.version,
        text=snapshot.text,
        offset=offset,
        history=history,
        invoked=invoked,
    )
    held = session.edits.gate.before(question, facts)
    return question if held is None or (settings.edits_imports and held.code in _IMPORTS_MAY) else held


def _worth_showing(session: Session, question: EditQuestion, answer: EditAnswer) -> ShownEdits | Reason:
    """The edits of an answer that are shown, the nearest to the cursor first; or why none is."""
    if not answer.edits:
        return answer.reason or reasons.no_edit()
    threshold = session.settings(session.folder_of(question.uri), question.language).edits_threshold
    kind = kind_of(answer.source)
    held = session.edits.gate.after(question, answer.edits, answer.probability, threshold, cut=answer.cut, kind=kind)
    if held is not None:
        return held
    shown = [edit for edit in answer.edits if not _is_ghost_text(edit, question)]
    shown.sort(key=lambda edit: max(edit.start - question.offset, question.offset - edit.end, 0))
    return ShownEdits(question, shown, kind) if shown else reasons.ghost_text()


def _is_ghost_text(edit: Edit, question: EditQuestion) -> bool:
    text, offset, after = question.text, question.offset, apply(question.text, [edit])
    return len(after) > len(text) and after.startswith(text[:offset]) and after.endswith(text[offset:])


def _sent(session: Session, shown: ShownEdits) -> dict[str, object]:
    question, edits, encoding = shown.question, shown.edits, session.client.encoding
    document = {"uri": question.uri, "version": question.version if shown.is_open else None}
    snapshot = Snapshot(question.uri, None, question.language, question.version, question.text)
    session.edits.reasons.shown(question.uri, position_at(question.text, question.offset, encoding))
    command = f"{ACCEPT_COMMAND}{session.client.command_suffix}"
    return {
        "edits": [
            {
                "text": edit.text,
                "range": range_of(snapshot, edit.start, edit.end, encoding),
                "textDocument": document,
                "command": {"title": _TITLE, "command": command, "arguments": [name]},
            }
            for name, edit in zip(session.edits.send(question, edits, shown.kind), edits, strict=True)
        ],
        **({"elsewhere": True} if shown.more else {}),
        **({"imports": [_imported(snapshot, one, encoding) for one in shown.imports]} if shown.imports else {}),
    }


def _imported(snapshot: Snapshot, one: MissingImport, encoding: Encoding) -> dict[str, object]:
    """A name that the edits import, where the document uses it."""
    return {"name": one.name, "range": range_of(snapshot, one.used_at, one.used_at + len(one.name), encoding)}


def _nothing(session: Session, uri: str, position: Position, reason: object) -> dict[str, object]:
    if isinstance(reason, Reason) and session.documents.get(uri) is not None:
        session.edits.reasons.keep(uri, position, reason)
    return {"edits": []}


def _place_of(params: object) -> tuple[str, object, Position]:
    """The document, its version and the cursor in the params; raises JsonRpcInvalidParams without such a place."""
    uri, version = at(params, "textDocument", "uri"), at(params, "textDocument", "version")
    line, character = at(params, "position", "line"), at(params, "position", "character")
    if not isinstance(uri, str) or not isinstance(line, int) or not isinstance(character, int):
        raise JsonRpcInvalidParams("textDocument.uri must be a string, and position a line and a character")
    return uri, version, Position(line, character)


def _id_of(params: object) -> object:
    arguments = at(params, "item", "command", "arguments")
    return arguments[0] if isinstance(arguments, list) and arguments else None
