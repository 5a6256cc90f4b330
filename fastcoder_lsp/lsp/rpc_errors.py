"""Errors that a request is answered with, by the codes of JSON-RPC and of the protocol."""

import traceback
from typing import ClassVar, Final


class RpcError(Exception):
    """An answer that is an error.

    Attributes:
        CODE: of JSON-RPC.
        message: what the client is told.
        data: more for a log, as JSON.
    """

    CODE: ClassVar = -32603

    def __init__(self, message: str, data: object = None) -> None:
        super().__init__(message)
        self.message: Final = message
        self.data: Final = data

    def as_json(self) -> dict[str, object]:
        """The `error` of an answer."""
        return {"code": self.CODE, "message": self.message} | ({} if self.data is None else {"data": self.data})


class ParseError(RpcError):
    """The message is no JSON."""

    CODE = -32700


class InvalidRequestError(RpcError):
    """The message is no request, or none that is allowed now."""

    CODE = -32600


class MethodNotFoundError(RpcError):
    """Nobody handles the method."""

    CODE = -32601


class InvalidParamsError(RpcError):
    """The params are not what the method takes."""

    CODE = -32602


class InternalError(RpcError):
    """A handler failed: a fault of ours."""

    @classmethod
    def of(cls, error: BaseException) -> "InternalError":
        """What is told of an exception."""
        return cls(
            "".join(traceback.format_exception_only(error)).strip(),
            {"traceback": traceback.format_tb(error.__traceback__)},
        )


class NotInitializedError(RpcError):
    """A request before `initialize`."""

    CODE = -32002


class CancelledError(RpcError):
    """The client wants no answer any longer."""

    CODE = -32800
