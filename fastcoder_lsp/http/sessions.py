"""Document sessions: a completion service for each document that clients ask about, up to a limit.

A session has the same rules, texts and prefetching as an editor. Requests do not name documents, so a text goes to the
session with the most similar last text, whose KV cache contains its prompt. Requests wait for a free session. Only the
event loop's thread uses this module.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from typing_extensions import override

from fastcoder_lsp.completion.protocol import HostListener, ModelHost
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService, ServiceListener
from fastcoder_lsp.completion.status import Statistics, Status
from fastcoder_lsp.core import GREEDY, Completion, CompletionRequest, Snapshot
from fastcoder_lsp.core.bounded import NEAR
from fastcoder_lsp.http.infill import InfillRequest, within_bounds
from fastcoder_lsp.http.responses import RequestError

OpenSessionHost = Callable[[HostListener], ModelHost]  # opens a host for one more listener
MAX_SESSIONS = 4  # requests that run at a time, in turns; others wait
_SAME_DOCUMENT = 0.5  # the share of common lines from which two texts are versions of one document
_PATIENCE_FACTOR = 2.0
RAW = Policy(background_ms=1, ahead=False)  # for raw prompts: no rules about places, and nothing is done ahead
LARGE = 100_000  # characters from which a text is judged off the event loop
_MAX_LENGTHS = 8  # answer lengths for which a session keeps its document open


class DisconnectedError(Exception):
    """The client disconnected."""


class DocumentSession(ServiceListener):
    """A completion service and its document."""

    def __init__(self, number: int, open_host: OpenSessionHost) -> None:
        self._place = f"http-client:/document/{number}"
        self.uri = self._place
        self.state = Status("starting")
        self.busy, self.used, self.lines = False, 0, frozenset[str]()
        self.hear: Callable[[str], object] | None = None  # receives a raw answer's lines so far, on the host's thread
        self.service = CompletionService(open_host, self)
        self._version = self._documents = 0
        self._tokens: int | None = None
        self._uris = dict[str, None]()

    @override
    def status(self, status: Status) -> None:
        self.state = status

    @override
    def growth(self, text: str) -> None:
        if (hear := self.hear) is not None:
            hear(text)

    def similarity(self, lines: frozenset[str]) -> float:
        """The share of common lines of its text and another one."""
        return _similarity(self.lines, lines)

    def assign(self, lines: frozenset[str]) -> None:
        """Use the session for a text with these lines; drop the state of another document."""
        if self.lines and self.similarity(lines) < _SAME_DOCUMENT:
            for uri in self._uris:
                self.service.document_closed(uri)
            self._uris.clear()
            self._documents += 1  # a closed document's drafts may stay for a while
            self.uri = f"{self._place}.{self._documents}"
        self.busy, self.lines = True, lines

    def request(self, infill: InfillRequest, at_most: int) -> CompletionRequest:
        """The service's request for `infill`; one for no tokens prefetches with the last request's length.

        Each length has a document of its own, because a cached answer of another length would be too long, or end too
        early. The KV cache serves all. So have texts that are drawn, and raw ones: no cached answer is theirs.
        """
        self._version += 1
        if infill.raw is None and infill.max_tokens != 0:
            self._tokens = None if infill.max_tokens is None else min(infill.max_tokens, at_most)
        tokens = self._tokens if infill.raw is None else None
        uri = self.uri if tokens in (None, at_most) else f"{self.uri}/{tokens}"
        drawn = infill.sampler.draws and infill.max_tokens != 0
        uri = f"{self.uri}/raw" if infill.raw is not None else f"{self.uri}/drawn" if drawn else uri
        self._uris.pop(uri, None)
        self._uris[uri] = None
        if len(self._uris) > _MAX_LENGTHS:
            oldest = next(iter(self._uris))
            del self._uris[oldest]
            self.service.document_closed(oldest)
        text, extras = infill.before + infill.after, within_bounds(infill.extras)
        snapshot = Snapshot(uri, None, infill.language, self._version, text, extras=extras)
        return CompletionRequest(
            snapshot,
            len(infill.before),
            invoked=infill.alternatives > 1 or infill.raw is not None or drawn,
            max_tokens=tokens,
            exact=tokens not in (None, at_most),
            raw=infill.raw,
            sampler=infill.sampler if drawn else GREEDY,
        )


class SessionPool:
    """All document sessions, at most `max_sessions` requests at a time.

    `policy` holds for every one, except its budget, and `quiet.show`: the clients have no key that shows the rest.
    """

    def __init__(
        self, open_host: OpenSessionHost, policy: Policy, max_tokens: int, max_sessions: int = MAX_SESSIONS
    ) -> None:
        self.max_sessions = max_sessions
        self._open_host, self._max_tokens = open_host, max_tokens
        self._policy = replace(policy, automatic_ms=math.inf, quiet=replace(policy.quiet, show="eager"))
        self._free = asyncio.Condition()
        self._taken = 0
        self._sessions = [DocumentSession(0, open_host)]

    def preload(self) -> "Future[bool]":
        """Load the model; resolves to whether that succeeded."""
        return self._sessions[0].service.preload()

    @property
    def status(self) -> Status:
        """The model's status, which all sessions share."""
        return self._sessions[0].state

    def statistics(self) -> tuple[Statistics, ...]:
        """The statistics of each session."""
        return tuple(session.service.statistics() for session in self._sessions)

    @property
    def busy(self) -> int:
        """The number of sessions with a request."""
        return sum(session.busy for session in self._sessions)

    async def answer(
        self,
        infill: InfillRequest,
        disconnected: "asyncio.Future[None]",
        on_text: Callable[[str], object] | None = None,
    ) -> Completion:
        """The completion for `infill`; one for no tokens is only prefetched, unless it is raw, and answered empty.

        `on_text` receives the whole lines of a raw answer so far. `disconnected` is done once the client disconnects;
        the work then ends within a step, by DisconnectedError.
        Raises RequestError if the model cannot be loaded.
        """
        session = await self._take(infill, disconnected)
        if on_text is not None:
            loop, hear = asyncio.get_running_loop(), on_text
            session.hear = lambda text: loop.call_soon_threadsafe(hear, text)
        try:
            if infill.max_tokens == 0:
                return self._prefetch(session, infill)
            return await self._submit(session, infill, disconnected)
        finally:
            session.busy, session.hear = False, None
            async with self._free:
                self._free.notify_all()  # the first waiter may have disconnected

    def close(self, wait_s: float) -> None:
        """Answer open requests and close all sessions."""
        for session in self._sessions:
            session.service.shutdown(wait_s)

    def _prefetch(self, session: DocumentSession, infill: InfillRequest) -> Completion:
        if infill.raw is None and (infill.before or infill.after):
            session.service.accepted(session.request(infill, self._max_tokens), self._policy)
        return Completion("", len(infill.before), len(infill.before), finish="stop")

    async def _submit(
        self, session: DocumentSession, infill: InfillRequest, disconnected: "asyncio.Future[None]"
    ) -> Completion:
        request, patience_ms = session.request(infill, self._max_tokens), infill.patience_ms or math.inf
        policy = RAW if infill.raw is not None else replace(self._policy, alternatives=infill.alternatives)
        if request.sampler.draws:
            policy = replace(policy, background_ms=RAW.background_ms, ahead=False)
        while True:
            policy = replace(policy, automatic_ms=patience_ms, invoked_ms=patience_ms)
            submit = partial(session.service.submit, request, policy)
            future = await asyncio.to_thread(submit) if len(request.snapshot.text) > LARGE else submit()
            completion = await _or_disconnect(disconnected, future)
            if completion.finish == "error":
                raise RequestError(500, completion.reason.text if completion.reason else "the model cannot run")
            if completion.finish != "budget" or completion.text:
                return completion
            patience_ms *= _PATIENCE_FACTOR  # these clients ask once a key, so an empty answer is useless

    async def _take(self, infill: InfillRequest, disconnected: "asyncio.Future[None]") -> DocumentSession:
        lines = _lines_of(infill)
        async with self._free:
            while all(session.busy for session in self._sessions) and len(self._sessions) >= self.max_sessions:
                if disconnected.done():
                    raise DisconnectedError
                await _wait_briefly(self._free.wait)
            session = self._choose(lines)
            self._taken += 1
            session.used = self._taken
            session.assign(lines)
            return session

    def _choose(self, lines: frozenset[str]) -> DocumentSession:
        free = [session for session in self._sessions if not session.busy]
        best = max(free, key=lambda session: session.similarity(lines), default=None)
        if best is not None and (best.similarity(lines) >= _SAME_DOCUMENT or not best.lines):
            return best
        if len(self._sessions) < self.max_sessions:
            self._sessions.append(DocumentSession(len(self._sessions), self._open_host))
            return self._sessions[-1]
        return min(free, key=lambda session: session.used)


async def _or_disconnect(disconnected: "asyncio.Future[None]", future: "Future[Completion]") -> Completion:
    answer = asyncio.wrap_future(future)
    try:
        await asyncio.wait((disconnected, answer), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        raise DisconnectedError
    finally:
        future.cancel()  # directly: cancelling the awaited future reaches it one turn later


async def _wait_briefly(wait: Callable[[], Awaitable[object]]) -> None:
    try:
        await asyncio.wait_for(wait(), 1.0)
    except TimeoutError:
        return


def is_same_document(infill: InfillRequest, other: InfillRequest) -> bool:
    """Whether two texts are versions of one document, so that they share a session."""
    return _similarity(_lines_of(infill), _lines_of(other)) >= _SAME_DOCUMENT


def _similarity(lines: frozenset[str], others: frozenset[str]) -> float:
    return len(lines & others) / max(1, min(len(lines), len(others)))


def _lines_of(infill: InfillRequest) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, (infill.before[-4 * NEAR :] + infill.after[: 4 * NEAR]).split("\n"))))
