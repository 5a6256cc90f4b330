"""The scheduler of one front's questions to a server: one pending question, one generation.

A generation whose text agrees with the newest question serves it; otherwise the request is cancelled and a new one
begins. A generation with no pending question ends after the idle timeout. Runs on the event loop's thread.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.protocol import Answered, Counted, HostListener, Made, StatusChanged, Worked
from fastcoder_lsp.completion.question import Answer, Clock, Question
from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.core import Counts, Reason
from fastcoder_lsp.remote import failures
from fastcoder_lsp.remote.dialects import Dialect
from fastcoder_lsp.remote.excerpt import Excerpt, stays_here
from fastcoder_lsp.remote.failures import NotSentError, RemoteError
from fastcoder_lsp.remote.generation import RemoteGeneration, answer_of, vary
from fastcoder_lsp.remote.server import RemoteServer
from fastcoder_lsp.remote.timing import Backoff, IdleTimeout, PendingQuestion

_WHOLE_S = 120.0
"""No answer takes longer, however it drips."""


class RemoteScheduler:
    """Asks the server for the newest question only.

    Args:
        server: is asked.
        excerpt: makes what is sent for a question.
        listener: told what comes of it.
        failed: told of a question that the server did not answer, and why.
        well: told that it has answered one.
        backoff: how long it is left alone after failures.
        clock: milliseconds.
    """

    def __init__(
        self,
        server: RemoteServer,
        excerpt: Callable[[Question, Dialect], Awaitable[Excerpt]],
        listener: HostListener,
        failed: Callable[[Question | None, RemoteError], None],
        well: Callable[[], None],
        backoff: Backoff,
        clock: Clock,
    ) -> None:
        self._server, self._excerpt, self._listener = server, excerpt, listener
        self._failed, self._well, self._backoff, self._clock = failed, well, backoff, clock
        self._pending: PendingQuestion | None = None
        self._unserved: Question | None = None
        """The last question, if it was answered empty: its text is sent as late suggestions as it comes."""
        self._generation: RemoteGeneration | None = None
        self._stream: asyncio.Task[None] | None = None
        self._idle_timeout = IdleTimeout(self._hang_up)
        self._unheard_ms: float | None = None
        """Since when requests have had no answer: typing cancels each request before it could time out."""

    def ask(self, question: Question) -> None:
        """Take the newest question; it replaces the pending one."""
        self._leave()
        self._unserved = None
        if stays_here(question):
            self._listener(Answered(question.number, Answer("empty", (), "secret", reasons.secret_line())))
            self._start_idle_timeout()
            return
        if (error := self._backoff.holds(self._clock())) is not None:
            self._failed(question, error)
            return
        if self._unheard_ms is not None and self._clock() - self._unheard_ms > self._server.silent_ms:
            self._hang_up()
            self._give_up(question, failures.slow(self._server.host))
            return
        patient = self._server.identity is None
        self._pending = PendingQuestion(question, self._clock(), partial(self._overdue, question), patient=patient)
        self._listener(StatusChanged(Status("thinking")))
        generation = self._serving(question)
        if generation is None or not generation.has_enough_for(question):
            self._begin(question)
        elif generation.ahead:
            generation.ahead = False
        else:
            self._listener(Counted("adopted", 1))
        if generation is not None and generation is self._generation and generation.finished:
            self._ended(generation)

    def noticed(self, *, answered: bool) -> None:
        """A question needed no server; `answered`: the last place needs no late suggestion."""
        if answered:
            self._unserved = None

    def withdraw(self, number: int) -> None:
        """Withdraw a question; its generation may serve the next one."""
        if self._pending is not None and self._pending.question.number == number:
            self._leave()
            self._start_idle_timeout()

    def expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        """Begin the question that comes next; `known`: its text is cached; `unserved`: a late suggestion is wanted."""
        if stays_here(question):
            return
        self._unserved = question if unserved else self._unserved
        wanted = unserved or (question.policy.ahead and not known)
        if self._pending is not None or not wanted or self._backoff.holds(self._clock()) is not None:
            return
        if self._serving(question) is None:
            self._begin(question, ahead=True)
        self._start_idle_timeout()

    def forget(self, uri: str) -> None:
        """A document was closed, or goes on under another name."""
        if self._unserved is not None and self._unserved.uri == uri:
            self._unserved = None
        if self._generation is not None and self._generation.uri == uri:
            self._hang_up()

    def rename(self, old: str, new: str) -> None:
        """A document has a new name; its pending question stays."""
        self.forget(old)
        pending = self._pending
        if pending is not None and pending.question.uri == old:
            pending.question = pending.question.renamed(new)
            self._begin(pending.question)

    def clear(self) -> None:
        """Drop the question and cancel the generation."""
        self._leave()
        self._unserved = None
        self._hang_up()

    # The generation -----------------------------------------------------------------------------------------------

    def _serving(self, question: Question) -> RemoteGeneration | None:
        generation = self._generation
        return generation if generation is not None and generation.serves(question) else None

    def _begin(self, question: Question, *, ahead: bool = False) -> None:
        unheard_ms = self._clock() if self._unheard_ms is None else self._unheard_ms
        self._hang_up()
        identity, self._unheard_ms = self._server.identity, unheard_ms
        grows = identity is not None and identity.dialect.streams
        self._generation = RemoteGeneration(question, grows=grows, ahead=ahead)
        self._stream = asyncio.get_running_loop().create_task(self._listen(self._generation))

    async def _listen(self, generation: RemoteGeneration) -> None:
        try:
            async with asyncio.timeout(_WHOLE_S):
                await self._hear(generation)
        except RemoteError as error:
            self._broke(generation, error)
        except TimeoutError:
            self._broke(generation, failures.slow(self._server.host))
        except Exception as error:  # noqa: BLE001 the boundary: a fault of ours costs one answer
            self._faulty(generation, error)

    async def _hear(self, generation: RemoteGeneration) -> None:
        identity = await self._server.meet()
        generation.grows = identity.dialect.streams
        excerpt = await self._excerpt(generation.question, identity.dialect)
        wanted = generation.question.candidates
        pieces = self._server.say(excerpt, wanted=wanted)
        try:
            async for heard in pieces:
                self._took(generation)
                generation.hear(heard, excerpt.max_tokens)
                if generation.finished:
                    break
                self._grew(generation)
        finally:
            await pieces.aclose()
        if wanted > 1 and identity.dialect.variants:
            generation.others = await vary(self._server, excerpt, generation, wanted - 1)
        self._stream = None
        self._backoff.answered()
        self._well()
        self._listener(Worked(Counts(steps=generation.pieces, tokens=generation.pieces)))
        self._ended(generation)

    def _took(self, generation: RemoteGeneration) -> None:
        """Record the time since the last piece; the first piece ends the prefill."""
        self._unheard_ms = None
        if self._pending is not None:
            self._pending.came("verify" if generation.pieces else "prefill")

    def _grew(self, generation: RemoteGeneration) -> None:
        """The text has grown: begin anew if the pending question disagrees, or send a late suggestion."""
        pending = self._pending
        if pending is not None:
            if not generation.serves(pending.question):
                self._begin(pending.question)
        elif self._unserved is not None and "\n" in generation.said:
            useful = generation.useful()
            if useful.text and useful.rest(self._unserved.place) is not None:
                self._listener(Made(generation.uri, useful))

    def _ended(self, generation: RemoteGeneration) -> None:
        """The text is complete: answer the pending question, or cache the suggestion."""
        pending = self._pending
        if pending is None:
            self._listener(Counted("ahead" if generation.ahead else "background", 1))
            made = self._suggestion(generation)
            self._listener(Made(generation.uri, made if made.text else replace(made, reason=generation.why_nothing())))
            return
        if not generation.serves(pending.question):
            self._begin(pending.question)
            return
        self._answer(pending, generation, self._suggestion(generation), generation.finish)

    def _suggestion(self, generation: RemoteGeneration) -> Suggestion:
        """The suggestion, with the alternatives if they were requested."""
        others = () if generation.others is None and generation.question.candidates > 1 else generation.others
        for other in reversed(others or ()):
            self._listener(Made(generation.uri, other))
        if others:
            self._listener(Counted("alternatives", len(others)))
        return replace(generation.made(), others=others)

    def _overdue(self, question: Question) -> None:
        """The budget has ended: answer with the longest useful beginning; the generation continues."""
        pending, generation = self._pending, self._generation
        if pending is None or pending.question.number != question.number:
            return
        question = pending.question
        serving = self._serving(question)
        beginning = serving.useful() if serving is not None else Suggestion(question.place, "")
        if beginning.rest(question.place) is not None:
            self._listener(Counted("budgeted", 1))
            self._answer(pending, generation, beginning, "budget")
        else:
            self._listener(Counted("budgeted_empty", 1))
            self._unserved = question
            reason = reasons.slow(self._server.host, pending.allowed_ms, None, invoked=question.request.invoked)
            self._answer(pending, generation, Suggestion(question.place, ""), "budget", reason)
        self._start_idle_timeout()

    def _answer(
        self,
        pending: PendingQuestion,
        generation: RemoteGeneration | None,
        suggestion: Suggestion,
        finish: str,
        reason: Reason | None = None,
    ) -> None:
        question, ms = pending.question, pending.spans.close()
        answer = answer_of(question, suggestion, finish, ms, generation, self._server.identity, reason)
        if suggestion.text and generation is not None:
            self._listener(Made(generation.uri, suggestion))
        self._leave()
        self._listener(Answered(question.number, answer))

    # Failures ------------------------------------------------------------------------------------------------------

    def _broke(self, generation: RemoteGeneration, error: RemoteError) -> None:
        """The request failed."""
        if self._generation is not generation:
            return  # somebody has hung up before
        self._generation = self._stream = self._unheard_ms = None
        pending = self._pending
        self._leave(quietly=True)
        self._give_up(pending.question if pending is not None else None, error)

    def _give_up(self, question: Question | None, error: RemoteError) -> None:
        if not isinstance(error, NotSentError):
            self._backoff.failed(error, self._clock())
        self._failed(question, error)

    def _faulty(self, generation: RemoteGeneration, error: Exception) -> None:
        status = failure("An internal error occurred", error)
        if self._generation is generation:
            self._generation = self._stream = self._unheard_ms = None
        pending = self._pending
        self._leave(quietly=True)
        if pending is not None:
            self._listener(Answered(pending.question.number, Answer.failed(status)))
        self._listener(StatusChanged(status))

    def _leave(self, *, quietly: bool = False) -> None:
        """Drop the pending question."""
        pending, self._pending = self._pending, None
        self._idle_timeout.end()
        if pending is None:
            return
        pending.over()
        if not quietly:
            self._listener(StatusChanged(Status("ready")))

    def _start_idle_timeout(self) -> None:
        """Limit how long a generation continues with no pending question."""
        generation = self._generation
        if generation is not None and not generation.finished and self._pending is None:
            self._idle_timeout.begin(generation.question.policy)

    def _hang_up(self) -> None:
        stream, self._stream, self._generation = self._stream, None, None
        self._unheard_ms = None
        if stream is not None:
            stream.cancel()
