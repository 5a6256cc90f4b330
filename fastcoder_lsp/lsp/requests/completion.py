"""`textDocument/completion`: suggestions in the completion menu, for clients without ghost text.

The menu waits for all servers, so the answer takes at most `popup.budget_ms`. The list is always incomplete, so that
the client asks again at the next key.
"""

import asyncio
import re
from dataclasses import replace
from itertools import takewhile

from lsprotocol import types

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.core import Completion, CompletionRequest
from fastcoder_lsp.lsp.capabilities import offers_popup
from fastcoder_lsp.lsp.known_clients import MenuText
from fastcoder_lsp.lsp.reasons import menu_waited, no_room
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
    shown = suggestions(session, request, answer, overtaken=True)
    items = [item for one in shown if (item := _item(session, request, one)) is not None]
    if shown and not items:
        record_empty(session, request, no_room())
    return _menu(items)


def _menu(items: list[types.CompletionItem]) -> types.CompletionList:
    return types.CompletionList(is_incomplete=True, items=items)


def _item(session: Session, request: CompletionRequest, shown: InlineSuggestion) -> types.CompletionItem | None:
    """Menus filter by the word before the cursor, so the item replaces that word, and begins with it."""
    snapshot = request.snapshot
    line = snapshot.text[snapshot.text.rfind("\n", 0, shown.start) + 1 : shown.start]
    match = _WORD_BEFORE.search(line)
    word = match.group() if match else ""
    text = word + shown.text
    inserted = written(text, line, session.client.menu_text)
    if not inserted.removeprefix(word).strip():
        return None
    units = index_to_units(word, len(word), session.client.encoding)
    start = types.Position(shown.range.start.line, shown.range.start.character - units)
    return types.CompletionItem(
        label=inserted.strip().partition("\n")[0][:_LABEL_LENGTH],
        kind=types.CompletionItemKind.Text,
        detail="fastcoder",
        documentation=_preview(session, snapshot.language, text) if "\n" in inserted else None,
        filter_text=inserted,
        sort_text="0",
        insert_text_format=types.InsertTextFormat.PlainText,
        insert_text_mode=types.InsertTextMode(session.client.insert_text_mode),
        text_edit=types.TextEdit(types.Range(start, shown.range.end), inserted),
        command=shown.accept,
    )


def written(text: str, line: str, kind: MenuText) -> str:
    """`text`, which stands behind the beginning `line` of its line, as the client takes it."""
    first, *more = text.split("\n")
    if kind is MenuText.ONE_LINE:
        return first
    if kind is MenuText.AS_IS:
        return text
    indentation = line[: len(line) - len(line.lstrip())] or first[: len(first) - len(first.lstrip())]
    # The client cannot write a line with less indentation than the first.
    kept = takewhile(lambda one: not one.strip() or one.startswith(indentation), more)
    return "\n".join((first, *(one.removeprefix(indentation) for one in kept))).rstrip("\n")


def _preview(session: Session, language: str, text: str) -> types.MarkupContent | str:
    """The whole text beside the menu, in a code fence longer than any in the text."""
    if not session.client.markdown:
        return text
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return types.MarkupContent(types.MarkupKind.Markdown, f"{fence}{language}\n{text}\n{fence}")
