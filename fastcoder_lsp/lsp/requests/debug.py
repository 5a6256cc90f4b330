"""Requests for tests, offered by `serve --debug` only."""

from pygls.exceptions import JsonRpcInvalidParams

from fastcoder_lsp.lsp.session import Session


def debug_text(session: Session, params: object) -> dict[str, object]:
    """`fastcoder/debug/text` {uri}: the server's own copy of an open document, line ends as the client sent them."""
    uri = params.get("uri") if isinstance(params, dict) else None
    document = session.documents.get(uri) if isinstance(uri, str) else None
    if document is None:
        raise JsonRpcInvalidParams("no such open document")
    return {"version": document.version, "text": document.text}
