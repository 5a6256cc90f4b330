"""Answers to whole prompts that other programs built, as they ask edit models by HTTP.

Nothing is cleaned, and no rule of completions ends the text: only the model, the request's stops and its length do.
Runs in the scheduler's thread.
"""

from dataclasses import replace

from typing_extensions import override

from fastcoder_lsp.completion.question import Clock, Question
from fastcoder_lsp.completion.suggestions import CursorContext, Suggestion
from fastcoder_lsp.core import RawPrompt
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.edits.formats import answer_tokens, encode_raw
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.budget import LatencyEstimator
from fastcoder_lsp.scheduling.generation import LocalGeneration


class RawGeneration(LocalGeneration):
    """A raw answer; it serves the same prompt again, and no other one."""

    @override
    def agrees(self, place: CursorContext) -> bool:
        return place == self.place

    @override
    def made(self) -> Suggestion:
        assert self.finish, "it is still being said"
        return Suggestion(self.place, self.said())

    @override
    def useful(self) -> Suggestion:
        return self.made() if self.finish else Suggestion(self.place, "")


def begin_raw(
    runtime: Runtime, latency: LatencyEstimator, clock: Clock, question: Question, raw: RawPrompt, spans: Spans
) -> RawGeneration:
    """A generation for a question with a raw prompt; of one that is too long for the model, the last part is read."""
    tokenizer, text = runtime.tokenizer, question.place.before
    piece, end_ids = answer_tokens(tokenizer)
    with spans.measure("prompt"):
        prompt, start = encode_raw(text, tokenizer), list(tokenizer.start_ids)
        if prompt[: len(start)] == start:
            prompt = prompt[len(start) :]
        context = runtime.info.context
        room = max(context - len(start) - min(raw.max_tokens, context // 2), 1)
        asked = DecodeRequest(
            prompt=(*start, *prompt[-room:]) or tuple(sorted(tokenizer.end_ids)[:1]),
            max_tokens=raw.max_tokens,
            end_ids=end_ids,
            piece=piece,
            allow=runtime.allow,
            cut=lambda said: first_stop(said, raw.stops),
            document=question.uri,
            nodes=runtime.limits.nodes,
            outdated=(tuple(encode_raw(raw.likely, tokenizer)),) if raw.likely else (),
        )
    snapshot = replace(question.request.snapshot, text=text)
    generation = RawGeneration(runtime, latency, clock, snapshot, question.place, asked)
    generation.raw = raw
    generation.measured_by(spans)
    return generation


def first_stop(said: str, stops: tuple[str, ...]) -> int | None:
    """Where the first of the stops begins; None while there is none."""
    return min((at for stop in stops if stop and (at := said.find(stop)) >= 0), default=None)
