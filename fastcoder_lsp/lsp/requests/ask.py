"""Requests to the service at places in open documents, and the edits of its answers."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lsprotocol import types

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import Completion, CompletionRequest, Reason, SelectedCompletion, Snapshot
from fastcoder_lsp.lsp.reasons import no_room, of_rule, stale_document, unknown_document
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.workspace.document import ContentChange, Document, Encoding, Position, position_at
from fastcoder_lsp.workspace.paths import path_of

logger = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True)
class InlineSuggestion:
    """`text` replaces `range`, which is on one line; the editor runs `accept` when the user accepts it."""

    text: str
    range: types.Range
    start: int
    accept: types.Command


def request_at(
    session: Session,
    uri: str,
    position: types.Position,
    *,
    invoked: bool,
    selected: types.SelectedCompletionInfo | None = None,
) -> CompletionRequest | None:
    """The request at a place; None if nothing may be suggested there, for a reason that is recorded."""
    request, document = request_at_start(session, uri), session.documents.get(uri)
    if document is None or isinstance(request, Reason):
        if document is not None and isinstance(request, Reason):
            session.outcomes.refused(uri, position_of(position), request, invoked=invoked)
        return None
    encoding = session.client.encoding
    entry = None
    if selected is not None:
        start, end = (
            document.offset_at(position_of(at), encoding) for at in (selected.range.start, selected.range.end)
        )
        entry = SelectedCompletion(min(start, end), max(start, end), selected.text.replace("\r\n", "\n"))
    offset = document.offset_at(position_of(position), encoding)
    return replace(request, offset=offset, invoked=invoked, selected=entry)


def prefetch(session: Session, uri: str, offset: int) -> None:
    """Prefetch the next suggestion after one was accepted up to `offset`."""
    request = request_at_start(session, uri)
    if not isinstance(request, Reason):
        request = replace(request, offset=offset)
        session.service.accepted(request, policy(session, request))


def prepare(session: Session, uri: str, offset: int) -> None:
    """Prepare a suggestion at a place where the cursor rests; a remote server gets no text for it."""
    request = request_at_start(session, uri)
    if not isinstance(request, Reason) and not session.settings().remote_url:
        request = replace(request, offset=offset)
        session.service.cursor_rests(request, policy(session, request))


def policy(session: Session, request: CompletionRequest) -> Policy:
    """The request's policy."""
    return session.policy(request.snapshot.uri, request.snapshot.language)


def suggestions(
    session: Session, request: CompletionRequest, completion: Completion, *, overtaken: bool = False
) -> list[InlineSuggestion]:
    """The suggestions of an answer, the likeliest first; none if the document has changed since.

    `overtaken`: also those that the user has typed along since. Their ranges are those of the request's document, as
    the protocol wants it.
    """
    session.traces.keep(request.snapshot.uri, completion)
    snapshot = request.snapshot
    candidates = [one for one in (completion, *completion.others) if _can_be_shown(request, one)]
    now = session.documents.snapshot(snapshot.uri)
    typed_since = "" if now is snapshot else _typed_since(request, now) if overtaken else None
    if typed_since:
        candidates = [one for one in candidates if _continues(request, one, typed_since)]
    if now is None or typed_since is None or (typed_since and not candidates):
        record_empty(session, request, reasons.changed())
        return []
    if not candidates:
        why = no_room() if completion.text else completion.reason or reasons.nothing_worth_showing()
        record_empty(session, request, why)
        return []
    first = candidates[0]
    session.outcomes.shown(snapshot.uri, position_at(snapshot.text, request.offset, session.client.encoding))
    typed = snapshot.text[first.start : request.offset]
    inserted_from = request.offset + len(typed_since) if first.text.startswith(typed) else first.start
    inserted = first.text[inserted_from - first.start :]
    source, before = "cache" if completion.finish == "typed-through" else "model", session.accepts.counts.shown
    number = session.accepts.shown(snapshot.uri, now.text, inserted_from, inserted, source)
    if session.accepts.counts.shown > before:
        changed = session.accepts.has_changed(snapshot.uri)
        session.usage.shown(snapshot.language, source, completion.ms.get("total", 0.0), changed=changed)
        session.usage.compare_later(snapshot.uri, snapshot.language, source, inserted_from, inserted)
    return [
        InlineSuggestion(
            text=one.text,
            range=range_of(snapshot, one.start, one.end, session.client.encoding),
            start=one.start,
            accept=types.Command("Accepted", accept_command(session), arguments=[number]),
        )
        for one in candidates
    ]


def _typed_since(request: CompletionRequest, now: Snapshot | None) -> str | None:
    """The text that was typed at the request's place since, if nothing else has changed."""
    before, after = request.snapshot.text[: request.offset], request.snapshot.text[request.offset :]
    if now is None or not (now.text.startswith(before) and now.text.endswith(after)):
        return None
    return now.text[len(before) : len(now.text) - len(after)] or None


def _continues(request: CompletionRequest, completion: Completion, typed: str) -> bool:
    """Whether a suggestion begins with the typed text, and has more."""
    known = request.snapshot.text[completion.start : request.offset] + typed
    return completion.text.startswith(known) and completion.text != known


def record_empty(session: Session, request: CompletionRequest, reason: Reason) -> None:
    """Record that a request was answered empty."""
    snapshot = request.snapshot
    session.outcomes.empty(snapshot.uri, position_at(snapshot.text, request.offset, session.client.encoding), reason)


def _can_be_shown(request: CompletionRequest, completion: Completion) -> bool:
    selected = request.selected
    if not completion.text or "\n" in request.snapshot.text[completion.start : completion.end]:
        return False  # no editor draws ghost text over several lines
    return selected is None or (  # editors show only an extension of the selected entry
        completion.start == selected.start
        and completion.text.startswith(selected.text)
        and len(completion.text) > len(selected.text)
    )


def request_at_start(session: Session, uri: str) -> CompletionRequest | Reason:
    """The request at the start of a document, or why nothing may be suggested in it."""
    document = session.documents.get(uri)
    if document is not None:
        document.indentation = session.indentation(document)
    snapshot = session.documents.snapshot(uri)
    if document is None or snapshot is None:
        return unknown_document()
    if document.is_stale:
        return stale_document()
    folder = session.folder_of(uri)
    settings, rules = session.settings(folder, document.language), session.rules(folder)
    size, longest = len(snapshot.text), document.longest_line()
    rule = rules.may_complete(document.file, document.language) or rules.size_reason(size, longest)
    if rule is not None:
        session.reporter.explain(f"no suggestions in {uri}: {rule.value}")
        return of_rule(rule, settings, size, longest)
    if not session.is_enabled(settings):
        return reasons.off()
    return CompletionRequest(snapshot, offset=0, max_tokens=settings.completion_max_tokens)


def accept_command(session: Session) -> str:
    """The name of the command that editors run on accepting."""
    return f"fastcoder.accepted{session.client.command_suffix}"


def log_spans(method: str, snapshot: Snapshot, completion: Completion) -> None:
    """Log one line per request, times and counts only."""
    if logger.isEnabledFor(logging.INFO):
        spans = " ".join(f"{span}={ms:.1f}" for span, ms in completion.ms.items())
        logger.info("%s version=%s finish=%s %s", method, snapshot.version, completion.finish, spans)
