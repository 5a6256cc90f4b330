"""Requests that report on the server: `fastcoder/why`, `fastcoder/stats`, `fastcoder/trace`, `fastcoder/debug/text`."""

from dataclasses import asdict

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config.resolve import shown as printable
from fastcoder_lsp.core import Reason
from fastcoder_lsp.decode.trace import as_plain
from fastcoder_lsp.lsp.reasons import MAX_NAME, LastSuggestion, Silence, document_name, sentences
from fastcoder_lsp.lsp.requests.ask import request_at_start
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.lsp.summary import summary

_MAX_LISTED = 8
_TRIGGER_HINT = (
    "Type something. If no suggestion appears, press the key that requests one, and check that the editor's own "
    "setting for inline suggestions is on (VS Code: editor.inlineSuggest.enabled)."
)


def why(session: Session, params: object) -> dict[str, object]:
    """`fastcoder/why` {textDocument: {uri}}: `text` for the user, `items` for programs, the latest first."""
    return explanation(session, _uri_of(params))


def why_command(session: Session, arguments: list[object]) -> dict[str, object]:
    """The same as a command, for editors that can only show messages.

    Its argument is the document's URI or the request's params; without one, the last question's document counts.
    """
    latest = session.outcomes.reasons.latest() or session.edits.reasons.latest()
    uri = _uri_in(arguments[0]) if arguments else latest
    if uri is None:
        text = f"The editor has not requested a suggestion yet. {_TRIGGER_HINT}"
        answer: dict[str, object] = {"text": text, "items": []}
    else:
        answer = explanation(session, uri)
    text = f"fastcoder: {answer['text']}"
    session.endpoint.notify("window/showMessage", types.ShowMessageParams(type=types.MessageType.Info, message=text))
    return answer


def explanation(session: Session, uri: str) -> dict[str, object]:
    """Why a document has no suggestion, as text and as items."""
    uri = session.spelling(uri)
    silences, ago_s = session.outcomes.reasons.silences(uri), session.outcomes.reasons.ago_s
    edits = _edits(session, uri)
    headline = _headline(session, uri, edits)
    now, answering = _described(session.reporter.current), session.reporter.answering
    doing = f"Now: {now} ({answering})" if answering else f"Now: {now}"
    lines = [*headline, *_context(session, uri), *([] if headline == edits else edits), doing]
    lines += [f"{note[0].upper()}{note[1:]}." for note in session.reporter.notes]
    if earlier := [one for one in silences if one.reason.text not in headline[0]][:_MAX_LISTED]:
        lines += ["Before:", *(f"- {' '.join(sentences(_when(session, one), one.reason))}" for one in earlier)]
    items = [
        {
            "code": one.reason.code,
            "text": one.reason.text,
            "hint": one.reason.hint,
            "line": one.at.line,
            "character": one.at.character,
            "secondsAgo": round(ago_s(one.moment_s), 1),
            "times": one.times,
        }
        for one in silences
    ]
    return {"text": "\n".join(lines), "items": items}


def _headline(session: Session, uri: str, edits: list[str]) -> list[str]:
    """The first lines: a reason that holds for the whole document, else the last question's outcome; `edits` too."""
    name, found = document_name(uri), request_at_start(session, uri)
    if isinstance(found, Reason):
        return sentences(f"No suggestions in {name}", found)
    silences, shown = session.outcomes.reasons.silences(uri), session.outcomes.reasons.last_shown(uri)
    if shown is not None and (not silences or shown.moment_s >= silences[0].moment_s):
        return [f"The last answer in {name} was a suggestion, in {_when(session, shown)}."]
    if not silences:
        return edits or [f"The editor has not requested a suggestion in {name} yet.", _TRIGGER_HINT]
    return sentences(f"No suggestion in {name}, {_when(session, silences[0])}", silences[0].reason)


def _context(session: Session, uri: str) -> list[str]:
    latest = session.traces.get(uri)
    if latest is None or session.documents.get(uri) is None:
        return []
    places = ", ".join(printable(place, MAX_NAME) for place in reversed(latest.context))
    return [f"Code of other files in the prompt: {places}." if places else "No code of other files was in the prompt."]


def _edits(session: Session, uri: str) -> list[str]:
    silences, shown = session.edits.reasons.silences(uri), session.edits.reasons.last_shown(uri)
    if shown is not None and (not silences or shown.moment_s >= silences[0].moment_s):
        return [f"The last edit was suggested with the cursor in {_when(session, shown)}."]
    return sentences(f"No edit, {_when(session, silences[0])}", silences[0].reason) if silences else []


def _when(session: Session, answer: Silence | LastSuggestion) -> str:
    times = f", {answer.times} times" if isinstance(answer, Silence) and answer.times > 1 else ""
    return f"line {answer.at.line + 1}, {session.outcomes.reasons.ago_s(answer.moment_s):.0f} s ago{times}"


def _described(status: Status) -> str:
    percent = "" if status.percent is None else f" {status.percent} %"
    doing = {"thinking": "making a suggestion", "starting": "the model loads at the first request"}
    state = doing.get(status.state, status.state) + percent
    text = f"{state}: {status.message}" if status.message else state
    return f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} {status.hint}" if status.hint else text


def _uri_of(params: object) -> str:
    document = params.get("textDocument") if isinstance(params, dict) else None
    uri = document.get("uri") if isinstance(document, dict) else None
    if not isinstance(uri, str) or not uri:
        raise JsonRpcInvalidParams("textDocument.uri must be a string")
    return uri


def _uri_in(argument: object) -> str:
    return argument if isinstance(argument, str) and argument else _uri_of(argument)


def statistics(session: Session, _params: object) -> dict[str, object]:
    """A summary, counts, rates, percentiles and memory; null for values unknown before a model is loaded."""
    service, accepts = session.service.statistics(), session.accepts.counts
    counts = asdict(service)
    host = session.service.host.facts()
    prompt_tokens = service.prefilled + service.reused
    return {
        "summary": summary(service, accepts, session.outcomes.refusals),
        "model": counts.pop("model") or None,
        "engine": counts.pop("engine") or None,
        "ms": counts.pop("ms"),
        "memory": {"resident_bytes": counts.pop("resident_bytes")},
        "host": {
            "shared": host.shared,
            "process_id": host.process_id or None,
            "fronts": host.fronts,
            "turn": host.turn or None,
            "index_cpu_s": host.index_cpu_s,
        },
        "suggestions": asdict(accepts),
        "accepted_by_source": counts.pop("accepted_by_source"),
        "suppressed": counts.pop("suppressed"),
        "cpu_s": counts.pop("cpu_s"),
        "budget_ms": counts.pop("budget_ms"),
        "requests": counts,
        "rates": {
            "accepted": _share(accepts.accepted, accepts.shown),
            "typed_through": _share(service.typed_through, service.requests),
            "prompt_cache": _share(service.reused, prompt_tokens),
        },
        "open_documents": len(session.documents),
        **_edit_statistics(session),
    }


def _edit_statistics(session: Session) -> dict[str, object]:
    counts = session.edits.counts
    return {"edits": {**asdict(counts), "ms": session.edits.spans.percentiles()}} if counts.requests else {}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def trace(session: Session, params: object) -> dict[str, object] | None:
    """`fastcoder/trace` {uri}: the model's latest completion, or null.

    `decode.trace.as_plain` describes `steps`; `text` is the suggestion; `context` lists the other code in the prompt.
    """
    uri = params.get("uri") if isinstance(params, dict) else None
    if not isinstance(uri, str):
        raise JsonRpcInvalidParams("uri must be a string")
    completion = session.traces.get(uri)
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


def debug_text(session: Session, params: object) -> dict[str, object]:
    """`fastcoder/debug/text` {uri}: the server's copy of an open document, with the client's line ends."""
    uri = params.get("uri") if isinstance(params, dict) else None
    document = session.documents.get(uri) if isinstance(uri, str) else None
    if document is None:
        raise JsonRpcInvalidParams("no such open document")
    return {"version": document.version, "text": document.text}
