"""The gateway: an ASGI application that checks keys, limits, bodies and forms before a replica answers. Knows no Ray.

First it checks key and limits from the request's head alone, then the size of its body, then its form.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.http import responses
from fastcoder_lsp.http.guard import (
    FOREIGN_HOST,
    LOOPBACK,
    NO_KEY,
    WEB_PAGE,
    WRONG_KEY,
    host_name,
    is_foreign_page,
    presented_key,
    read_body,
    wait_for_disconnect,
)
from fastcoder_lsp.http.infill import InfillAnswer
from fastcoder_lsp.http.pages import HEALTH, PAGES, SHOW, Pages
from fastcoder_lsp.http.routes import ROUTES, reply
from fastcoder_lsp.team.calls import Call, ReplicaAnswer, ReplicaRefusal, Tenant, place_of
from fastcoder_lsp.team.configuration import KeyLimits
from fastcoder_lsp.team.counts import RequestCounts, RequestOutcome
from fastcoder_lsp.team.keys import Key, KeyFile, Ledger, Refusal

logger = logging.getLogger(__name__)

DOCUMENT, WORKSPACE = "x-fastcoder-document", "x-fastcoder-workspace"
REPLICA, HOST_MS = "x-fastcoder-replica", "x-fastcoder-host-ms"
_NAME = 1024  # longest name of a document or a workspace, in characters
_HEAD = 400  # characters at the beginning of an unnamed text that its replica is chosen by
_NOBODY = 499
Answer = Callable[[Call], Awaitable[ReplicaAnswer | ReplicaRefusal | Refusal]]


@dataclass(frozen=True, slots=True)
class _Guest:
    """The sender of a request: a key's account and its limits."""

    account: str
    name: str
    open: int
    a_minute: int
    repositories: tuple[str, ...]
    metrics: bool


class Gateway:
    """The application.

    Args:
        answer: asks the replica that the call belongs to, or the next one.
        can_answer: whether there is a replica.
        keys: the accepted keys; None: anyone on this machine may ask.
        limits: the limits of a key without its own.
        told: called with the outcome of each request.
        model: the model's name for clients.
        context_tokens: the longest prompt.
        clock: returns monotonic seconds.
    """

    def __init__(
        self,
        answer: Answer,
        can_answer: Callable[[], Awaitable[bool]],
        keys: KeyFile | None,
        limits: KeyLimits,
        told: Callable[[RequestOutcome], None],
        model: str,
        context_tokens: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._answer, self._can_answer = answer, can_answer
        self._keys, self._limits, self._told = keys, limits, told
        self._model, self._context_tokens, self._clock = model, context_tokens, clock
        self._ledger, self.counts, self._started = Ledger(), RequestCounts(), int(time.time())
        self._looking: asyncio.Future[bool] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 ASGI's
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        begun, outcome = self._clock(), RequestOutcome(route=_route(scope["path"]))
        try:
            response = await self._respond(request, outcome)
        except responses.RequestError as error:
            response = responses.error_response(error.code, error.message, scope["path"])
        except ClientDisconnect:
            response = Response(status_code=_NOBODY)
        except asyncio.CancelledError:
            self._count(outcome, _NOBODY, begun)
            raise
        self._count(outcome, response.status_code, begun)
        await response(scope, receive, send)

    def _count(self, outcome: RequestOutcome, code: int, begun: float) -> None:
        outcome.code, outcome.ms = code, 1e3 * (self._clock() - begun)
        self.counts.add(outcome)
        self._told(outcome)

    async def _respond(self, request: Request, outcome: RequestOutcome) -> Response:
        path, method = request.url.path, request.method
        if path in HEALTH:
            return await self._health()
        guest = self._guest(request.headers)
        outcome.key = guest.name
        if path in ROUTES:
            if method != "POST":
                raise responses.RequestError(405, "Method Not Allowed")
            refused = self._ledger.enter(
                guest.account, most_open=guest.open, a_minute=guest.a_minute, now_s=self._clock()
            )
            if refused:
                return _later(refused, path)
            try:
                return await self._complete(request, path, guest, outcome)
            finally:
                self._ledger.leave(guest.account)
        if method not in ("GET", "HEAD") and (path, method) != (SHOW, "POST"):
            raise responses.RequestError(405 if _route(path) else 404, "Not Found")
        return self._told_of(path, guest)

    def _guest(self, headers: Headers) -> _Guest:
        if is_foreign_page(headers, named=self._keys is None):
            raise responses.RequestError(*WEB_PAGE)
        if self._keys is None:
            if host_name(headers.get("host", "")) not in LOOPBACK:
                raise responses.RequestError(*FOREIGN_HOST)
            return _Guest("", "", self._limits.open, self._limits.a_minute, (), metrics=True)
        try:
            key = self._keys.find(presented_key(headers), self._clock())
        except FastcoderError as error:
            logger.error("All requests are refused: %s", error)  # noqa: TRY400 it says all that there is
            raise responses.RequestError(503, "the keys cannot be read; see the server's log") from None
        if key is None:
            raise responses.RequestError(*(WRONG_KEY if presented_key(headers) else NO_KEY))
        return self._guest_of(key)

    def _guest_of(self, key: Key) -> _Guest:
        return _Guest(
            key.id,
            key.name,
            key.open or self._limits.open,
            key.a_minute or self._limits.a_minute,
            key.repositories,
            metrics=key.metrics,
        )

    async def _complete(self, request: Request, path: str, guest: _Guest, outcome: RequestOutcome) -> Response:
        read = ROUTES[path](await read_body(request))
        tenant = Tenant(guest.account, _named(request.headers, WORKSPACE), guest.repositories)
        named = _named(request.headers, DOCUMENT) or read.form.filename
        answers, headers = list[InfillAnswer](), dict[str, str]()
        for ask in read.requests:
            place = place_of(tenant.key, tenant.workspace, named or f"\0{(ask.before + ask.after)[:_HEAD]}")
            answer = await self._unless_gone(request.receive, self._answer(Call(place, tenant, ask)))
            if isinstance(answer, Refusal):
                return _later(answer, path)
            if isinstance(answer, ReplicaRefusal):
                raise responses.RequestError(answer.code, answer.message)
            self._note(outcome, answer, place)
            answers.append(answer.said)
            headers |= {REPLICA: answer.replica, HOST_MS: f"{answer.waited_ms:.1f}"}
        response = reply(read, answers, self._model)
        response.headers.update(headers)
        return response

    def _note(self, outcome: RequestOutcome, answer: ReplicaAnswer, place: str) -> None:
        outcome.replica, outcome.host_ms = answer.replica, outcome.host_ms + answer.waited_ms
        counts = answer.said.completion.counts
        outcome.tokens += counts.tokens
        outcome.prefilled += counts.prefilled
        outcome.reused += counts.reused
        outcome.empty = not answer.said.text
        outcome.again = self.counts.seen(place, answer.replica)

    async def _unless_gone(
        self, receive: Receive, answering: Awaitable[ReplicaAnswer | ReplicaRefusal | Refusal]
    ) -> ReplicaAnswer | ReplicaRefusal | Refusal:
        """Await the answer; if the client hangs up first, cancel the work."""
        answer = asyncio.ensure_future(answering)
        listening = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await asyncio.wait((answer, listening), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ClientDisconnect
            return answer.result()
        finally:
            for task in (answer, listening):
                if not task.done():
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

    async def _health(self) -> Response:
        # Requests without a key come here, too: all of them together take one place beside those of the keys.
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._can_answer())
        if await asyncio.shield(self._looking):
            return responses.json_response({"status": "ok"})
        return responses.error_response(503, "no replica is available", HEALTH[0])

    def _told_of(self, path: str, guest: _Guest) -> Response:
        if path == "/metrics":
            if not guest.metrics:
                raise responses.RequestError(403, "this key may not read the metrics")
            return PlainTextResponse(self.counts.text(), media_type="text/plain; version=0.0.4")
        pages = Pages(self._model, self._started, self._context_tokens, guest.open)
        return responses.json_response(pages.show() if path == SHOW else pages.page(path))


def _route(path: str) -> str:
    known = (*ROUTES, *HEALTH, *PAGES, SHOW, "/metrics")
    return path if path in known else ""


def _named(headers: Headers, name: str) -> str:
    value = headers.get(name, "")
    if len(value) > _NAME:
        raise responses.RequestError(400, f"{name} is longer than {_NAME} characters")
    return value


def _later(refusal: Refusal, path: str) -> Response:
    response = responses.error_response(429, refusal.message, path)
    response.headers["retry-after"] = str(refusal.after_s)
    return response
