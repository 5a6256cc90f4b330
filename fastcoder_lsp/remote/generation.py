"""A server as the scheduler's model: a text that arrives over the network is a generation.

Chunks arrive on the event loop's thread; the scheduler's thread takes them in as pieces of work.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from typing_extensions import override

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.question import MOST_ALTERNATIVES, Clock, Policy, Question
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.core import Counts, EngineInfo, Reason
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.remote import failures
from fastcoder_lsp.remote.dialects import AnswerChunk, Dialect
from fastcoder_lsp.remote.excerpt import Excerpt
from fastcoder_lsp.remote.failures import Backoff, NotSentError, RemoteError
from fastcoder_lsp.remote.server import RemoteServer
from fastcoder_lsp.scheduling.budget import BackgroundBudget, Budgets
from fastcoder_lsp.scheduling.generation import Generation
from fastcoder_lsp.scheduling.model import Loaded

MAX_CHARACTERS_PER_TOKEN: Final = 32  # an upper bound, for servers that ignore `max_tokens`
_MAX_CHUNKS_PER_TOKEN: Final = 4
_MAX_ANSWER_S: Final = 120.0  # the longest answer, however slowly it arrives
AUTOMATIC_MS: Final = 400.0  # users type on after that; a later text is shown as a late suggestion
INVOKED_MS: Final = 5_000.0
IDLE_MS: Final = 30_000.0  # how long an answer may continue with no pending question


def budgets_of(policy: Policy) -> Budgets:
    """The budgets of `policy`; defaults where it sets none, because a server's speed is unknown."""
    return Budgets(
        policy.automatic_ms or AUTOMATIC_MS, policy.invoked_ms or INVOKED_MS, policy.background_ms or IDLE_MS
    )


class IdleTimeout(BackgroundBudget):
    """Ends an answer without a pending question for too long, at least `least_ms`, from the first such moment."""

    def __init__(self, question: Question, clock: Clock, least_ms: float = 0.0) -> None:
        allowed_ms = question.policy.background_ms or max(least_ms, IDLE_MS)
        super().__init__(question, allowed_ms, allowed_ms, owed_ms=0.0, kept_ms=0.0, again_ms=0.0, prepare=False)
        self._clock, self._since_ms = clock, math.inf

    @override
    def room_ms(self, *, owed: bool) -> float:
        now_ms = self._clock()
        self._since_ms = min(self._since_ms, now_ms)
        return self.granted_ms - (now_ms - self._since_ms)


class RemoteModel(Loaded):
    """A server as a model. Used in the scheduler's thread.

    `excerpt` makes what is sent for a question, on the event loop `loop`, whose thread calls `wake` when a chunk has
    arrived. `on_failure` gets a failure, and the question that waited for an answer.
    """

    def __init__(
        self,
        server: RemoteServer,
        loop: asyncio.AbstractEventLoop,
        excerpt: Callable[[Question, Dialect], Awaitable[Excerpt]],
        wake: Callable[[], None],
        on_failure: Callable[[Question | None, RemoteError], None],
        on_answered: Callable[[], None],
        backoff: Backoff,
        clock: Clock,
    ) -> None:
        self.server, self.loop, self.excerpt, self.wake = server, loop, excerpt, wake
        self._on_failure, self._on_answered, self._backoff, self._clock = on_failure, on_answered, backoff, clock
        self._unanswered_since_ms: float | None = None
        """Since when requests have had no answer: typing cancels each request before it can time out."""

    def refusal(self, generation: Generation | None) -> RemoteError | None:
        """Why the server is not asked now; None if it is. `generation`: the present one."""
        now_ms = self._clock()
        if generation is None:
            self._unanswered_since_ms = None
        if self._unanswered_since_ms is not None and now_ms - self._unanswered_since_ms > self.server.read_timeout_ms:
            return failures.timed_out(self.server.host)
        return self._backoff.blocking_failure(now_ms)

    def received(self) -> None:
        """A chunk has arrived."""
        self._unanswered_since_ms = None

    def answered(self) -> None:
        """An answer is complete."""
        self._backoff.answered()
        self._on_answered()

    @property
    @override
    def info(self) -> EngineInfo:
        identity = self.server.identity
        name, model = ("", "") if identity is None else (identity.dialect.name, identity.model)
        return EngineInfo(name, model, self.server.host, "", vocabulary=0, context=0, max_nodes=0)

    @override
    def budgets(self, policy: Policy) -> Budgets:
        return budgets_of(policy)

    @override
    def background(self, question: Question) -> IdleTimeout:
        # A server whose client hangs up may begin to load its model anew at the next question.
        return IdleTimeout(question, self._clock, 0.0 if self.server.answered else self.server.read_timeout_ms)

    @override
    def begin(
        self, question: Question, expected: Sequence[str], spans: Spans, clock: Clock, *, whole: bool
    ) -> "RemoteGeneration":
        self._unanswered_since_ms = self._clock() if self._unanswered_since_ms is None else self._unanswered_since_ms
        generation = RemoteGeneration(self, question)
        generation.measured_by(spans)
        return generation

    @override
    def took_over(self, question: Question | None, error: BaseException) -> bool:
        if not isinstance(error, RemoteError):
            return False
        if not isinstance(error, NotSentError) and error is not self._backoff.failure:
            self._backoff.failed(error, self._clock())
        self._on_failure(question, error)
        return True


class RemoteGeneration(Generation):
    """The text of one request to a server.

    `question`: the first that it serves. `variant` 0 is the greedy answer. `excerpt` is sent; None: made from the
    question.
    """

    def __init__(
        self, model: RemoteModel, question: Question, variant: int = 0, excerpt: Excerpt | None = None
    ) -> None:
        super().__init__(question.request.snapshot, question.place)
        self._model, self._question, self._variant, self._excerpt = model, question, variant, excerpt
        self._text, self._finish, self._chunks = "", "", 0
        self._cut = self._rule.follow()
        self._others: tuple[Suggestion, ...] | None = None
        self._variants: list[RemoteGeneration] = []  # requests for alternatives at the same place
        self._spans = Spans()
        self._arrived: deque[AnswerChunk | Exception] = deque()
        self._stream = asyncio.run_coroutine_threadsafe(self._stream_answer(), model.loop)

    # On the loop's thread -------------------------------------------------------------------------------------------

    async def _stream_answer(self) -> None:
        server = self._model.server
        try:
            async with asyncio.timeout(_MAX_ANSWER_S):
                identity = await server.identify()
                if self._excerpt is None:
                    self._excerpt = await self._model.excerpt(self._question, identity.dialect)
                count = 1 if self._variant else self._question.candidates
                async with aclosing(server.stream(self._excerpt, self._variant, count)) as chunks:
                    async for chunk in chunks:
                        self._deliver(chunk)
        except TimeoutError:
            self._deliver(failures.timed_out(server.host))
        except Exception as error:  # noqa: BLE001 the scheduler's thread raises it
            self._deliver(error)

    def _deliver(self, arrived: AnswerChunk | Exception) -> None:
        self._arrived.append(arrived)
        self._model.wake()

    # In the scheduler's thread --------------------------------------------------------------------------------------

    @override
    def work(self, room_ms: float, *, in_any_case: bool = False) -> bool:
        """Take in what has arrived; False if no time is left to wait for more. Raises RemoteError."""
        if room_ms <= 0 and not in_any_case:
            return False
        while self._arrived and not self._finish:
            arrived = self._arrived.popleft()
            if isinstance(arrived, Exception):
                raise arrived
            self._receive(arrived)
        if self._finish and self._variants:
            self._collect_variants(room_ms)
        return True

    @property
    @override
    def waits(self) -> bool:
        return not self.finished

    @override
    def can_branch(self) -> bool:
        return self._question.candidates > 1

    @override
    def measured_by(self, spans: Spans) -> None:
        self._spans = spans

    @override
    def close(self) -> None:
        self._stream.cancel()
        for variant in self._variants:
            variant.close()

    @property
    @override
    def info(self) -> EngineInfo:
        return self._model.info

    @property
    @override
    def grows(self) -> bool:  # type: ignore[override]  # known once the server is identified
        identity = self._model.server.identity
        return identity is not None and identity.dialect.streams

    @property
    @override
    def finish(self) -> str:
        return self._finish

    @property
    @override
    def finished(self) -> bool:
        return bool(self._finish) and not self._variants

    @override
    def said(self) -> str:
        return self._text

    @override
    def counts(self) -> Counts:
        return Counts(steps=self._chunks, tokens=self._chunks)

    @override
    def made(self) -> Suggestion:
        return replace(super().made(), others=self._others)

    @override
    def why_slow(self, allowed_ms: float, over_ms: float, *, invoked: bool) -> Reason:
        return reasons.slow(self._model.server.host, allowed_ms, None, invoked=invoked)

    def _receive(self, chunk: AnswerChunk) -> None:
        """Append a chunk; end the text by the chunk, the place's stop rule, or the length."""
        assert self._excerpt is not None, "it was sent"
        ms = self._spans.close()
        self._spans.add("verify" if self._chunks else "prefill", 2 * ms["total"] - sum(ms.values()))
        self._model.received()
        self._chunks += 1
        most = MAX_CHARACTERS_PER_TOKEN * self._excerpt.max_tokens
        said = (self._text + chunk.text).replace("\r\n", "\n")
        self._text = said[:most]
        end = self._cut(self._text)
        if end is not None:
            self._text, self._finish = self._text[:end], "stop"
        elif len(said) > most or self._chunks > _MAX_CHUNKS_PER_TOKEN * self._excerpt.max_tokens:
            self._finish = "length"
        elif chunk.finish:
            self._finish = chunk.finish
        if self._finish:
            if not chunk.finish:  # the server would continue
                self._stream.cancel()
            self._end(tuple(other[:most] for other in chunk.others[: MOST_ALTERNATIVES - 1]))

    def _end(self, others: Sequence[str]) -> None:
        """The text is complete; `others`: alternatives that came with it."""
        if self._variant:
            return
        self._model.answered()
        identity, count = self._model.server.identity, self._question.candidates
        if others or count > 1:
            self._others = tuple(map(self._other, others))
            if count > 1 and identity is not None and identity.dialect.variants:
                self._variants = [
                    RemoteGeneration(self._model, self._question, variant, self._excerpt) for variant in range(1, count)
                ]

    def _other(self, said: str) -> Suggestion:
        return self._suggestion(self._finished(said[: self._rule.cut(said)]))

    @override
    def _finished(self, said: str) -> str:
        text, identity = super()._finished(said), self._model.server.identity
        # A server that post-processes leaves out a closer that its model was not sure of.
        complete = identity is not None and identity.dialect.postprocesses and text.startswith(said)
        return said if complete else text

    def _collect_variants(self, room_ms: float) -> None:
        """Once all are complete, keep each distinct one; a variant that fails is left out."""
        for variant in tuple(self._variants):
            try:
                if not variant.finished:
                    variant.work(room_ms, in_any_case=True)
            except RemoteError:
                self._variants.remove(variant)
        if all(variant.finished for variant in self._variants):
            found = {suggestion.text: suggestion for variant in self._variants if (suggestion := variant.made()).text}
            found.pop(super().made().text, None)
            self._others, self._variants = tuple(found.values()), []
