"""The bodies of requests, as clients write them: fields, rejected values, and replies.

Sources: llama.cpp's tools/server/README.md ("POST /infill", "POST /completion"); OpenAI's reference, "Completions".
Other fields are ignored, including those for sampling: decoding is greedy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from fastcoder_lsp.completion.question import MOST_ALTERNATIVES
from fastcoder_lsp.core import Extra, RawPrompt
from fastcoder_lsp.edits.formats import recognise
from fastcoder_lsp.http import responses
from fastcoder_lsp.http.infill import MOST_EXTRAS, InfillAnswer, InfillRequest
from fastcoder_lsp.prompt.templates import TEMPLATES, Template
from fastcoder_lsp.workspace.languages import is_known, language_of


@dataclass(frozen=True, slots=True)
class PromptParts:
    """A prompt's text before and after the cursor, and the other files before it."""

    before: str
    after: str = ""
    extras: tuple[Extra, ...] = ()


def parse_prompt(prompt: str) -> PromptParts:
    """The parts of `prompt`, by the family whose marks give the most files; without marks, all is before the cursor."""
    found = (_parse_by(template, prompt) for template in TEMPLATES if template.marks)
    return max((parts for parts in found if parts), key=lambda parts: len(parts.extras), default=PromptParts(prompt))


def _parse_by(template: Template, prompt: str) -> PromptParts | None:
    texts, rest = list[str](), prompt
    for mark in template.marks:
        text, found, rest = rest.partition(mark)
        if not found:
            return None
        texts.append(text)
    head, *around = (*texts, rest)
    if not template.middle and head.removeprefix("<s>"):  # two marks in brackets are often plain text
        return None
    before, after = template.in_order(*around[:2])
    return PromptParts(before + "".join(around[2:]), after, _files(template.file, head))


def _files(mark: str, head: str) -> tuple[Extra, ...]:
    """The last `MOST_EXTRAS` files before the prefix mark that have text, each with its name in the first line."""
    if not mark:
        return ()
    pieces = (piece.partition("\n") for piece in head.split(mark)[1:][-MOST_EXTRAS:])
    return tuple(Extra(name.strip(), _normalised(text)) for name, _, text in pieces if text.strip())


AnyForm = TypeVar("AnyForm", bound="LlamaFields | OpenAIForm")
_Words = Annotated[list[Annotated[str, Meta(max_length=1000)]], Meta(max_length=64)]
_Ms = Annotated[float, Meta(ge=-1, le=3_600_000)]
_Count = Annotated[int, Meta(ge=-2, le=1_000_000)]
_Name = Annotated[str, Meta(max_length=4096)]
_EXTRAS = 256
_CHOICES = 16


class ExtraChunk(Struct):
    """A chunk of `input_extra`."""

    text: str
    filename: _Name = ""


class LlamaFields(Struct, kw_only=True):
    """The fields that `/infill` and `/completion` share.

    `filename`, `language` and `alternatives` are our own: the first two describe the text around the cursor, for the
    end of blocks, the third requests alternatives.
    """

    n_predict: _Count = -1
    t_max_prompt_ms: _Ms = -1
    t_max_predict_ms: _Ms = -1
    stop: _Words | None = None
    stream: bool = False
    response_fields: _Words | None = None
    n_probs: int = 0
    grammar: str | None = None
    json_schema: msgspec.Raw | None = None
    filename: _Name = ""
    language: _Name = ""
    alternatives: Annotated[int, Meta(ge=1, le=MOST_ALTERNATIVES)] = 1


class InfillForm(LlamaFields, kw_only=True):
    """The body of `POST /infill`."""

    input_prefix: str = ""
    input_suffix: str = ""
    input_extra: Annotated[list[ExtraChunk], Meta(max_length=_EXTRAS)] | None = None
    prompt: str = ""


class CompletionForm(LlamaFields, kw_only=True):
    """The body of `POST /completion`."""

    prompt: str


class OpenAIForm(Struct, kw_only=True):
    """The body of `POST /v1/completions`; `filename` and `language` as of `LlamaFields`."""

    prompt: str | list[str]
    suffix: str | None = None
    model: _Name | None = None
    max_tokens: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    n: Annotated[int, Meta(ge=1, le=_CHOICES)] | None = None
    best_of: Annotated[int, Meta(ge=1, le=_CHOICES)] | None = None
    stop: str | _Words | None = None
    stream: bool | None = None
    echo: bool | None = None
    seed: int | None = None
    logprobs: int | bool | None = None
    filename: _Name = ""
    language: _Name = ""


def read_form(body: bytes, form: type[AnyForm]) -> AnyForm:
    """Decode a body as a form; raises RequestError if it is invalid."""
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, RecursionError, ValueError) as wrong:
        raise responses.RequestError(400, f"the request body is invalid: {str(wrong)[:300]}") from None


def read_infill(form: InfillForm) -> InfillRequest:
    """The request of an infill form (`prompt`: the cursor's line before the cursor); RequestError if unsupported."""
    _reject_unsupported(form)
    extras = tuple(Extra(chunk.filename, _normalised(chunk.text)) for chunk in form.input_extra or ())
    return _llama(form, form.input_prefix + form.prompt, form.input_suffix, extras)


def read_completion(form: CompletionForm) -> InfillRequest:
    """The request of a prompt, perhaps with fill-in-the-middle marks or an edit model's; else RequestError."""
    _reject_unsupported(form)
    raw = _raw(form.prompt, tuple(form.stop or ()), None if form.n_predict < 0 else form.n_predict, _patience_ms(form))
    if raw is not None:
        return raw
    parts = parse_prompt(form.prompt)
    return _llama(form, parts.before, parts.after, parts.extras)


def read_openai(form: OpenAIForm) -> InfillRequest:
    """The request of OpenAI's form; raises RequestError if it requests an unsupported feature."""
    if form.logprobs is not None and form.logprobs is not False:
        raise responses.RequestError(400, "logprobs is not supported: drafted tokens have no recorded probabilities")
    if form.echo:
        raise responses.RequestError(400, "echo is not supported")
    if isinstance(form.prompt, list) and len(form.prompt) != 1:
        raise responses.RequestError(400, "prompt must be one string, or a list with one string")
    prompt = form.prompt if isinstance(form.prompt, str) else form.prompt[0]
    stop = (form.stop,) if isinstance(form.stop, str) else tuple(form.stop or ())
    if not form.suffix and (raw := _raw(prompt, stop, form.max_tokens)) is not None:
        return raw
    parts = PromptParts(prompt, form.suffix) if form.suffix else parse_prompt(prompt)
    return InfillRequest(
        before=_normalised(parts.before),
        after=_normalised(parts.after),
        extras=parts.extras,
        language=_language(form.language, form.filename, parts.extras),
        max_tokens=form.max_tokens,
        stop=stop,
    )


_RAW_TOKENS, _MOST_RAW_TOKENS = 1024, 4096
"""Tokens of an answer to a raw prompt, where the client names no number, and at most."""


def _raw(
    prompt: str, stop: tuple[str, ...], max_tokens: int | None, patience_ms: float | None = None
) -> InfillRequest | None:
    """The request of a prompt for an edit model: its answer is the model's own. None if the prompt is no such one."""
    found = recognise(prompt)
    if found is None:
        return None
    most = _RAW_TOKENS if max_tokens is None else max(1, min(max_tokens, _MOST_RAW_TOKENS))
    raw = RawPrompt(found[1], stop, most)
    return InfillRequest(prompt, max_tokens=max_tokens, stop=stop, patience_ms=patience_ms, raw=raw)


def _llama(form: LlamaFields, before: str, after: str, extras: tuple[Extra, ...]) -> InfillRequest:
    return InfillRequest(
        before=_normalised(before),
        after=_normalised(after),
        extras=extras,
        language=_language(form.language, form.filename, extras),
        max_tokens=None if form.n_predict < 0 else form.n_predict,
        stop=tuple(form.stop or ()),
        alternatives=form.alternatives,
        patience_ms=_patience_ms(form),
    )


def _patience_ms(form: LlamaFields) -> float | None:
    # llama.cpp counts from the first token; here it counts from the request, plus the prompt's time.
    return max(form.t_max_prompt_ms, 0) + form.t_max_predict_ms if form.t_max_predict_ms > 0 else None


def _reject_unsupported(form: LlamaFields) -> None:
    if form.n_probs > 0:
        raise responses.RequestError(400, "n_probs is not supported: drafted tokens have no recorded probabilities")
    if form.grammar or (form.json_schema is not None and bytes(form.json_schema) not in (b"null", b"{}")):
        raise responses.RequestError(400, "grammar and json_schema are not supported")


def _normalised(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _language(named: str, filename: str, extras: tuple[Extra, ...]) -> str:
    """The request's language, else the file name's, else the last other file's: users tend to stay in a language."""
    if named:
        return named
    names = [PurePath(name) for name in (filename, *(extra.name for extra in reversed(extras))) if name]
    return next((language_of(name) for name in names if is_known(name)), "")


def _reader(
    form: type[AnyForm], convert: Callable[[AnyForm], InfillRequest]
) -> "Callable[[bytes], tuple[Form, InfillRequest]]":
    def read(body: bytes) -> "tuple[Form, InfillRequest]":
        found = read_form(body, form)
        return found, convert(found)

    return read


Form = LlamaFields | OpenAIForm
FORMS = {
    "/infill": _reader(InfillForm, read_infill),
    "/completion": _reader(CompletionForm, read_completion),
    "/completions": _reader(CompletionForm, read_completion),
    "/v1/completions": _reader(OpenAIForm, read_openai),
}
"""The completion routes: each reads a body as its form, and the request in it."""


def reply(form: Form, answer: InfillAnswer, model: str) -> Response:
    """The response to a form; `model`: the name that clients see."""
    if isinstance(form, OpenAIForm):
        named, choices = form.model or model, form.n or 1
        if form.stream:
            return responses.event_response(responses.openai_events(answer, named, choices), done=True)
        return responses.json_response(responses.openai_reply(answer, named, choices))
    if form.stream:
        return responses.event_response(responses.llama_events(answer, form.response_fields), done=False)
    return responses.json_response(responses.select_fields(responses.llama_reply(answer), form.response_fields))
