"""A server, a proxy or the way there fails in each way that there is: each has its reason, and what to do about it."""

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fastcoder_lsp.config.remote_access import read_remote_key
from fastcoder_lsp.core.reason_codes import CODES
from fastcoder_lsp.remote import failures
from fastcoder_lsp.remote.client import NetworkOptions, Timeouts
from tests.opened import until
from tests.remote.faulty import (
    PAGE,
    PIECE,
    SOON,
    Faulty,
    drips_no_more,
    ends_before_its_end,
    half_a_header,
    half_a_stream,
    says,
    silent,
)
from tests.remote.front import Front, Fronts
from tests.remote.scripted_server import (
    LlamaServer,
    Reply,
    Request,
    Serve,
    as_json,
    chunk,
    event,
    events_head,
    response,
)

FAULTS: dict[str, tuple[str, Callable[[Request], Reply]]] = {
    "401": ("remote-key", says(as_json({"error": {"message": "Invalid API key"}}, 401))),
    "403": ("remote-forbidden", says(as_json({"error": "no"}, 403))),
    "404, wrong model": ("remote-model", says(as_json({"error": {"message": "The model `x` does not exist."}}, 404))),
    "400": ("remote-rejected", says(as_json({"message": "bad"}, 400))),
    "501": ("remote-rejected", says(as_json({"error": {"message": "Infill is not supported by this model"}}, 501))),
    "429": ("remote-busy", says(as_json({}, 429))),
    "503 with Retry-After": ("remote-busy", says(response(503, b"{}", Retry_After="7"))),
    "500": ("remote-broken", says(as_json({}, 500))),
    "502, HTML": ("remote-broken", says(response(502, b"<html>Bad Gateway</html>", "text/html"))),
    "an error in the stream": ("remote-broken", says(events_head() + event(PIECE) + chunk(b'error: {"code":500}\n\n'))),
    "a redirection": ("remote-moved", says(response(307, b"", Location="https://attacker.example/"))),
    "407": ("remote-page", says(response(407, b"", "text/html"))),
    "HTML of a proxy": ("remote-page", says(PAGE)),
    "JSON that is none": ("remote-page", says(response(200, b"{"))),
    "an event that is none": ("remote-page", says(events_head() + event(b"<html>"))),
    "half a stream": ("remote-cut", half_a_stream),
    "a stream without its end": ("remote-cut", ends_before_its_end),
    "half a header": ("remote-cut", half_a_header),
    "no HTTP": ("remote-cut", says(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")),
    "silence": ("remote-silent", silent),
    "silence in the middle": ("remote-silent", drips_no_more),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_reason(serve: Serve, front: Fronts, fault: str) -> None:
    code, handler = FAULTS[fault]
    server = serve(Faulty(handler))
    asking = front(server.url, timeouts=SOON if code == "remote-silent" else None)
    completion = asking.ask("x = ")
    assert completion.reason is not None
    assert (completion.reason.code, completion.finish) == (code, "error")
    assert code in CODES
    assert completion.reason.hint
    assert "127.0.0.1" in completion.reason.text
    last = asking.statuses[-1]
    assert (last.state, last.message) == ("error", completion.reason.text)
    server.handler = LlamaServer(lambda _: "1\n")
    if code != "remote-busy":  # that asks for time
        until(lambda: asking.ask("y = ").text == "1")


def test_the_page_tells_of_every_reason() -> None:
    page = (Path(__file__).parents[2] / "docs" / "remote.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(remote-[a-z]+)` \|", page, re.MULTILINE))
    assert told == {code for code in CODES if code.startswith("remote-")}
    source = (Path(failures.__file__).parent / "failures.py").read_text(encoding="utf-8")
    target = (Path(failures.__file__).parent / "target.py").read_text(encoding="utf-8")
    assert told == set(re.findall(r'"(remote-[a-z]+)"', source + target))


def test_what_a_server_says_of_itself_is_shown_short(serve: Serve, front: Fronts) -> None:
    server = serve(Faulty(says(as_json({"error": {"message": "\x1b[31mno\n\n" + "long " * 900}}, 403))))
    reason = front(server.url).reason("x = ")
    assert "no long long" in reason.text
    assert reason.text.isprintable()
    assert len(reason.text) < 300


def test_a_key_is_sent_and_read_anew(serve: Serve, front: Fronts, tmp_path: Path) -> None:
    right = "sk-" + "a" * 30

    def guarded(request: Request) -> Reply:
        if request.headers.get("authorization") == f"Bearer {right}":
            return LlamaServer(lambda _: "1\n")(request)
        return iter([as_json({}, 401)])

    server, file = serve(guarded), tmp_path / "key"
    file.write_text("sk-wrong\n")
    file.chmod(0o600)
    keyed = {"remote_key_file": str(file)}
    asking: Front = front(server.url, network=NetworkOptions(lambda: read_remote_key(asking.settings)), **keyed)
    assert asking.code() == "remote-key"
    file.write_text(f"{right}\n")
    assert asking.ask("x = ").text == "1"
    file.chmod(0o644)
    assert asking.code("y = ") == "remote-key"
    assert len([one for one in server.requests if one.headers.get("authorization") is None]) == 0


def test_events_in_pieces_are_events(serve: Serve, front: Fronts) -> None:
    text = b': hello\r\n\r\ndata: {"content": "1", "stop": false}\r\n\r\ndata: {"content": "\\n", "stop": true}\n\n'
    whole = [b"data: \n\n" + text, *(text[at : at + 1] for at in range(len(text)))]
    for pieces in (whole[:1], whole[1:]):
        server = serve(Faulty(says(events_head() + b"".join(map(chunk, pieces)))))
        assert front(server.url).ask("y = ").text == "1"


def test_faults_one_after_the_other_leave_nothing_behind(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    asking = front(server.url)
    assert asking.ask("begin = ").text == "1"
    before = threading.active_count()
    quick = [handler for _, handler in FAULTS.values() if handler not in {silent, drips_no_more}]
    for number in range(3 * len(quick)):
        server.handler = Faulty(quick[number % len(quick)])
        asking.service.reload()
        asking.code(f"x{number} = ")
    server.handler = LlamaServer(lambda _: "1\n")
    asking.service.reload()
    assert asking.ask("end = ").text == "1"
    until(lambda: threading.active_count() <= before + 1)


CERTIFICATE = Path(__file__).with_name("self_signed.pem")


def test_a_name_without_an_address(front: Fronts) -> None:
    asking = front("https://models.invalid", remote_allow="models.invalid")
    assert asking.code() == "remote-name"


def test_no_server_listens(front: Fronts) -> None:
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


def test_no_server_answers(full_port: int, front: Fronts) -> None:
    assert front(f"http://127.0.0.1:{full_port}", timeouts=Timeouts(connect_s=0.5)).code() == "remote-unreachable"


def test_an_untrusted_certificate(serve: Serve, front: Fronts) -> None:
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
        assert asking.ask(f"x{number} = call(", ", y)\n").text == "1"
        until(lambda number=number: server.hung_up > number)  # type: ignore[misc]
