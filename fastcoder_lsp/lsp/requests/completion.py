"""`textDocument/completion`: suggestions in the completion menu, for clients without ghost text.

The menu waits for all servers, so the answer takes at most `popup.budget_ms`. The list is always incomplete, so that
the client asks again at the next key.
"""

import asyncio
import re
from dataclasses import replace

from lsprotocol import types

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.core import Completion, CompletionRequest
from fastcoder_lsp.lsp.capabilities import offers_popup
from fastcoder_lsp.lsp.reasons import menu_waited
from fastcoder_lsp.lsp.requests.ask import InlineSuggestion, log_spans, policy, record_empty, request_at, suggestions
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.lsp.wire import waited_ms
from fastcoder_lsp.workspace.document import index_to_units

METHOD = "textDocument/completion"
_WORD_BEFORE = re.compile(r"\w*\Z")
_LABEL_LENGTH = 80


async def completion(session: Session, params: types.CompletionParams) -> types.CompletionList:
    """The request is sent before the next message is read; the answer is awaited meanwhile."""
    settings = session.settings(session.folder_of(params.text_document.uri))
    if not offers_popup(session.client, popup=settings.popup_enabled):
        return _menu([])
    kind = params.context.trigger_kind if params.context else types.CompletionTriggerKind.Invoked
    request = request_at(
        session,
        params.text_document.uri,
        params.position,
        invoked=False if session.client.inline_completion else kind is types.CompletionTriggerKind.Invoked,
    )
    if request is None:
        return _menu([])
    rules = policy(session, request)
    # A menu's requests do not tell a key from typing: "invoked" is both.
    rules = replace(rules, alternatives=1, quiet=replace(rules.quiet, also_by_key=True))
    future = session.service.submit(request, rules, waited_ms())
    if future.done():
        return _shown(session, request, future.result())
    return await _awaited(session, request, asyncio.wrap_future(future), settings.popup_budget_ms / 1e3)


async def _awaited(
    session: Session, request: CompletionRequest, answer: asyncio.Future[Completion], budget_s: float
) -> types.CompletionList:
    """The answer, empty at the deadline; the work continues, so that the next key finds it done."""
    try:
        done, _ = await asyncio.wait({answer}, timeout=budget_s)
    except asyncio.CancelledError:
        answer.cancel()
        record_empty(session, request, reasons.cancelled(invoked=request.invoked))
        raise
    if not done:
        record_empty(session, request, menu_waited(budget_s * 1e3))
        return _menu([])
    return _shown(session, request, answer.result())


def _shown(session: Session, request: CompletionRequest, answer: Completion) -> types.CompletionList:
    log_spans(METHOD, request.snapshot, answer)
    return _menu([_item(session, request, shown) for shown in suggestions(session, request, answer)])


def _menu(items: list[types.CompletionItem]) -> types.CompletionList:
    return types.CompletionList(is_incomplete=True, items=items)


def _item(session: Session, request: CompletionRequest, shown: InlineSuggestion) -> types.CompletionItem:
    """Menus filter by the word before the cursor, so the item replaces that word, and begins with it."""
    snapshot = request.snapshot
    line = snapshot.text[snapshot.text.rfind("\n", 0, shown.start) + 1 : shown.start]
    match = _WORD_BEFORE.search(line)
    word = match.group() if match else ""
    text = word + shown.text
    units = index_to_units(word, len(word), session.client.encoding)
    start = types.Position(shown.range.start.line, shown.range.start.character - units)
    first, _, rest = text.partition("\n")
    return types.CompletionItem(
        label=first.strip()[:_LABEL_LENGTH] or text.strip().partition("\n")[0][:_LABEL_LENGTH],
        kind=types.CompletionItemKind.Text,
        detail="fastcoder",
        documentation=_preview(session, snapshot.language, text) if rest else None,
        filter_text=text,
        sort_text="0",
        insert_text_format=types.InsertTextFormat.PlainText,
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(types.Range(start, shown.range.end), text),
        command=shown.accept,
    )


def _preview(session: Session, language: str, text: str) -> types.MarkupContent | str:
    """The whole text beside the menu, in a code fence longer than any in the text."""
    if not session.client.markdown:
        return text
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return types.MarkupContent(types.MarkupKind.Markdown, f"{fence}{language}\n{text}\n{fence}")
