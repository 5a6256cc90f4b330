"""Replies: answers in the form that each API's clients read, whole or as a stream of events."""

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec
from typing_extensions import override

from fastcoder_lsp.core import Sampler
from fastcoder_lsp.http.forms import Fields, LlamaFields, OpenAIForm
from fastcoder_lsp.http.infill import InfillAnswer
from fastcoder_lsp.http.responses import error_body

_PIECE = 8000  # characters of a text in one event; JSON takes up to six bytes for each


class Reply(ABC):
    """The reply to one form. `model`: the name that clients see.

    Texts that are drawn differ, so there is an answer for each choice; greedy choices are one answer, repeated.
    """

    media: ClassVar[str] = "text/event-stream"
    closing: ClassVar[bytes] = b""  # the bytes after a stream's last event

    def __init__(self, form: Fields, model: str) -> None:
        self.model = form.model or model
        drawn = form.sampler.draws
        self._each_prompt = form.choices if drawn else 1  # answers to each prompt
        self._repeats = 1 if drawn else form.choices

    @abstractmethod
    def whole(self, answers: Sequence[InfillAnswer]) -> Any:
        """The body that has all answers, one for each prompt and text that is drawn for it."""

    @abstractmethod
    def piece(self, index: int, text: str) -> Iterator[Mapping[str, Any]]:
        """The events for a piece of an answer's text; `index` counts the answers."""

    @abstractmethod
    def last(self, index: int, answer: InfillAnswer) -> Iterator[Mapping[str, Any]]:
        """The events after an answer's text."""

    def end(self, answers: Sequence[InfillAnswer]) -> Iterator[Mapping[str, Any]]:  # noqa: ARG002 some APIs add events
        """The events after all answers."""
        return iter(())

    def numbers(self, index: int) -> range:
        """The numbers of the choices that an answer is."""
        return range(index * self._repeats, (index + 1) * self._repeats)

    def usage(self, answers: Sequence[InfillAnswer]) -> dict[str, Any]:
        """OpenAI's count of tokens: each prompt's once, and those of every choice's text."""
        counts = [answer.completion.counts for answer in answers[:: self._each_prompt]]
        prompt, cached = sum(one.prefilled + one.reused for one in counts), sum(one.reused for one in counts)
        said = self._repeats * sum(answer.tokens for answer in answers)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": said,
            "total_tokens": prompt + said,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def error(self, code: int, message: str) -> Mapping[str, Any]:
        """The event for an error in the middle of a stream."""
        return error_body(code, message)

    def frame(self, event: Mapping[str, Any]) -> bytes:
        """The bytes of an event."""
        return b"data: " + msgspec.json.encode(event) + b"\n\n"

    def texts(self, index: int, text: str) -> Iterator[Mapping[str, Any]]:
        """The events for a text, a line each. Their lines stay below 64 KB: cursortab.nvim reads no longer ones."""
        for line in text.splitlines(keepends=True) or [""]:
            for at in range(0, max(len(line), 1), _PIECE):
                yield from self.piece(index, line[at : at + _PIECE])


class LlamaReply(Reply):
    """llama.cpp's replies of `/infill` and `/completion`; to several prompts, a list."""

    def __init__(self, form: Fields, model: str) -> None:
        super().__init__(form, model)
        self._fields = form.response_fields if isinstance(form, LlamaFields) else None

    @override
    def whole(self, answers: Sequence[InfillAnswer]) -> Any:
        numbered = [(number, answer) for index, answer in enumerate(answers) for number in self.numbers(index)]
        bodies = [select_fields(self._body(number, answer), self._fields) for number, answer in numbered]
        return bodies[0] if len(bodies) == 1 else bodies

    @override
    def piece(self, index: int, text: str) -> Iterator[Mapping[str, Any]]:
        for number in self.numbers(index):
            yield {"index": number, "content": text, "tokens": [], "stop": False}

    @override
    def last(self, index: int, answer: InfillAnswer) -> Iterator[Mapping[str, Any]]:
        for number in self.numbers(index):
            yield select_fields({**self._body(number, answer), "content": ""}, self._fields)

    def _body(self, index: int, answer: InfillAnswer) -> dict[str, Any]:
        counts, word = answer.completion.counts, answer.word
        return {
            "index": index,
            "content": answer.text,
            "tokens": [],
            "id_slot": 0,
            "stop": True,
            "model": answer.completion.model,
            "tokens_predicted": counts.tokens,
            "tokens_evaluated": counts.prefilled + counts.reused,
            "tokens_cached": counts.reused,
            "generation_settings": _settings(answer.sampler),
            "has_new_line": "\n" in answer.text,
            "truncated": False,
            "stop_type": "word" if word else "limit" if answer.finish == "length" else "eos",
            "stopping_word": word,
            "timings": timings(answer),
        } | ({"alternatives": list(answer.others)} if answer.others else {})


def _settings(sampler: Sampler) -> dict[str, float]:
    """How an answer's tokens were chosen."""
    names = ("temperature", "top_k", "top_p", "min_p", "seed") if sampler.draws else ("temperature",)
    return {name: getattr(sampler, name) for name in names}


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


class OpenAIReply(Reply):
    """OpenAI's replies of `/v1/completions`; the choices of a prompt are equal if decoding is greedy."""

    closing = b"data: [DONE]\n\n"

    def __init__(self, form: Fields, model: str) -> None:
        super().__init__(form, model)
        self._head = _head("cmpl", "text_completion", self.model)
        options = form.stream_options if isinstance(form, OpenAIForm) else None
        self._tells_usage = options is not None and bool(options.include_usage)

    @override
    def whole(self, answers: Sequence[InfillAnswer]) -> Any:
        choices = [
            choice for index, answer in enumerate(answers) for choice in self._each(index, answer.text, answer.finish)
        ]
        return {**self._head, "choices": choices, "usage": self.usage(answers)} | _timings(answers)

    @override
    def piece(self, index: int, text: str) -> Iterator[Mapping[str, Any]]:
        return self._events(index, text, None)

    @override
    def last(self, index: int, answer: InfillAnswer) -> Iterator[Mapping[str, Any]]:
        return self._events(index, "", answer.finish)

    @override
    def end(self, answers: Sequence[InfillAnswer]) -> Iterator[Mapping[str, Any]]:
        if self._tells_usage:
            yield {**self._head, "choices": [], "usage": self.usage(answers)} | _timings(answers)

    def _each(self, index: int, text: str, finish: str | None) -> Iterator[dict[str, Any]]:
        for number in self.numbers(index):
            yield {"index": number, "text": text, "logprobs": None, "finish_reason": finish}

    def _events(self, index: int, text: str, finish: str | None) -> Iterator[Mapping[str, Any]]:
        told = {"usage": None} if self._tells_usage else {}
        return ({**self._head, "choices": [choice], **told} for choice in self._each(index, text, finish))


class MistralReply(Reply):
    """Mistral's replies of `/v1/fim/completions`, which has the form of a chat."""

    closing = b"data: [DONE]\n\n"

    def __init__(self, form: Fields, model: str) -> None:
        super().__init__(form, model)
        self._object = "chat.completion.chunk" if form.streams else "chat.completion"
        self._head = _head("cmpl", self._object, self.model)

    @override
    def whole(self, answers: Sequence[InfillAnswer]) -> Any:
        (answer,) = answers
        message = {"role": "assistant", "content": answer.text, "tool_calls": None}
        choice = {"index": 0, "message": message, "finish_reason": answer.finish}
        return {**self._head, "choices": [choice], "usage": self.usage(answers)}

    @override
    def piece(self, index: int, text: str) -> Iterator[Mapping[str, Any]]:
        yield self._event(text, None)

    @override
    def last(self, index: int, answer: InfillAnswer) -> Iterator[Mapping[str, Any]]:
        yield {**self._event("", answer.finish), "usage": self.usage([answer])}

    def _event(self, text: str, finish: str | None) -> dict[str, Any]:
        delta = {"role": "assistant", "content": text}
        return {**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


class OllamaReply(Reply):
    """Ollama's replies of `/api/generate`: one object, or a line of JSON for each event."""

    media = "application/x-ndjson"

    @override
    def whole(self, answers: Sequence[InfillAnswer]) -> Any:
        return {**self._event("".join(answer.text for answer in answers)), **self._done(answers)}

    @override
    def piece(self, index: int, text: str) -> Iterator[Mapping[str, Any]]:
        yield {**self._event(text), "done": False}

    @override
    def last(self, index: int, answer: InfillAnswer) -> Iterator[Mapping[str, Any]]:
        return iter(())

    @override
    def end(self, answers: Sequence[InfillAnswer]) -> Iterator[Mapping[str, Any]]:
        yield {**self._event(""), **self._done(answers)}

    @override
    def error(self, code: int, message: str) -> Mapping[str, Any]:
        return {"error": message}

    @override
    def frame(self, event: Mapping[str, Any]) -> bytes:
        return msgspec.json.encode(event) + b"\n"

    def _event(self, text: str) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return {"model": self.model, "created_at": now, "response": text}

    def _done(self, answers: Sequence[InfillAnswer]) -> dict[str, Any]:
        if not answers:  # an empty prompt loads the model
            return {"done": True, "done_reason": "load"}
        (answer,) = answers
        times, used = timings(answer), self.usage(answers)
        return {
            "done": True,
            "done_reason": answer.finish,
            "total_duration": _ns(sum(answer.completion.ms.values())),
            "load_duration": 0,
            "prompt_eval_count": used["prompt_tokens"],
            "prompt_eval_duration": _ns(times["prompt_ms"]),
            "eval_count": used["completion_tokens"],
            "eval_duration": _ns(times["predicted_ms"]),
        }


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


def _timings(answers: Sequence[InfillAnswer]) -> dict[str, Any]:
    return {"timings": timings(answers[0])} if len(answers) == 1 else {}


def _head(prefix: str, kind: str, model: str) -> dict[str, Any]:
    return {"id": f"{prefix}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def _ns(ms: float) -> int:
    return int(ms * 1e6)


def _rates(what: str, tokens: int, ms: float) -> dict[str, float]:
    return {
        f"{what}_n": tokens,
        f"{what}_ms": ms,
        f"{what}_per_token_ms": ms / tokens if tokens else 0.0,
        f"{what}_per_second": 1e3 * tokens / ms if ms else 0.0,
    }
