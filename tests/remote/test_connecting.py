"""What can go wrong before a server has the question: its name, its port, its certificate."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastcoder_lsp.remote.client import NetworkOptions, Timeouts
from tests.remote.front import Fronts, until
from tests.remote.scripted_server import LlamaServer, Reply, Request, Serve

CERTIFICATE = Path(__file__).with_name("self_signed.pem")


def test_a_name_without_an_address(front: Fronts) -> None:
    asking = front("https://models.invalid", remote_allow="models.invalid")
    assert asking.code() == "remote-name"


def test_nobody_listens(front: Fronts) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert front(f"http://127.0.0.1:{port}").code() == "remote-refused"


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port whose queue is full: who connects hears nothing."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


def test_nobody_answers(full_port: int, front: Fronts) -> None:
    assert front(f"http://127.0.0.1:{full_port}", timeouts=Timeouts(connect_s=0.5)).code() == "remote-unreachable"


def test_a_certificate_that_nobody_trusts(serve: Serve, front: Fronts) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    server = serve(LlamaServer(lambda _: "1\n"), tls=tls)
    assert front(server.url).code() == "remote-tls"
    assert not server.requests
    trusted = NetworkOptions(lambda: "", tls=ssl.create_default_context(cafile=str(CERTIFICATE)))
    assert front(server.url, network=trusted).ask("x = ").text == "1"


def test_a_server_that_speaks_no_tls(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    assert front(server.url.replace("http:", "https:")).code() == "remote-tls"


def test_a_connection_that_was_closed_in_between_is_no_failure(serve: Serve, front: Fronts) -> None:
    """Servers close those that nobody uses, each after a while of its own."""

    def handler(request: Request) -> Reply:
        yield from LlamaServer(lambda _: "1\n")(request)
        if request.path == "/infill":
            raise OSError("closed")

    server = serve(handler)
    asking = front(server.url)
    for number in range(3):
        assert asking.ask(f"x{number} = call(", "y)\n").text == "1"
        until(lambda number=number: server.hung_up > number)  # type: ignore[misc]
