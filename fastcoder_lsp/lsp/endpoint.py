"""JSON-RPC 2.0 between the server and one client: who is called for a message, and who answers it.

Owns the rule that every request is answered exactly once, whatever it holds and whatever happens. Lives on the event
loop's thread. Knows no method by name but `$/cancelRequest`.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from cattrs import Converter
from cattrs.errors import BaseValidationError
from lsprotocol.types import LSPErrorCodes

from fastcoder_lsp.lsp.wire import BrokenMessageError, parse

logger = logging.getLogger(__name__)

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
NOT_INITIALIZED: Final = -32002
REQUEST_CANCELLED: Final = LSPErrorCodes.RequestCancelled.value

Id = int | str
Message = dict[str, Any]


class RpcError(Exception):
    """An answer that is an error; a handler raises it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Handler:
    """What is called for a method: `handle` gets the params as `params_type` (None: as they came).

    A request's `handle` returns the result, or an awaitable of it. Its synchronous part runs before the next message
    is looked at, so it sees the documents as they were when the request was sent.
    """

    handle: Callable[[Any], Any]
    params_type: type | None


@dataclass(frozen=True, slots=True)
class Question:
    """What the client was asked, and who takes its result."""

    method: str
    on_result: Callable[[Any], None]


class Endpoint:
    """One connection.

    Args:
        send: writes a message to the client.
        converter: between JSON values and the protocol's types.
        admit: asked before a method is handled; returns an error that refuses it, or None.
    """

    def __init__(
        self,
        send: Callable[[Message], None],
        converter: Converter,
        admit: Callable[[str], RpcError | None],
    ) -> None:
        self._send = send
        self._converter = converter
        self._admit = admit
        self._requests: dict[str, Handler] = {}
        self._notifications: dict[str, Handler] = {}
        self._running: dict[Id, asyncio.Task[None]] = {}
        self._asked: dict[Id, Question] = {}
        self._ids = itertools.count(1)

    def on_request(self, method: str, handle: Callable[[Any], Any], params_type: type | None = None) -> None:
        """Answer `method` by what `handle` returns."""
        self._requests[method] = Handler(handle, params_type)

    def on_notification(self, method: str, handle: Callable[[Any], None], params_type: type | None = None) -> None:
        """Call `handle` for `method`."""
        self._notifications[method] = Handler(handle, params_type)

    def notify(self, method: str, params: object) -> None:
        """Tell the client something."""
        self._send({"jsonrpc": "2.0", "method": method, "params": self._converter.unstructure(params)})

    def ask(self, method: str, params: object, on_result: Callable[[Any], None]) -> None:
        """Ask the client; its result is handed over before its next message is looked at. An error is logged."""
        ours = next(self._ids)
        self._asked[ours] = Question(method, on_result)
        self._send({"jsonrpc": "2.0", "id": ours, "method": method, "params": self._converter.unstructure(params)})

    def receive(self, body: bytes) -> None:
        """Handle one message of the client's; never raises for what it holds."""
        try:
            message = parse(body)
        except BrokenMessageError as error:
            self._refuse(None, PARSE_ERROR, f"not JSON: {error}")
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self._refuse(_id_of(message), INVALID_REQUEST, "not a JSON-RPC 2.0 message")
        elif "method" not in message:
            self._on_answer(message)
        elif not isinstance(message["method"], str):
            self._refuse(_id_of(message), INVALID_REQUEST, "the method is no text")
        elif "id" in message:
            self._on_request(message)
        else:
            self._on_notification(message)

    def cancel_all(self) -> None:
        """Answer every open request with the cancel error; nobody waits for the client's answers any longer."""
        for request_id in tuple(self._running):
            self._cancel(request_id)
        self._asked.clear()

    # Requests -----------------------------------------------------------------------------------------------------

    def _on_request(self, message: Message) -> None:
        request_id, method = _id_of(message), message["method"]
        if request_id is None:
            self._refuse(None, INVALID_REQUEST, "the id is neither a number nor a text")
            return
        if request_id in self._running:
            self._send_error(request_id, INVALID_REQUEST, "a request with this id is still open")
            return
        try:
            result = self._handle(self._requests.get(method), message)
            if isinstance(result, Awaitable):
                self._running[request_id] = asyncio.ensure_future(self._finish(request_id, method, result))
            else:
                self._answer(request_id, result)
        except RpcError as error:
            self._refuse(request_id, error.code, error.message)
        except Exception:  # the boundary: a bug of ours must cost one answer, not the session
            logger.exception("%s failed", method)
            self._refuse(request_id, INTERNAL_ERROR, f"{method} failed; the log says why")

    async def _finish(self, request_id: Id, method: str, result: Awaitable[Any]) -> None:
        try:
            self._answer(request_id, await result)
        except asyncio.CancelledError:
            self._refuse(request_id, REQUEST_CANCELLED, "cancelled")
        except RpcError as error:
            self._refuse(request_id, error.code, error.message)
        except Exception:  # the boundary, as above
            logger.exception("%s failed", method)
            self._refuse(request_id, INTERNAL_ERROR, f"{method} failed; the log says why")

    def _cancel(self, request_id: Id) -> None:
        """Cancel behind the task's first step, which is queued already: a task that never began could not answer."""
        asyncio.get_running_loop().call_soon(self._running[request_id].cancel)

    def _handle(self, handler: Handler | None, message: Message) -> Any:
        if (refusal := self._admit(message["method"])) is not None:
            raise refusal
        if handler is None:
            raise RpcError(METHOD_NOT_FOUND, f"no such method: {message['method']}")
        params = message.get("params")
        if handler.params_type is None:
            return handler.handle(params)
        try:
            structured: Any = self._converter.structure(params, handler.params_type)
        except (BaseValidationError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise RpcError(INVALID_PARAMS, f"wrong params for {message['method']}") from error
        return handler.handle(structured)

    # Notifications and answers ------------------------------------------------------------------------------------

    def _on_notification(self, message: Message) -> None:
        method = message["method"]
        if method == "$/cancelRequest":
            cancelled = _id_of(message.get("params"))
            if cancelled is not None and cancelled in self._running:
                self._cancel(cancelled)
            return
        if method not in self._notifications:
            logger.debug("unknown notification %s", method)
            return
        try:
            self._handle(self._notifications[method], message)
        except RpcError as error:
            logger.warning("%s was not taken: %s", method, error.message)
        except Exception:
            logger.exception("%s failed", method)

    def _on_answer(self, message: Message) -> None:
        answered = _id_of(message)
        asked = None if answered is None else self._asked.pop(answered, None)
        if asked is None:
            logger.debug("an answer to nothing that was asked")
        elif "error" in message:
            logger.info("the client refused %s: %s", asked.method, message["error"])
        else:
            try:
                asked.on_result(message.get("result"))
            except Exception:  # the boundary, as above
                logger.exception("taking the client's answer to %s failed", asked.method)

    def _answer(self, request_id: Id, result: object) -> None:
        message = {"jsonrpc": "2.0", "id": request_id, "result": self._converter.unstructure(result)}
        self._running.pop(request_id, None)
        self._send(message)

    def _refuse(self, request_id: Id | None, code: int, text: str) -> None:
        if request_id is not None:
            self._running.pop(request_id, None)
        self._send_error(request_id, code, text)

    def _send_error(self, request_id: Id | None, code: int, text: str) -> None:
        self._send({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}})


def _id_of(message: object) -> Id | None:
    """The id of a message (or of cancel params); None where it has none that can be used."""
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None
