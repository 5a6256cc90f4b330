"""The server's routes: each reads a form, asks a session, and writes a reply."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from fastcoder_lsp.completion.status import Statistics
from fastcoder_lsp.http.guard import AccessRules, Guard, read_body, wait_for_disconnect
from fastcoder_lsp.http.infill import InfillAnswer, InfillRequest, answer_of
from fastcoder_lsp.http.pages import HEALTH, PAGES, SHOW, Pages
from fastcoder_lsp.http.responses import RequestError, error_response, json_response
from fastcoder_lsp.http.routes import HEADERS, ROUTES, EventStream, ReadForm, reply
from fastcoder_lsp.http.sessions import LARGE, DisconnectedError, SessionPool

_COUNTERS = {
    "requests": "Requests.",
    "shown": "Requests answered with a suggestion from the model.",
    "typed_through": "Requests answered from an earlier suggestion.",
    "empty": "Requests answered without a suggestion.",
    "cancelled": "Requests whose client disconnected.",
    "failed": "Requests that failed.",
    "steps": "Forward passes.",
    "tokens": "Tokens produced by forward passes.",
    "accepted_drafts": "Drafted tokens among them.",
    "prefilled": "Prompt tokens computed.",
    "reused": "Prompt tokens found in the KV cache.",
}


def metrics_text(statistics: Sequence[Statistics], busy: int) -> str:
    """The page `/metrics`; `busy`: requests in progress."""
    resident = max((one.resident_bytes for one in statistics), default=0)
    metrics = [
        *(
            (f"{name}_total", "counter", about, sum(int(getattr(one, name)) for one in statistics))
            for name, about in _COUNTERS.items()
        ),
        ("requests_processing", "gauge", "Requests in progress.", busy),
        ("resident_bytes", "gauge", "Memory of the process that runs the model.", resident),
    ]
    return "".join(
        f"# HELP fastcoder_{name} {about}\n# TYPE fastcoder_{name} {kind}\nfastcoder_{name} {value}\n"
        for name, kind, about, value in metrics
    )


ANSWER_S = 120.0  # how long an answer may take, including loading the model
_CLIENT_CLOSED = 499  # the status logged for a request whose client disconnected


def make_app(sessions: SessionPool, rules: AccessRules, context_tokens: int, answer_s: float = ANSWER_S) -> ASGIApp:
    """The ASGI application. `context_tokens`: the longest prompt, for `/props`; `answer_s`: the limit of an answer."""
    server = _Routes(sessions, context_tokens, answer_s)
    routes = [
        *(Route(path, server.complete, methods=["POST"]) for path in ROUTES),
        *(Route(path, server.page) for path in PAGES),
        Route(SHOW, server.show, methods=["POST"]),
        *(Route(path, server.health) for path in HEALTH),
        Route("/metrics", server.metrics),
    ]
    handlers = {
        RequestError: _refused,
        HTTPException: _unknown,
        DisconnectedError: _disconnected,
        ClientDisconnect: _disconnected,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False  # a redirect behind a proxy would send body and key unencrypted
    return Guard(app, rules)


class _Routes:
    def __init__(self, sessions: SessionPool, context_tokens: int, answer_s: float) -> None:
        self._sessions, self._context_tokens, self._answer_s = sessions, context_tokens, answer_s
        self._started = int(time.time())

    async def complete(self, request: Request) -> Response:
        body, read = await read_body(request), ROUTES[request.scope["path"]]
        form = await asyncio.to_thread(read, body) if len(body) > LARGE else read(body)
        if form.form.streams:
            return await self._stream(request, form)
        return reply(form, await self._answers(request, form.requests), self._model())

    async def _stream(self, request: Request, read: ReadForm) -> Response:
        """The response that sends events as they come; an error before the first one has its own status."""
        events, how = asyncio.Queue[bytes | Exception | None](), read.reply(self._model())
        stream = EventStream(how, events.put_nowait)

        async def answer() -> None:
            try:
                stream.end(await self._answers(request, read.requests, stream))
            except Exception as error:  # noqa: BLE001 the response raises or reports it
                events.put_nowait(error)
            finally:
                events.put_nowait(None)

        answering = asyncio.create_task(answer())

        async def chunks() -> AsyncIterator[bytes]:
            event: bytes | Exception | None = first
            try:
                while isinstance(event, bytes):
                    yield event
                    event = await events.get()
                if isinstance(event, RequestError):
                    yield how.frame(how.error(event.code, event.message))
            finally:
                answering.cancel()

        try:
            first = await events.get()
        except asyncio.CancelledError:
            answering.cancel()
            raise
        if isinstance(first, Exception):
            raise first
        return StreamingResponse(chunks(), 200, HEADERS, how.media)

    async def page(self, request: Request) -> Response:
        return json_response(self._pages().page(request.scope["path"]))

    async def show(self, _: Request) -> Response:
        return json_response(self._pages().show())

    async def health(self, request: Request) -> Response:
        status, path = self._sessions.status, request.scope["path"]
        if status.state == "error":
            return error_response(500, status.message, path)
        if status.state in ("starting", "loading"):
            return error_response(503, "Loading model", path)
        return json_response({"status": "ok"})

    async def metrics(self, _: Request) -> Response:
        text = metrics_text(self._sessions.statistics(), self._sessions.busy)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    def _model(self) -> str:
        return self._sessions.statistics()[0].model or "fastcoder-lsp"

    def _pages(self) -> Pages:
        return Pages(self._model(), self._started, self._context_tokens, self._sessions.max_sessions)

    async def _answers(
        self, request: Request, infills: Sequence[InfillRequest], stream: EventStream | None = None
    ) -> list[InfillAnswer]:
        """The answers, one after another, told to `stream` as they come; a client that disconnects cancels them."""
        disconnected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        listening = asyncio.create_task(_watch_disconnect(disconnected, request))
        answers = list[InfillAnswer]()
        try:
            async with asyncio.timeout(self._answer_s):
                for index, infill in enumerate(infills):
                    on_text = partial(stream.grew, index) if stream is not None and infill.raw is not None else None
                    answers.append(answer_of(infill, await self._sessions.answer(infill, disconnected, on_text)))
                    if stream is not None:
                        stream.ended(index, answers[-1])
                return answers
        except TimeoutError:
            raise RequestError(504, f"no answer within {self._answer_s:.0f} s") from None
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening


async def _watch_disconnect(disconnected: "asyncio.Future[None]", request: Request) -> None:
    await wait_for_disconnect(request.receive)
    if not disconnected.done():
        disconnected.set_result(None)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error.code, error.message, request.scope["path"])


def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, str(error.detail), request.scope["path"])


def _disconnected(_: Request, __: Exception) -> Response:
    return Response(status_code=_CLIENT_CLOSED)
