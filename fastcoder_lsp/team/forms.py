"""Which route takes which form, and the answer in the same form: those of `http`, of one answer.

Owns the pairing alone.
"""

from collections.abc import Callable

from starlette.responses import Response

from fastcoder_lsp.http.forms import (
    CompletionForm,
    InfillForm,
    OpenAIForm,
    ask_of_completion,
    ask_of_infill,
    ask_of_openai,
    read_form,
)
from fastcoder_lsp.http.infill import InfillRequest
from fastcoder_lsp.http.replies import llama_events, llama_reply, only, openai_events, openai_reply
from fastcoder_lsp.http.responses import event_response, json_response
from fastcoder_lsp.team.values import ReplicaAnswer

Form = InfillForm | CompletionForm | OpenAIForm


def _infill(body: bytes) -> tuple[Form, InfillRequest]:
    form = read_form(body, InfillForm)
    return form, ask_of_infill(form)


def _completion(body: bytes) -> tuple[Form, InfillRequest]:
    form = read_form(body, CompletionForm)
    return form, ask_of_completion(form)


def _openai(body: bytes) -> tuple[Form, InfillRequest]:
    form = read_form(body, OpenAIForm)
    return form, ask_of_openai(form)


FORMS: dict[str, Callable[[bytes], tuple[Form, InfillRequest]]] = {
    "/infill": _infill,
    "/completion": _completion,
    "/completions": _completion,
    "/v1/completions": _openai,
}


def reply(form: Form, answer: ReplicaAnswer, model: str) -> Response:
    """The response; `model`: the name of it that clients are told."""
    if isinstance(form, OpenAIForm):
        named, choices = form.model or model, form.n or 1
        if form.stream:
            return event_response(openai_events(answer.said, named, choices), done=True)
        return json_response(openai_reply(answer.said, named, choices))
    if form.stream:
        return event_response(llama_events(answer.said, form.response_fields), done=False)
    return json_response(only(llama_reply(answer.said), form.response_fields))
