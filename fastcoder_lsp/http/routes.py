"""The completion routes: each reads a body as its form, gives the requests in it, and writes a reply."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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


class EventStream:
    """A stream of events, each given to `send` as bytes; an answer's text may come before the answer."""

    def __init__(self, how: replies.Reply, send: Callable[[bytes], object]) -> None:
        self._how, self._send = how, send
        self._sent: dict[int, int] = {}  # characters of each answer

    def grew(self, index: int, text: str) -> None:
        """Send what is new in the text so far."""
        sent = self._sent.get(index, 0)
        if len(text) > sent:
            self._events(self._how.texts(index, text[sent:]))
            self._sent[index] = len(text)

    def ended(self, index: int, answer: InfillAnswer) -> None:
        """Send the rest of an answer."""
        self.grew(index, answer.text)
        if not answer.text:
            self._events(self._how.texts(index, ""))
        self._events(self._how.last(index, answer))

    def end(self, answers: Sequence[InfillAnswer]) -> None:
        """Send what comes after all answers."""
        self._events(self._how.end(answers))
        self._send(self._how.closing)

    def _events(self, events: Iterable[Mapping[str, Any]]) -> None:
        for event in events:
            self._send(self._how.frame(event))


HEADERS = {"cache-control": "no-cache"}  # of a stream


def reply(read: ReadForm, answers: Sequence[InfillAnswer], model: str) -> Response:
    """The response with the answers to a form's requests; `model`: the name that clients see."""
    how = read.reply(model)
    if not read.form.streams:
        return json_response(how.whole(answers))
    sent = list[bytes]()
    stream = EventStream(how, sent.append)
    for index, answer in enumerate(answers):
        stream.ended(index, answer)
    stream.end(answers)
    return Response(b"".join(sent), 200, HEADERS, how.media)
