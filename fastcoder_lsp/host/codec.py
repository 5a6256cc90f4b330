"""Messages as bytes, and bytes as messages."""

import operator
from typing import Any

import msgspec

from fastcoder_lsp.host.front_messages import FromFront
from fastcoder_lsp.host.host_messages import FromHost
from fastcoder_lsp.host.messages import Message, ProtocolError


class Codec:
    """Messages as bytes, and bytes as messages. Making one compiles the types: once a process is enough."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder(enc_hook=operator.index)  # numpy's integers
        self._front: msgspec.msgpack.Decoder[FromFront] = msgspec.msgpack.Decoder(FromFront)
        self._host: msgspec.msgpack.Decoder[FromHost] = msgspec.msgpack.Decoder(FromHost)

    def encode(self, message: Message) -> bytes:
        """As bytes."""
        return self._encoder.encode(message)

    def from_front(self, data: bytes) -> FromFront:
        """What a front said.

        Raises:
            ProtocolError: it is no message.
        """
        message: FromFront = _decoded(self._front, data)
        return message

    def from_host(self, data: bytes) -> FromHost:
        """What the host said.

        Raises:
            ProtocolError: it is no message.
        """
        message: FromHost = _decoded(self._host, data)
        return message


def _decoded(decoder: "msgspec.msgpack.Decoder[Any]", data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"no message: {type(error).__name__}") from error
