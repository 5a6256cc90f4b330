"""One front's questions to a server: the newest one alone is asked, and what is being said is taken over where it fits.

Owns who waits, what the server is saying, and when to hang up: at once where a newer question wants something else, or
when nobody has wanted it for long. Lives on the event loop's thread.
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
from fastcoder_lsp.remote.generation import Saying, answer_of, vary
from fastcoder_lsp.remote.server import Server
from fastcoder_lsp.remote.timing import Pauses, Rest, Waiting

_WHOLE_S = 120.0
"""No answer takes longer, however it drips."""


class Asking:
    """What is wanted of the server now, and what it says.

    Args:
        server: is asked.
        excerpt: makes what is sent for a question.
        listener: told what comes of it.
        failed: told of a question that the server did not answer, and why.
        well: told that it has answered one.
        pauses: how long it is left alone after failures.
        clock: milliseconds.
    """

    def __init__(
        self,
        server: Server,
        excerpt: Callable[[Question, Dialect], Awaitable[Excerpt]],
        listener: HostListener,
        failed: Callable[[Question | None, RemoteError], None],
        well: Callable[[], None],
        pauses: Pauses,
        clock: Clock,
    ) -> None:
        self._server, self._excerpt, self._listener = server, excerpt, listener
        self._failed, self._well, self._pauses, self._clock = failed, well, pauses, clock
        self._waiting: Waiting | None = None
        self._unserved: Question | None = None
        """The last question, where nothing was shown for it: what can be shown of its text is told as it comes."""
        self._saying: Saying | None = None
        self._stream: asyncio.Task[None] | None = None
        self._rest = Rest(self._hang_up)
        self._unheard_ms: float | None = None
        """Since when it is asked and has said nothing: who types on hangs up before a time-out could tell."""

    def ask(self, question: Question) -> None:
        """The newest question; nobody waits for an older one any more."""
        self._leave()
        self._unserved = None
        if stays_here(question):
            self._listener(Answered(question.number, Answer("empty", (), "secret", reasons.secret_line())))
            self._rests()
            return
        if (error := self._pauses.holds(self._clock())) is not None:
            self._failed(question, error)
            return
        if self._unheard_ms is not None and self._clock() - self._unheard_ms > self._server.silent_ms:
            self._hang_up()
            self._give_up(question, failures.slow(self._server.host))
            return
        patient = self._server.identity is None
        self._waiting = Waiting(question, self._clock(), partial(self._overdue, question), patient=patient)
        self._listener(StatusChanged(Status("thinking")))
        saying = self._serving(question)
        if saying is None or not saying.has_enough_for(question):
            self._begin(question)
        elif saying.ahead:
            saying.ahead = False
        else:
            self._listener(Counted("adopted", 1))
        if saying is not None and saying is self._saying and saying.finished:
            self._ended(saying)

    def noticed(self, *, answered: bool) -> None:
        """Somebody asked, which needs no server; `answered`: nobody waits at the last place."""
        if answered:
            self._unserved = None

    def withdraw(self, number: int) -> None:
        """Nobody waits for the answer to a question; what was begun for it may serve the next one."""
        if self._waiting is not None and self._waiting.question.number == number:
            self._leave()
            self._rests()

    def expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        """What will be asked next; `known`: what follows there is; `unserved`: somebody waits there for a late text."""
        if stays_here(question):
            return
        self._unserved = question if unserved else self._unserved
        wanted = unserved or (question.policy.ahead and not known)
        if self._waiting is not None or not wanted or self._pauses.holds(self._clock()) is not None:
            return
        if self._serving(question) is None:
            self._begin(question, ahead=True)
        self._rests()

    def forget(self, uri: str) -> None:
        """A document was closed, or goes on under another name."""
        if self._unserved is not None and self._unserved.uri == uri:
            self._unserved = None
        if self._saying is not None and self._saying.uri == uri:
            self._hang_up()

    def rename(self, old: str, new: str) -> None:
        """A document has another name: whoever waits for an answer in it goes on waiting."""
        self.forget(old)
        waiting = self._waiting
        if waiting is not None and waiting.question.uri == old:
            waiting.question = waiting.question.renamed(new)
            self._begin(waiting.question)

    def clear(self) -> None:
        """Nobody wants anything any more."""
        self._leave()
        self._unserved = None
        self._hang_up()

    # What the server says -------------------------------------------------------------------------------------------

    def _serving(self, question: Question) -> Saying | None:
        saying = self._saying
        return saying if saying is not None and saying.serves(question) else None

    def _begin(self, question: Question, *, ahead: bool = False) -> None:
        unheard_ms = self._clock() if self._unheard_ms is None else self._unheard_ms
        self._hang_up()
        identity, self._unheard_ms = self._server.identity, unheard_ms
        grows = identity is not None and identity.dialect.streams
        self._saying = Saying(question, grows=grows, ahead=ahead)
        self._stream = asyncio.get_running_loop().create_task(self._listen(self._saying))

    async def _listen(self, saying: Saying) -> None:
        try:
            async with asyncio.timeout(_WHOLE_S):
                await self._hear(saying)
        except RemoteError as error:
            self._broke(saying, error)
        except TimeoutError:
            self._broke(saying, failures.slow(self._server.host))
        except Exception as error:  # noqa: BLE001 the boundary: a fault of ours costs one answer
            self._faulty(saying, error)

    async def _hear(self, saying: Saying) -> None:
        identity = await self._server.meet()
        saying.grows = identity.dialect.streams
        excerpt = await self._excerpt(saying.question, identity.dialect)
        wanted = saying.question.candidates
        pieces = self._server.say(excerpt, wanted=wanted)
        try:
            async for heard in pieces:
                self._took(saying)
                saying.hear(heard, excerpt.max_tokens)
                if saying.finished:
                    break
                self._grew(saying)
        finally:
            await pieces.aclose()
        if wanted > 1 and identity.dialect.variants:
            saying.others = await vary(self._server, excerpt, saying, wanted - 1)
        self._stream = None
        self._pauses.answered()
        self._well()
        self._listener(Worked(Counts(steps=saying.pieces, tokens=saying.pieces)))
        self._ended(saying)

    def _took(self, saying: Saying) -> None:
        """Count the time since the last piece: the first one ends what the prompt took."""
        self._unheard_ms = None
        if self._waiting is not None:
            self._waiting.came("verify" if saying.pieces else "prefill")

    def _grew(self, saying: Saying) -> None:
        """More is said. Who waits and has gone another way is served anew; who waits no more may be told of it."""
        waiting = self._waiting
        if waiting is not None:
            if not saying.serves(waiting.question):
                self._begin(waiting.question)
        elif self._unserved is not None and "\n" in saying.said:
            useful = saying.useful()
            if useful.text and useful.rest(self._unserved.place) is not None:
                self._listener(Made(saying.uri, useful))

    def _ended(self, saying: Saying) -> None:
        """All is said: that is the answer, or is told to whoever comes there."""
        waiting = self._waiting
        if waiting is None:
            self._listener(Counted("ahead" if saying.ahead else "background", 1))
            made = self._suggestion(saying)
            self._listener(Made(saying.uri, made if made.text else replace(made, reason=saying.why_nothing())))
            return
        if not saying.serves(waiting.question):
            self._begin(waiting.question)
            return
        self._answer(waiting, saying, self._suggestion(saying), saying.finish)

    def _suggestion(self, saying: Saying) -> Suggestion:
        """What was said, with the other answers if they were looked for."""
        others = () if saying.others is None and saying.question.candidates > 1 else saying.others
        for other in reversed(others or ()):
            self._listener(Made(saying.uri, other))
        if others:
            self._listener(Counted("alternatives", len(others)))
        return replace(saying.made(), others=others)

    def _overdue(self, question: Question) -> None:
        """The time is over: the longest beginning worth showing is the answer, and the rest goes on."""
        waiting, saying = self._waiting, self._saying
        if waiting is None or waiting.question.number != question.number:
            return
        question = waiting.question
        serving = self._serving(question)
        beginning = serving.useful() if serving is not None else Suggestion(question.place, "")
        if beginning.rest(question.place) is not None:
            self._listener(Counted("budgeted", 1))
            self._answer(waiting, saying, beginning, "budget")
        else:
            self._listener(Counted("budgeted_empty", 1))
            self._unserved = question
            reason = reasons.slow(self._server.host, waiting.allowed_ms, None, invoked=question.request.invoked)
            self._answer(waiting, saying, Suggestion(question.place, ""), "budget", reason)
        self._rests()

    def _answer(
        self, waiting: Waiting, saying: Saying | None, suggestion: Suggestion, finish: str, reason: Reason | None = None
    ) -> None:
        question, ms = waiting.question, waiting.spans.close()
        answer = answer_of(question, suggestion, finish, ms, saying, self._server.identity, reason)
        if suggestion.text and saying is not None:
            self._listener(Made(saying.uri, suggestion))
        self._leave()
        self._listener(Answered(question.number, answer))

    # When it does not -----------------------------------------------------------------------------------------------

    def _broke(self, saying: Saying, error: RemoteError) -> None:
        """The server did not answer."""
        if self._saying is not saying:
            return  # somebody has hung up before
        self._saying = self._stream = self._unheard_ms = None
        waiting = self._waiting
        self._leave(quietly=True)
        self._give_up(waiting.question if waiting is not None else None, error)

    def _give_up(self, question: Question | None, error: RemoteError) -> None:
        if not isinstance(error, NotSentError):
            self._pauses.failed(error, self._clock())
        self._failed(question, error)

    def _faulty(self, saying: Saying, error: Exception) -> None:
        status = failure("An internal error occurred", error)
        if self._saying is saying:
            self._saying = self._stream = self._unheard_ms = None
        waiting = self._waiting
        self._leave(quietly=True)
        if waiting is not None:
            self._listener(Answered(waiting.question.number, Answer.failed(status)))
        self._listener(StatusChanged(status))

    def _leave(self, *, quietly: bool = False) -> None:
        """Nobody waits any more."""
        waiting, self._waiting = self._waiting, None
        self._rest.end()
        if waiting is None:
            return
        waiting.over()
        if not quietly:
            self._listener(StatusChanged(Status("ready")))

    def _rests(self) -> None:
        """Nobody waits for what is being said: it goes on for a while, for whoever comes there next."""
        saying = self._saying
        if saying is not None and not saying.finished and self._waiting is None:
            self._rest.begin(saying.question.policy)

    def _hang_up(self) -> None:
        stream, self._stream, self._saying = self._stream, None, None
        self._unheard_ms = None
        if stream is not None:
            stream.cancel()
