"""`textDocument/inlineCompletion`: ghost text; and `fastcoder/answered`: each answer's times and counts."""

import asyncio
from typing import Final

from lsprotocol import types

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.core import Completion, CompletionRequest, Snapshot
from fastcoder_lsp.lsp.endpoint import WithFormattingOptions
from fastcoder_lsp.lsp.requests.ask import log_spans, policy, record_empty, request_at, suggestions
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.lsp.wire import waited_ms

METHOD: Final = "textDocument/inlineCompletion"
ANSWERED_METHOD: Final = "fastcoder/answered"


def notify_answered(session: Session, snapshot: Snapshot, completion: Completion) -> None:
    """Notify the client before the answer itself; `version` is the document's at the request."""
    if not session.client.reports_answers:
        return
    session.endpoint.notify(
        ANSWERED_METHOD,
        {
            "uri": snapshot.uri,
            "version": snapshot.version,
            "finish": completion.finish,
            "ms": dict(completion.ms),
            "steps": completion.counts.steps,
            "tokens": completion.counts.tokens,
            "accepted": completion.counts.accepted,
            "accepted_by_source": dict(completion.counts.by_source),
            "prefilled": completion.counts.prefilled,
            "reused": completion.counts.reused,
        },
    )


async def inline_completion(session: Session, params: types.InlineCompletionParams) -> types.InlineCompletionList:
    """The request is sent before the next message is read; the answer is awaited meanwhile."""
    document = session.documents.get(params.text_document.uri)
    if document is not None and isinstance(params, WithFormattingOptions):
        document.editors_indentation = params.indentation
    request = request_at(
        session,
        params.text_document.uri,
        params.position,
        invoked=params.context.trigger_kind is types.InlineCompletionTriggerKind.Invoked,
        selected=params.context.selected_completion_info,
    )
    if request is None:
        return types.InlineCompletionList([])
    future = session.service.submit(request, policy(session, request), waited_ms())
    try:
        completion = future.result() if future.done() else await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        record_empty(session, request, reasons.cancelled(invoked=request.invoked))
        raise
    return _shown(session, request, completion)


def _shown(session: Session, request: CompletionRequest, completion: Completion) -> types.InlineCompletionList:
    log_spans(METHOD, request.snapshot, completion)
    notify_answered(session, request.snapshot, completion)
    return types.InlineCompletionList(
        [
            types.InlineCompletionItem(insert_text=shown.text, range=shown.range, command=shown.accept)
            for shown in suggestions(session, request, completion)
        ]
    )
