"""The servers of these tests themselves: what is no whole request is nobody's."""

import socket

import pytest

from tests.remote.scripted_server import LlamaServer, Serve

HEAD = b"POST /infill HTTP/1.1\r\ncontent-length: 20\r\n\r\n"


@pytest.mark.parametrize("sent", [HEAD, HEAD + b'{"prompt":', HEAD[:-2], HEAD[:30], HEAD[:4]])
def test_who_hangs_up_within_a_request_has_asked_nothing(serve: Serve, sent: bytes) -> None:
    """A client sends the head and the body by themselves, and may be cancelled between them."""
    server = serve(LlamaServer(lambda _: "never"))
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert not server.requests
