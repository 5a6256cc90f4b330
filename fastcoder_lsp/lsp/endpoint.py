"""JSON-RPC 2.0 with one client: pygls, and what editors rely on beyond it.

Every request is answered exactly once, whatever it contains: messages that pygls would drop are answered here first.
pygls finds the handler, runs it, cancels it and sends the result. Lives on the event loop's thread.
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

from fastcoder_lsp.lsp.known_clients import at
from fastcoder_lsp.lsp.repairs import Repairs
from fastcoder_lsp.lsp.wire import MAX_BODY, BrokenMessageError, LongMessage, changed_document, parse

logger = logging.getLogger(__name__)

_WIDEST_TAB: Final = 16
_UNTYPED: Final = frozenset((types.INITIALIZE, types.INITIALIZED, types.SHUTDOWN, types.EXIT))
"""A session's life must not depend on a value of a later protocol: these params stay plain JSON."""

_CHANGES: Final = frozenset(
    (types.TEXT_DOCUMENT_DID_OPEN, types.TEXT_DOCUMENT_DID_CHANGE, types.NOTEBOOK_DOCUMENT_DID_CHANGE)
)

OWN_NOTIFICATIONS: Final = frozenset(
    (
        *("fastcoder/cursor", "fastcoder/definitions", "fastcoder/yanked"),
        *("fastcoder/editRejected", "textDocument/didShowInlineEdit", "textDocument/didFocus"),
    )
)
"""Notifications that the protocol does not have; all our other methods are requests."""

Id = int | str
Message = dict[str, Any]


class Endpoint(LanguageServerProtocol):
    """One connection to a client. The handler of `initialize` sets `initialized`, and the documents of `repairs`."""

    initialized = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.repairs = Repairs()

    @property
    def shut_down(self) -> bool:
        """Whether the client has requested `shutdown`."""
        return self._shutdown

    def receive(self, body: bytes | LongMessage) -> None:
        """Handle one message of the client; never raises because of its content.

        A coroutine that it starts takes its first step at the event loop's next turn.
        """
        if isinstance(body, LongMessage):
            said = f"a message of {body.length / 1e6:,.0f} MB is longer than {MAX_BODY / 1e6:,.0f} MB and was not read"
            logger.error("%s", said)
            self._lose_change(body.changed)
            self._reject(body.request_id, JsonRpcInvalidRequest(said))
            return
        try:
            message = parse(body)
        except BrokenMessageError as error:
            self._lose_change(changed_document(body))
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
        elif message_id in self._request_futures:  # pygls would forget the first one
            self._reject(message_id, JsonRpcInvalidRequest("a request with this id is still open"))
        else:
            self._on_request(message_id, message["method"], message.get("params"))

    def ask(self, method: str, params: object, on_result: Callable[[Any], None]) -> None:
        """Send a request; `on_result` gets its result before the client's next message is handled. Logs errors."""
        self.send_request(method, params).add_done_callback(partial(_deliver_result, method, on_result))

    def cancel_all(self) -> None:
        """Cancel all open requests: the client's, which get the cancel error, and the server's own."""
        for future in tuple(self._request_futures.values()):
            future.cancel()

    # pygls' hooks -----------------------------------------------------------------------------------------------------

    def _register_builtin_features(self) -> None:
        """Register only `shutdown` of pygls' own handlers.

        Its document handlers keep a second copy of every text, with lines by `str.splitlines`; its handler of
        `initialize` requires params of the current protocol; its handler of `exit` ends the process from within the
        loop.
        """
        self.fm.add_builtin_feature(types.SHUTDOWN, self.lsp_shutdown)

    def get_message_type(self, method: str) -> type[Any] | None:  # type: ignore[override] # pygls' has a cache
        """The protocol's type for params that a handler takes; other params stay JSON."""
        wanted = method == types.CANCEL_REQUEST or (method in self.fm.features and method not in _UNTYPED)
        return super().get_message_type(method) if wanted else None

    def get_result_type(self, _method: str) -> None:  # type: ignore[override] # pygls' has a cache
        """None: the client's answers stay JSON, because one of the wrong type would be dropped."""
        return

    # Messages of each kind ----------------------------------------------------------------------------------------

    def _on_request(self, request_id: Id, method: str, params: object) -> None:
        try:
            self._check_life_cycle(method)
            if _is_notification(method):  # pygls would treat it as one and never answer
                raise JsonRpcMethodNotFound.of(method)
            self._dispatch({"jsonrpc": self.VERSION, "id": request_id, "method": method, "params": params})
        except JsonRpcException as error:
            self._reject(request_id, error)

    def _on_notification(self, method: str, params: object) -> None:
        if method == types.WORKSPACE_EXECUTE_COMMAND:
            self._on_command(params)
            return
        if not _is_notification(method):
            logger.debug("unknown notification %s", method)
            return
        try:
            self._check_life_cycle(method)
            self._dispatch({"jsonrpc": self.VERSION, "method": method, "params": params})
        except JsonRpcException as error:
            logger.warning("ignored %s: %s", method, error.message)
            if method in _CHANGES:
                uri = at(params, "textDocument", "uri")
                self._lose_change(uri if isinstance(uri, str) else "")

    def _lose_change(self, uri: str | None) -> None:
        """A change of a document was not read: its copy, or every copy for "", is no longer the editor's text."""
        if uri is not None and self.repairs.documents is not None:
            logger.error("a change of %s was not read; close it and open it again", uri or "an open document")
            self.repairs.documents.lose_change(uri)

    def _on_command(self, params: object) -> None:
        """Run a command that the client sends as a notification, as copilot.el does."""
        try:
            self._check_life_cycle(types.WORKSPACE_EXECUTE_COMMAND)
            known = self._converter.structure(params, types.ExecuteCommandParams)
        except Exception as error:  # noqa: BLE001 converters raise many kinds for what a client may send
            logger.warning("ignored %s: %s", types.WORKSPACE_EXECUTE_COMMAND, error)
            return
        message = JsonRPCNotification(types.WORKSPACE_EXECUTE_COMMAND, self.VERSION, known)
        self.handle_message(message)

    def _dispatch(self, message: Message) -> None:
        self.repairs.repair(message["method"], message["params"])
        try:
            structured = self.structure_message(message)
        except JsonRpcException as error:
            raise JsonRpcInvalidParams(f"wrong params for {message['method']}") from error
        self.handle_message(structured)

    def _check_life_cycle(self, method: str) -> None:
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
            logger.debug("a response to no open request")  # pygls cancelled the requests before `shutdown`
            return
        del self._result_types[response_id]  # pygls keeps it if the answer is an error
        if "error" in message:
            self._handle_response(response_id, error=_error_of(message["error"]))
        else:
            self._handle_response(response_id, message.get("result"))

    def _reject(self, request_id: Id | None, error: JsonRpcException) -> None:
        """Send an error with a null id too; `_send_response` would omit the id."""
        self._send_data({"jsonrpc": self.VERSION, "id": request_id, "error": error.to_response_error()})


def make_converter() -> Converter:
    """Between JSON and the protocol's types; values without one stay JSON (pygls makes named tuples of them)."""
    converter = converters.get_converter()
    for plain in (JsonRPCRequestMessage, JsonRPCNotification, JsonRPCResponseMessage):
        converter.register_structure_hook(plain, lambda value, kind: kind(**value))
    structure = converter.get_structure_hook(types.InlineCompletionParams)

    def with_options(value: dict[str, Any], kind: type[types.InlineCompletionParams]) -> types.InlineCompletionParams:
        params = structure(value, kind)
        options = value.get("formattingOptions")
        return WithFormattingOptions(params, options) if isinstance(options, dict) else params

    converter.register_structure_hook(types.InlineCompletionParams, with_options)
    return converter


class WithFormattingOptions(types.InlineCompletionParams):
    """Params with the `formattingOptions` of Copilot's form of the request, which the protocol does not have.

    `indentation`: one level, "" where the options are malformed.
    """

    def __init__(self, params: types.InlineCompletionParams, options: dict[str, Any]) -> None:
        super().__init__(params.context, params.text_document, params.position, params.work_done_token)
        columns, spaces = options.get("tabSize"), options.get("insertSpaces")
        self.indentation = "\t" if spaces is False else ""
        if spaces is True and isinstance(columns, int) and 0 < columns <= _WIDEST_TAB:
            self.indentation = " " * columns


def _is_notification(method: str) -> bool:
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
    except Exception:  # a bug must cost one answer, not the session
        logger.exception("taking the client's answer to %s failed", method)


def _error_of(error: object) -> types.ResponseError:
    """The client's error; only its text is used."""
    text = error.get("message") if isinstance(error, dict) else error
    return types.ResponseError(JsonRpcUnknownErrorCode.CODE, str(text))


def _id_of(message: object) -> Id | None:
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None
