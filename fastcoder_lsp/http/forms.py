"""The bodies of requests, as clients write them: fields, rejected values, and the requests in them.

Sources: llama.cpp's tools/server/README.md ("POST /infill", "POST /completion"); OpenAI's reference, "Completions";
Mistral's, "Fill in the middle"; Ollama's docs/api.md, "Generate a completion". Other fields are ignored. Decoding is
greedy unless a temperature is given.
"""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct
from typing_extensions import override

from fastcoder_lsp.completion.question import MOST_ALTERNATIVES
from fastcoder_lsp.core import GREEDY, Extra, RawPrompt, Sampler
from fastcoder_lsp.edits.formats import recognise
from fastcoder_lsp.http.infill import InfillRequest, near_cursor
from fastcoder_lsp.http.prompts import PromptParts, normalised, parse_prompt
from fastcoder_lsp.http.responses import RequestError
from fastcoder_lsp.workspace.languages import is_known, language_of

AnyForm = TypeVar("AnyForm", bound="Fields")
_Words = Annotated[list[Annotated[str, Meta(max_length=1000)]], Meta(max_length=64)]
_Ms = Annotated[float, Meta(ge=-1, le=3_600_000)] | None
_Number = int | float | None  # a script's client may send 16.0 for 16
_Name = Annotated[str, Meta(max_length=4096)] | None
_Texts = Annotated[list[str], Meta(max_length=16)]
_MOST_CHOICES = 16
_NOTHING = msgspec.Raw(b"null")
_EXTRAS = 256
_UNLIMITED = -1, -2  # llama.cpp's numbers for "until the end" and "until the context is full"
_HOTTEST = 2.0  # OpenAI's limit
_ANY_SEED = -1  # llama.cpp's number for a random one
_MOST_SEED = 2**63 - 1


class SamplingFields(Struct, kw_only=True):
    """How tokens are chosen, on every route and in Ollama's `options`."""

    temperature: _Number = None
    top_p: _Number = None
    top_k: _Number = None
    min_p: _Number = None
    seed: _Number = None
    random_seed: _Number = None  # Mistral's name of it

    @property
    def sampler(self) -> Sampler:
        """The first choice's sampler, with a random seed if none is given; RequestError for a value out of range."""
        named = ("seed", self.seed) if self.random_seed is None else ("random_seed", self.random_seed)
        sampler = Sampler(
            temperature=_between("temperature", self.temperature, _HOTTEST, 0.0),
            top_k=_whole("top_k", self.top_k, least=-1, most=_MOST_TOKENS, absent=0),
            top_p=_between("top_p", self.top_p, 1.0, 1.0),
            min_p=_between("min_p", self.min_p, 1.0, 0.0),
        )
        seed = _whole(*named, least=_ANY_SEED, most=_MOST_SEED, absent=_ANY_SEED)
        if not sampler.draws:
            return GREEDY
        chosen = secrets.randbits(32) if seed == _ANY_SEED else seed
        return replace(sampler, top_k=max(sampler.top_k, 0), seed=chosen)


class Fields(SamplingFields, kw_only=True):
    """The fields of every form. Each may be null, as if it were absent.

    `filename` and `language` are our own: they describe the text around the cursor, for the end of blocks. All names of
    the length are known on every route, because clients choose the route by its address alone.
    """

    n_predict: _Number = None
    max_tokens: _Number = None
    max_completion_tokens: _Number = None
    stop: str | _Words | None = None
    stream: bool | None = None
    model: _Name = None
    n_probs: _Number = None
    grammar: str | None = None
    json_schema: msgspec.Raw = _NOTHING
    filename: _Name = None
    language: _Name = None

    @property
    def limit(self) -> int | None:
        """The most tokens of an answer; None for the model's own limit. RequestError if it is no such number."""
        names = ("n_predict", "max_tokens", "max_completion_tokens")
        return min((some for name in names if (some := _length(name, getattr(self, name))) is not None), default=None)

    @property
    def choices(self) -> int:
        """The number of answers to each prompt, equal ones if decoding is greedy; RequestError if it is none."""
        return 1

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop words."""
        return _words(self.stop)

    @property
    def streams(self) -> bool:
        """Whether the answer comes as a stream of events."""
        return bool(self.stream)


class ChoicesFields(Fields, kw_only=True):
    """The fields of the APIs that give several answers to a prompt."""

    n: _Number = None

    @property
    @override
    def choices(self) -> int:
        return _whole("n", self.n, least=1, most=_MOST_CHOICES, absent=1)


class ExtraChunk(Struct):
    """A chunk of `input_extra`."""

    text: str
    filename: _Name = None


class LlamaFields(ChoicesFields, kw_only=True):
    """The fields that `/infill` and `/completion` share; `alternatives`, of our own, requests alternatives."""

    t_max_prompt_ms: _Ms = None
    t_max_predict_ms: _Ms = None
    response_fields: _Words | None = None
    alternatives: _Number = None

    @property
    def patience_ms(self) -> float | None:
        """The time after which the first useful part is the answer; None: it is always whole."""
        # llama.cpp counts from the first token; here it counts from the request, plus the prompt's time.
        answer_ms = self.t_max_predict_ms or 0
        return max(self.t_max_prompt_ms or 0, 0) + answer_ms if answer_ms > 0 else None


class InfillForm(LlamaFields, kw_only=True):
    """The body of `POST /infill`."""

    input_prefix: str | None = None
    input_suffix: str | None = None
    input_extra: Annotated[list[ExtraChunk], Meta(max_length=_EXTRAS)] | None = None
    prompt: str | None = None


class CompletionForm(LlamaFields, kw_only=True):
    """The body of `POST /completion`."""

    prompt: str | _Texts


class StreamOptions(Struct):
    """OpenAI's `stream_options`."""

    include_usage: bool | None = None


class OpenAIForm(ChoicesFields, kw_only=True):
    """The body of `POST /v1/completions`."""

    prompt: str | _Texts
    suffix: str | None = None
    stream_options: StreamOptions | None = None
    echo: bool | None = None
    logprobs: float | bool | None = None


class MistralForm(Fields, kw_only=True):
    """The body of `POST /v1/fim/completions`."""

    prompt: str
    suffix: str | None = None


class OllamaOptions(SamplingFields):
    """The fields of Ollama's `options` that apply."""

    num_predict: _Number = None
    stop: str | _Words | None = None


class OllamaForm(Fields, kw_only=True):
    """The body of `POST /api/generate`, which streams unless it says otherwise."""

    prompt: str | None = None
    suffix: str | None = None
    options: OllamaOptions | None = None
    format: msgspec.Raw = _NOTHING
    images: list[str] | None = None

    @property
    @override
    def limit(self) -> int | None:
        own = _length("options.num_predict", self.options.num_predict) if self.options else None
        return min((some for some in (own, super().limit) if some is not None), default=None)

    @property
    @override
    def stops(self) -> tuple[str, ...]:
        return super().stops + (_words(self.options.stop) if self.options else ())

    @property
    @override
    def streams(self) -> bool:
        return self.stream is not False

    @property
    @override
    def sampler(self) -> Sampler:
        return self.options.sampler if self.options else super().sampler


def _words(stop: str | list[str] | None) -> tuple[str, ...]:
    return (stop,) if isinstance(stop, str) else tuple(stop or ())


def _length(name: str, number: float | None) -> int | None:
    if number is None or number in _UNLIMITED:
        return None
    if number < 0 or int(number) != number:
        raise RequestError(400, f"{name}: expected a whole number from 0 on, or -1 for no limit")
    return min(int(number), _MOST_TOKENS)


def _whole(name: str, number: float | None, *, least: int, most: int, absent: int) -> int:
    if number is None:
        return absent
    if not least <= number <= most or int(number) != number:
        raise RequestError(400, f"{name}: expected a whole number from {least} to {most}")
    return int(number)


def _between(name: str, number: float | None, most: float, absent: float) -> float:
    if number is None:
        return absent
    if not 0 <= number <= most:
        raise RequestError(400, f"{name}: expected a number from 0 to {most:g}")
    return float(number)


_MOST_VALUES = 20_000
"""Strings, and commas between values: far more than any form needs. Decoding millions would hold up all others."""


def read_form(body: bytes, form: type[AnyForm]) -> AnyForm:
    """Decode a body as a form; raises RequestError if it is invalid."""
    if body.count(b",") > _MOST_VALUES and _has_too_many_values(body):
        raise RequestError(400, "the request body has too many values: send the text as one string")
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, RecursionError, ValueError) as wrong:
        raise RequestError(400, _in_words(str(wrong)[:300])) from None


def _has_too_many_values(body: bytes) -> bool:
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")  # now every quote begins or ends a string
    quotes = bare.count(b'"')
    if quotes > 2 * _MOST_VALUES:
        return True
    return quotes // 2 + sum(outside.count(b",") for outside in bare.split(b'"')[::2]) > _MOST_VALUES


def _in_words(wrong: str) -> str:
    """The fault of a body, with the name of the field first."""
    said, placed, place = wrong.rpartition(" - at `$.")
    if not placed:
        return f"the request body is invalid: {wrong}"
    name = place.rstrip("`")
    listed = said.endswith("got `array`") and "[" in name
    if name.startswith("prompt") and (listed or said.endswith("got `int`")):
        return f"{name}: token ids are not supported, send text"
    return f"{name}: {said[:1].lower()}{said[1:]}"


def read_infill(form: InfillForm) -> tuple[InfillRequest, ...]:
    """The request of an infill form (`prompt`: the cursor's line before the cursor); RequestError if unsupported."""
    extras = tuple(Extra(chunk.filename or "", normalised(chunk.text)) for chunk in form.input_extra or ())
    before = (form.input_prefix or "") + (form.prompt or "")
    return _drawn(form, [_request(form, PromptParts(before, form.input_suffix or "", extras))])


def read_completion(form: CompletionForm) -> tuple[InfillRequest, ...]:
    """The requests of prompts, perhaps with fill-in-the-middle marks or an edit model's; else RequestError."""
    return _drawn(form, [_prompt_request(form, prompt) for prompt in _prompts(form.prompt)])


def read_openai(form: OpenAIForm) -> tuple[InfillRequest, ...]:
    """The requests of OpenAI's form; raises RequestError if it requests an unsupported feature."""
    if form.logprobs is not None and form.logprobs is not False:
        raise RequestError(400, "logprobs is not supported: drafted tokens have no recorded probabilities")
    if form.echo:
        raise RequestError(400, "echo is not supported")
    return _drawn(form, [_prompt_request(form, prompt, form.suffix) for prompt in _prompts(form.prompt)])


def read_mistral(form: MistralForm) -> tuple[InfillRequest, ...]:
    """The request of Mistral's form; without a suffix the cursor is at the end of the text."""
    return _drawn(form, [_request(form, PromptParts(form.prompt, form.suffix or ""))])


def read_ollama(form: OllamaForm) -> tuple[InfillRequest, ...]:
    """The request of Ollama's form, in which an empty prompt only loads the model."""
    if bytes(form.format) not in (b"null", b'""'):
        raise RequestError(400, "format is not supported: the model completes code freely")
    if form.images:
        raise RequestError(400, "images is not supported: the model reads text only")
    some = form.prompt or form.suffix
    return _drawn(form, [_prompt_request(form, form.prompt or "", form.suffix)]) if some else ()


def _drawn(form: Fields, requests: Sequence[InfillRequest]) -> tuple[InfillRequest, ...]:
    """The requests, each as often as texts are to be drawn for it, every one with a seed of its own."""
    sampler, choices = form.sampler, form.choices
    if not sampler.draws:
        return tuple(requests)
    if any(request.alternatives > 1 for request in requests):
        raise RequestError(400, "alternatives: expected 1 beside a temperature, ask for `n` texts instead")
    each = [request for request in requests for _ in range(choices)]
    return tuple(
        replace(request, sampler=replace(sampler, seed=(sampler.seed + number) & _MOST_SEED))
        for number, request in enumerate(each)
    )


def _prompts(prompt: str | list[str]) -> list[str]:
    if not prompt and isinstance(prompt, list):
        raise RequestError(400, "prompt: expected a text, or a list of at least one")
    return [prompt] if isinstance(prompt, str) else prompt


def _prompt_request(form: Fields, prompt: str, suffix: str | None = None) -> InfillRequest:
    """The request of a prompt; with a suffix, marks in it are text of the user's."""
    if suffix:
        return _request(form, PromptParts(prompt, suffix))
    raw = _raw(prompt, form)
    return raw if raw is not None else _request(form, parse_prompt(prompt))


_MOST_TOKENS = 1_000_000
_RAW_TOKENS, _MOST_RAW_TOKENS = 1024, 4096
"""Tokens of an answer to a raw prompt, where the client names no number, and at most."""


def _raw(prompt: str, form: Fields) -> InfillRequest | None:
    """The request of a prompt for an edit model: its answer is the model's own. None if the prompt is no such one."""
    found = recognise(prompt)
    if found is None:
        return None
    _reject_unsupported(form)
    limit = form.limit
    most = _RAW_TOKENS if limit is None else max(1, min(limit, _MOST_RAW_TOKENS))
    raw = RawPrompt(found[1], form.stops, most)
    return InfillRequest(prompt, max_tokens=limit, stop=form.stops, patience_ms=_patience_ms(form), raw=raw)


def _request(form: Fields, parts: PromptParts) -> InfillRequest:
    _reject_unsupported(form)
    before, after = near_cursor(normalised(parts.before), normalised(parts.after))
    return InfillRequest(
        before=before,
        after=after,
        extras=parts.extras,
        language=_language(form.language or "", form.filename or "", parts.extras),
        max_tokens=form.limit,
        stop=form.stops,
        alternatives=_alternatives(form),
        patience_ms=_patience_ms(form),
    )


def _alternatives(form: Fields) -> int:
    if not isinstance(form, LlamaFields):
        return 1
    return _whole("alternatives", form.alternatives, least=1, most=MOST_ALTERNATIVES, absent=1)


def _patience_ms(form: Fields) -> float | None:
    return form.patience_ms if isinstance(form, LlamaFields) else None


def _reject_unsupported(form: Fields) -> None:
    if form.n_probs and form.n_probs > 0:
        raise RequestError(400, "n_probs is not supported: drafted tokens have no recorded probabilities")
    if form.grammar or bytes(form.json_schema) not in (b"null", b"{}"):
        raise RequestError(400, "grammar and json_schema are not supported: the model completes code freely")


def _language(named: str, filename: str, extras: tuple[Extra, ...]) -> str:
    """The request's language, else the file name's, else the last other file's: users tend to stay in a language."""
    if named:
        return named
    names = [PurePath(name) for name in (filename, *(extra.name for extra in reversed(extras))) if name]
    return next((language_of(name) for name in names if is_known(name)), "")
