"""Responses: answers in llama.cpp's and OpenAI's forms, event streams, and errors."""

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from fastcoder_lsp import __version__
from fastcoder_lsp.http.infill import InfillAnswer


def json_response(value: Any, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A value as a JSON body."""
    return Response(msgspec.json.encode(value), code, dict(headers or {}), "application/json")


def event_response(values: Iterable[Any], *, done: bool) -> Response:
    """Values as server-sent events; `done`: followed by OpenAI's `[DONE]`."""
    events = [b"data: " + msgspec.json.encode(value) + b"\n\n" for value in values]
    if done:
        events.append(b"data: [DONE]\n\n")
    return Response(b"".join(events), 200, {"cache-control": "no-cache"}, "text/event-stream")


_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    413: "invalid_request_error",
    501: "not_supported_error",
    503: "unavailable_error",
    504: "unavailable_error",
}


class RequestError(Exception):
    """A request fails with an HTTP status and a message for the user."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def error_body(code: int, message: str) -> dict[str, Any]:
    """The JSON body of an error."""
    return {"error": {"code": code, "message": message, "type": _ERROR_TYPES.get(code, "server_error")}}


def error_response(code: int, message: str) -> Response:
    """The response to an error; a client that must wait gets `retry-after`."""
    headers = {"retry-after": "1"} if code == 503 else {"www-authenticate": "Bearer"} if code == 401 else {}
    return json_response(error_body(code, message), code, headers)


def models_response(model: str, created: int) -> Response:
    """OpenAI's list of models, with one entry."""
    one = {"id": model, "object": "model", "created": created, "owned_by": "fastcoder-lsp"}
    return json_response({"object": "list", "data": [one]})


def props_response(model: str, context_tokens: int, slots: int) -> Response:
    """llama.cpp's `/props`; `context_tokens`: the longest prompt, `slots`: requests at a time."""
    return json_response(
        {
            "default_generation_settings": {"n_ctx": context_tokens, "params": {"temperature": 0.0}},
            "total_slots": slots,
            "model_path": model,
            "chat_template": "",
            "build_info": f"fastcoder-lsp {__version__}",
        }
    )


def llama_reply(answer: InfillAnswer) -> dict[str, Any]:
    """llama.cpp's body of `/infill` and `/completion`."""
    counts, word = answer.completion.counts, answer.word
    return {
        "index": 0,
        "content": answer.text,
        "tokens": [],
        "id_slot": 0,
        "stop": True,
        "model": answer.completion.model,
        "tokens_predicted": counts.tokens,
        "tokens_evaluated": counts.prefilled + counts.reused,
        "tokens_cached": counts.reused,
        "generation_settings": {"temperature": 0.0},
        "has_new_line": "\n" in answer.text,
        "truncated": False,
        "stop_type": "word" if word else "limit" if answer.finish == "length" else "eos",
        "stopping_word": word,
        "timings": timings(answer),
    } | ({"alternatives": list(answer.others)} if answer.others else {})


def timings(answer: InfillAnswer) -> dict[str, float]:
    """The answer's times; zeros if it came from the cache, without the model."""
    counts, ms = answer.completion.counts, answer.completion.ms
    prompt_ms = ms.get("prefill", 0.0)
    predicted_ms = ms.get("draft", 0.0) + ms.get("verify", 0.0)
    return {
        "cache_n": counts.reused,
        "draft_n_accepted": counts.accepted,
        **_rates("prompt", counts.prefilled, prompt_ms),
        **_rates("predicted", counts.tokens, predicted_ms),
    }


_PIECE = 8000  # characters of a text in one event; JSON takes up to six bytes for each


def select_fields(reply: dict[str, Any], fields: Sequence[str] | None) -> dict[str, Any]:
    """The requested fields, "a/b" for one within another, each by that name; all if none are requested."""
    if not fields:
        return reply
    found: dict[str, Any] = {}
    for name in fields:
        value: Any = reply
        for part in name.split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            found[name] = value
    return found


def llama_events(answer: InfillAnswer, fields: Sequence[str] | None) -> list[dict[str, Any]]:
    """The same as a stream: the text, which is final only once it is complete, then the rest."""
    last = {**llama_reply(answer), "content": ""}
    texts = ({"index": 0, "content": text, "tokens": [], "stop": False} for text in _pieces(answer.text))
    return [*texts, select_fields(last, fields)]


def openai_reply(answer: InfillAnswer, model: str, choices: int) -> dict[str, Any]:
    """OpenAI's body of `/v1/completions`; all greedy choices are the same."""
    counts = answer.completion.counts
    prompt = counts.prefilled + counts.reused
    return {
        **_openai_head(model),
        "choices": [_choice(index, answer.text, answer.finish) for index in range(choices)],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": counts.tokens,
            "total_tokens": prompt + counts.tokens,
            "prompt_tokens_details": {"cached_tokens": counts.reused},
        },
        "timings": timings(answer),
    }


def openai_events(answer: InfillAnswer, model: str, choices: int) -> list[dict[str, Any]]:
    """The same as a stream."""
    head = _openai_head(model)
    return [
        {**head, "choices": [_choice(index, text, finish)]}
        for index in range(choices)
        for text, finish in (*((text, None) for text in _pieces(answer.text)), ("", answer.finish))
    ]


def _pieces(text: str) -> list[str]:
    """A text for events whose lines stay below 64 KB: cursortab.nvim reads no longer ones."""
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)] or [""]


def _openai_head(model: str) -> dict[str, Any]:
    return {"id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion", "created": int(time.time()), "model": model}


def _choice(index: int, text: str, finish: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


def _rates(what: str, tokens: int, ms: float) -> dict[str, float]:
    return {
        f"{what}_n": tokens,
        f"{what}_ms": ms,
        f"{what}_per_token_ms": ms / tokens if tokens else 0.0,
        f"{what}_per_second": 1e3 * tokens / ms if ms else 0.0,
    }
