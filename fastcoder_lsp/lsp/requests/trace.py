"""`fastcoder/trace`: where the tokens of a document's latest completion came from."""

from pygls.exceptions import JsonRpcInvalidParams

from fastcoder_lsp.decode.trace import as_plain
from fastcoder_lsp.lsp.session import Session


def trace(session: Session, params: object) -> dict[str, object] | None:
    """`fastcoder/trace` {uri}: the latest completion that the model was asked for; null where there is none.

    `steps` is what `decode.trace.as_plain` describes; `text` is what was suggested; `context` names the places of other
    code that the prompt showed.
    """
    uri = params.get("uri") if isinstance(params, dict) else None
    if not isinstance(uri, str):
        raise JsonRpcInvalidParams("uri must be a string")
    completion = session.traces.latest(uri)
    if completion is None:
        return None
    return {
        "text": completion.text,
        "finish": completion.finish,
        "tokens": completion.counts.tokens,
        "accepted_by_source": dict(completion.counts.by_source),
        "context": list(completion.context),
        "steps": as_plain(completion.trace),
    }
