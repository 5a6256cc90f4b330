"""The completion routes: each reads a body as its form, gives the requests in it, and writes a reply."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from fastcoder_lsp.http import forms, replies
from fastcoder_lsp.http.infill import InfillAnswer, InfillRequest
from fastcoder_lsp.http.responses import json_response


@dataclass(frozen=True, slots=True)
class ReadForm:
    """A form, with a request for each of its prompts; `reply` is for a model's name."""

    form: forms.Fields
    requests: tuple[InfillRequest, ...]
    reply: Callable[[str], replies.Reply]


def _reader(
    kind: type[forms.AnyForm],
    read: Callable[[forms.AnyForm], tuple[InfillRequest, ...]],
    reply: Callable[[forms.Fields, str], replies.Reply],
) -> Callable[[bytes], ReadForm]:
    def reader(body: bytes) -> ReadForm:
        form = forms.read_form(body, kind)
        return ReadForm(form, read(form), lambda model: reply(form, model))

    return reader


_COMPLETION = _reader(forms.CompletionForm, forms.read_completion, replies.LlamaReply)
ROUTES = {
    "/infill": _reader(forms.InfillForm, forms.read_infill, replies.LlamaReply),
    "/completion": _COMPLETION,
    "/completions": _COMPLETION,
    "/v1/completions": _reader(forms.OpenAIForm, forms.read_openai, replies.OpenAIReply),
    "/v1/fim/completions": _reader(forms.MistralForm, forms.read_mistral, replies.MistralReply),
    "/api/generate": _reader(forms.OllamaForm, forms.read_ollama, replies.OllamaReply),
}
"""The readers of bodies, by path; they raise RequestError."""


def reply(read: ReadForm, answers: Sequence[InfillAnswer], model: str) -> Response:
    """The response with the answers to a form's requests; `model`: the name that clients see."""
    how = read.reply(model)
    if not read.form.streams:
        return json_response(how.whole(answers))
    events = [
        *(event for index, answer in enumerate(answers) for event in _events(how, index, answer)),
        *how.end(answers),
    ]
    return Response(b"".join(map(how.frame, events)) + how.closing, 200, {"cache-control": "no-cache"}, how.media)


def _events(how: replies.Reply, index: int, answer: InfillAnswer) -> Iterator[Mapping[str, Any]]:
    yield from how.texts(index, answer.text)
    yield from how.last(index, answer)
