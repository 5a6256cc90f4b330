"""JSON-RPC 2.0 with one client, as pygls does it, and what its protocol leaves open and an editor relies on.

Owns the rule that every request is answered exactly once, whatever it holds and whatever happens: what pygls would
drop is answered here, before pygls sees it. pygls finds the handler, runs it, cancels it and sends what comes of it.
Lives on the event loop's thread.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from cattrs import Converter
from lsprotocol import converters, types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
    JsonRpcUnknownErrorCode,
)
from pygls.protocol import JsonRPCNotification, JsonRPCRequestMessage, JsonRPCResponseMessage, LanguageServerProtocol

from fastcoder_lsp.lsp.wire import BrokenMessageError, parse

logger = logging.getLogger(__name__)

_UNTYPED: Final = frozenset((types.INITIALIZE, types.INITIALIZED, types.SHUTDOWN, types.EXIT))
"""The life of a session must not hang on a value that a later protocol brings: these params come as they are."""

OWN_NOTIFICATIONS: Final = frozenset(("fastcoder/definitions", "fastcoder/yanked"))
"""Methods of ours that are answered by nothing; all others of ours are requests."""

Id = int | str
Message = dict[str, Any]


class Endpoint(LanguageServerProtocol):
    """One connection to a client. `initialized` is set by whoever handles `initialize`."""

    initialized = False

    @property
    def shut_down(self) -> bool:
        """Whether the client has asked for the end."""
        return self._shutdown

    def receive(self, body: bytes) -> None:
        """Handle one message of the client's; never raises for what it holds.

        A coroutine that it starts takes its first step at the event loop's next turn.
        """
        try:
            message = parse(body)
        except BrokenMessageError as error:
            self._reject(None, JsonRpcParseError(f"not JSON: {error}"))
            return
        message_id = _id_of(message)
        if not isinstance(message, dict) or message.get("jsonrpc") != self.VERSION:
            self._reject(message_id, JsonRpcInvalidRequest("not a JSON-RPC 2.0 message"))
        elif "method" not in message:
            self._on_response(message_id, message)
        elif not isinstance(message["method"], str):
            self._reject(message_id, JsonRpcInvalidRequest("method must be a string"))
        elif "id" not in message:
            self._on_notification(message["method"], message.get("params"))
        elif message_id is None:
            self._reject(None, JsonRpcInvalidRequest("id must be a number or a string"))
        elif message_id in self._request_futures:  # pygls would forget the first
            self._reject(message_id, JsonRpcInvalidRequest("a request with this id is still open"))
        else:
            self._on_request(message_id, message["method"], message.get("params"))

    def ask(self, method: str, params: object, on_result: Callable[[Any], None]) -> None:
        """Ask the client; its result is handed over before its next message is looked at. An error is logged."""
        self.send_request(method, params).add_done_callback(partial(_deliver_result, method, on_result))

    def cancel_all(self) -> None:
        """Cancel all open requests: the client's, which get the cancel error, and the server's own."""
        for future in tuple(self._request_futures.values()):
            future.cancel()

    # What pygls asks its subclasses -------------------------------------------------------------------------------

    def _register_builtin_features(self) -> None:
        """Register `shutdown` alone of pygls' own handlers.

        Those of documents keep a second copy of every text, with lines by `str.splitlines`; that of `initialize`
        wants params of this year's protocol; that of `exit` ends the process from within the loop.
        """
        self.fm.add_builtin_feature(types.SHUTDOWN, self.lsp_shutdown)

    def get_message_type(self, method: str) -> type[Any] | None:  # type: ignore[override] # pygls' has a cache
        """Params get the protocol's type where a handler wants it; all else stays JSON."""
        wanted = method == types.CANCEL_REQUEST or (method in self.fm.features and method not in _UNTYPED)
        return super().get_message_type(method) if wanted else None

    def get_result_type(self, _method: str) -> None:  # type: ignore[override] # pygls' has a cache
        """The client's answers are read by hand: one of the wrong type would be no answer at all."""
        return

    # Messages of each kind ----------------------------------------------------------------------------------------

    def _on_request(self, request_id: Id, method: str, params: object) -> None:
        try:
            self._check_life_cycle(method)
            if _is_notification(method):  # pygls would take it for one, and answer nothing
                raise JsonRpcMethodNotFound.of(method)
            self._dispatch({"jsonrpc": self.VERSION, "id": request_id, "method": method, "params": params})
        except JsonRpcException as error:
            self._reject(request_id, error)

    def _on_notification(self, method: str, params: object) -> None:
        if not _is_notification(method):
            logger.debug("unknown notification %s", method)
            return
        try:
            self._check_life_cycle(method)
            self._dispatch({"jsonrpc": self.VERSION, "method": method, "params": params})
        except JsonRpcException as error:
            logger.warning("ignored %s: %s", method, error.message)

    def _dispatch(self, message: Message) -> None:
        try:
            structured = self.structure_message(message)
        except JsonRpcException as error:
            raise JsonRpcInvalidParams(f"wrong params for {message['method']}") from error
        self.handle_message(structured)

    def _check_life_cycle(self, method: str) -> None:
        """Raise where the protocol's life cycle does not allow a method now."""
        if method == types.EXIT:
            return
        if self._shutdown:
            raise JsonRpcInvalidRequest("the server is shutting down")
        if self.initialized and method == types.INITIALIZE:
            raise JsonRpcInvalidRequest("the server is initialized already")
        if not self.initialized and method != types.INITIALIZE:
            raise JsonRpcServerNotInitialized("the first request must be initialize")

    def _on_response(self, response_id: Id | None, message: Message) -> None:
        if self._shutdown or response_id is None or response_id not in self._result_types:
            logger.debug("a response to no open request")  # pygls cancelled what was asked before `shutdown`
            return
        del self._result_types[response_id]  # pygls keeps it where the answer is an error
        if "error" in message:
            self._handle_response(response_id, error=_error_of(message["error"]))
        else:
            self._handle_response(response_id, message.get("result"))

    def _reject(self, request_id: Id | None, error: JsonRpcException) -> None:
        """Not by `_send_response`, which leaves the id out where there is none to answer to."""
        self._send_data({"jsonrpc": self.VERSION, "id": request_id, "error": error.to_response_error()})


def make_converter() -> Converter:
    """Between JSON and the protocol's types; what has none stays JSON (pygls makes named tuples of it)."""
    converter = converters.get_converter()
    for plain in (JsonRPCRequestMessage, JsonRPCNotification, JsonRPCResponseMessage):
        converter.register_structure_hook(plain, lambda value, kind: kind(**value))
    return converter


def _is_notification(method: str) -> bool:
    """Whether the protocol knows the method as one, or it is one of ours."""
    if method in OWN_NOTIFICATIONS:
        return True
    _, result, *_ = types.METHOD_TO_TYPES.get(method, (None, object))
    return result is None


def _deliver_result(method: str, on_result: Callable[[Any], None], future: Future[Any]) -> None:
    if future.cancelled():
        return
    error = future.exception()
    if error is not None:
        logger.info("the client refused %s: %s", method, error)
        return
    try:
        on_result(future.result())
    except Exception:  # the boundary: a bug of ours must cost one answer, not the session
        logger.exception("taking the client's answer to %s failed", method)


def _error_of(error: object) -> types.ResponseError:
    """The client's error, of which only the text is of use."""
    text = error.get("message") if isinstance(error, dict) else error
    return types.ResponseError(JsonRpcUnknownErrorCode.CODE, str(text))


def _id_of(message: object) -> Id | None:
    """The id of a message; None where it has none that can be used."""
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None
