"""JSON-RPC 2.0 with one client: finds the handler, runs it, cancels it, and sends what comes of it.

Owns the rule that every request is answered exactly once, whatever it holds and whatever happens. Lives on the event
loop's thread. Knows nothing of what the methods mean but those of a session's life: `shutdown`, `exit`, and that
`initialize` comes first.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from fastcoder_lsp.lsp.rpc_errors import (
    CancelledError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    NotInitializedError,
    ParseError,
    RpcError,
)
from fastcoder_lsp.lsp.types import NOTIFICATIONS, PARAMS
from fastcoder_lsp.lsp.wire import BrokenMessageError, Writer, parse

logger = logging.getLogger(__name__)

VERSION: Final = "2.0"

Id = int | str
Handler = Callable[[Any], Any]
"""Takes a method's params, of the protocol's type where it has one. What it does up to its first `await` is done before
the client's next message is looked at."""
OnResult = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question to the client that it has not answered yet."""

    method: str
    on_result: OnResult


class Endpoint:
    """One connection to a client. `initialized` is set by whoever handles `initialize`.

    Args:
        writer: where messages go.
    """

    initialized = False

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._handlers: dict[str, Handler] = {}
        self._open: dict[Id, asyncio.Future[Any]] = {}
        self._asked: dict[Id, _Asked] = {}
        self._shut_down = False

    @property
    def shut_down(self) -> bool:
        """Whether the client has asked for the end."""
        return self._shut_down

    def handle(self, method: str, handler: Handler) -> None:
        """From now on `handler` takes a method: a function, or a coroutine function."""
        self._handlers[method] = handler

    def receive(self, body: bytes) -> None:
        """Handle one message of the client's; never raises for what it holds.

        A coroutine that it starts takes its first step at the event loop's next turn.
        """
        try:
            message = parse(body)
        except BrokenMessageError as error:
            self._refuse(None, ParseError(f"not JSON: {error}"))
            return
        message_id = _id_of(message)
        if not isinstance(message, dict) or message.get("jsonrpc") != VERSION:
            self._refuse(message_id, InvalidRequestError("not a JSON-RPC 2.0 message"))
        elif "method" not in message:
            self._on_answer(message_id, message)
        elif not isinstance(message["method"], str):
            self._refuse(message_id, InvalidRequestError("the method is no text"))
        elif "id" not in message:
            self._on_notification(message["method"], message.get("params"))
        elif message_id is None:
            self._refuse(None, InvalidRequestError("the id is neither a number nor a text"))
        elif message_id in self._open:
            self._refuse(message_id, InvalidRequestError("a request with this id is still open"))
        else:
            self._on_request(message_id, message["method"], message.get("params"))

    def notify(self, method: str, params: object) -> None:
        """Tell the client."""
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: object, on_result: OnResult) -> None:
        """Ask the client; its result is handed over before its next message is looked at. An error is logged."""
        number = str(uuid.uuid4())
        self._asked[number] = _Asked(method, on_result)
        self._send({"id": number, "method": method, "params": params})

    def cancel_all(self) -> None:
        """Answer every open request with the cancel error; nobody waits for the client's answers any longer."""
        self._asked.clear()
        for future in tuple(self._open.values()):
            future.cancel()

    # Messages of each kind ----------------------------------------------------------------------------------------

    def _on_request(self, request_id: Id, method: str, params: object) -> None:
        try:
            self._admit(method)
            result = self._handler(method)(_typed(method, params))
        except Exception as error:  # noqa: BLE001 the boundary: it is answered, and logged where it is ours
            self._fail(request_id, error)
            return
        if asyncio.iscoroutine(result):
            self._begin(request_id, result)
        else:
            self._answer(request_id, result)

    def _handler(self, method: str) -> Handler:
        handler = self._shutdown if method == "shutdown" else self._handlers.get(method)
        if handler is None or method in NOTIFICATIONS:
            raise MethodNotFoundError(f"Method Not Found: {method}")
        return handler

    def _begin(self, request_id: Id, made: Coroutine[Any, Any, Any]) -> None:
        future = asyncio.ensure_future(made)
        self._open[request_id] = future
        future.add_done_callback(partial(self._made, request_id))

    def _made(self, request_id: Id, future: asyncio.Future[Any]) -> None:
        if self._open.get(request_id) is future:
            del self._open[request_id]
        if future.cancelled():
            self._refuse(request_id, CancelledError(f'Request with id "{request_id}" is canceled'))
        elif (error := future.exception()) is not None:
            self._fail(request_id, error)
        else:
            self._answer(request_id, future.result())

    def _on_notification(self, method: str, params: object) -> None:
        if method not in NOTIFICATIONS:
            logger.debug("unknown notification %s", method)
            return
        try:
            self._admit(method)
            if method == "$/cancelRequest":
                self._cancel(_id_of(params))
            elif handler := self._handlers.get(method):
                handler(_typed(method, params))
        except RpcError as error:
            logger.warning("%s was not taken: %s", method, error.message)
        except Exception:  # the boundary: a bug of ours must cost one message, not the session
            logger.exception("handling %s failed", method)

    def _cancel(self, request_id: Id | None) -> None:
        if request_id is not None and (future := self._open.pop(request_id, None)):
            future.cancel()

    def _shutdown(self, _: object) -> None:
        """Nothing is answered any longer but by the cancel error."""
        self.cancel_all()
        self._shut_down = True

    def _admit(self, method: str) -> None:
        """Raise where the protocol's life cycle does not allow a method now."""
        if method == "exit":
            return
        if self._shut_down:
            raise InvalidRequestError("the server is shutting down")
        if self.initialized and method == "initialize":
            raise InvalidRequestError("the server is initialized already")
        if not self.initialized and method != "initialize":
            raise NotInitializedError("the first request must be initialize")

    def _on_answer(self, answered: Id | None, message: dict[str, Any]) -> None:
        asked = None if answered is None else self._asked.pop(answered, None)
        if asked is None:
            logger.debug("an answer to nothing that is asked")
        elif "error" in message:
            logger.info("the client refused %s: %s", asked.method, _text_of(message["error"]))
        else:
            try:
                asked.on_result(message.get("result"))
            except Exception:  # the boundary: a bug of ours must cost one answer, not the session
                logger.exception("taking the client's answer to %s failed", asked.method)

    # What goes out ------------------------------------------------------------------------------------------------

    def _answer(self, request_id: Id, result: object) -> None:
        try:
            self._send({"id": request_id, "result": result})
        except (TypeError, ValueError) as error:  # a value that JSON cannot hold
            self._fail(request_id, error)

    def _fail(self, request_id: Id, error: BaseException) -> None:
        if not isinstance(error, RpcError):
            logger.error("a request failed", exc_info=error)
            error = InternalError.of(error)
        self._refuse(request_id, error)

    def _refuse(self, request_id: Id | None, error: RpcError) -> None:
        self._send({"id": request_id, "error": error.as_json()})

    def _send(self, message: dict[str, object]) -> None:
        self._writer.write(json.dumps({"jsonrpc": VERSION, **message}, default=msgspec.to_builtins).encode())


def _typed(method: str, params: object) -> object:
    """The params as the protocol has them; JSON where it has no type for them.

    Raises:
        InvalidParamsError: they are not.
    """
    kind = PARAMS.get(method)
    if kind is None:
        return params
    try:
        return msgspec.convert(params, kind, strict=False)
    except (
        msgspec.ValidationError,
        ValueError,
        OverflowError,
    ) as error:  # the others: of a text where a number belongs
        raise InvalidParamsError(f"wrong params for {method}") from error


def _text_of(error: object) -> str:
    """What the client's error says."""
    return str(error.get("message") if isinstance(error, dict) else error)


def _id_of(message: object) -> Id | None:
    """The id of a message; None where it has none that can be used."""
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None
