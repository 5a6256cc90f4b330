"""A server, or a proxy before it, fails in each way that there is: each has its reason, and what to do about it."""

import contextlib
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from itertools import count
from pathlib import Path

import pytest

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.config.remote_way import read_remote_key
from fastcoder_lsp.remote import failures
from fastcoder_lsp.remote.client import TimeOuts, Way
from fastcoder_lsp.remote.failures import of_status
from tests.remote.front import WAIT_S, Front, until
from tests.remote.scripted_server import (
    LlamaServer,
    Reply,
    Request,
    ScriptedServer,
    as_json,
    chunk,
    event,
    events_head,
    response,
)

SOON = TimeOuts(connect_s=0.5, read_s=0.5)
"""For who is silent without end alone: a busy machine is, too."""
CERTIFICATE = Path(__file__).with_name("self_signed.pem")
PAGE = response(200, b"<html><title>Sign in</title></html>", "text/html; charset=utf-8")
PIECE = {"content": "return", "stop": False}


class Faulty(LlamaServer):
    """A server that is llama.cpp's until a question comes, and then does what a test wants."""

    def __init__(self, fault: Callable[[Request], Reply]) -> None:
        super().__init__(lambda _: "")
        self.fault = fault

    def _infill(self, request: Request) -> Reply:
        return self.fault(request)


def says(data: bytes) -> Callable[[Request], Reply]:
    return lambda _: iter([data])


def half_a_stream(_: Request) -> Reply:
    yield events_head() + event(PIECE)
    raise OSError("it breaks off")


def half_a_header(_: Request) -> Reply:
    yield b"HTTP/1.1 20"
    raise OSError("it breaks off")


def ends_before_its_end(_: Request) -> Reply:
    """As a proxy ends a stream whose server is gone: in order, and too early."""
    yield events_head() + event(PIECE) + chunk(b"")


def drips_no_more(_: Request) -> Reply:
    yield events_head() + event(PIECE)
    threading.Event().wait(WAIT_S)


def silent(_: Request) -> Reply:
    threading.Event().wait(WAIT_S)
    yield b""


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
def test_each_fault_has_its_reason(
    serve: Callable[..., ScriptedServer], front: Callable[..., Front], fault: str
) -> None:
    """In words and with what to do; the next question, the fault being over, is answered."""
    code, handler = FAULTS[fault]
    server = serve(Faulty(handler))
    asking = front(server.url, time_outs=SOON if code == "remote-silent" else None)
    completion = asking.ask("x = ")
    assert completion.reason is not None
    assert (completion.reason.code, completion.finish) == (code, "error")
    assert code in reasons.CODES
    assert completion.reason.hint
    assert "127.0.0.1" in completion.reason.text
    last = asking.statuses[-1]
    assert (last.state, last.message) == ("error", completion.reason.text)
    server.handler = LlamaServer(lambda _: "1\n")
    if code != "remote-busy":  # that asks for time
        until(lambda: asking.ask("y = ").text == "1")


def test_the_page_tells_of_every_reason() -> None:
    """And of none that there is not."""
    page = (Path(__file__).parents[2] / "docs" / "remote.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(remote-[a-z]+)` \|", page, re.MULTILINE))
    assert told == {code for code in reasons.CODES if code.startswith("remote-")}
    source = (Path(failures.__file__).parent / "failures.py").read_text(encoding="utf-8")
    target = (Path(failures.__file__).parent / "target.py").read_text(encoding="utf-8")
    assert told == set(re.findall(r'"(remote-[a-z]+)"', source + target))


def test_a_name_without_an_address(front: Callable[..., Front]) -> None:
    """DNS."""
    asking = front("https://models.invalid", remote_allow="models.invalid")
    assert asking.code() == "remote-name"


def test_nobody_listens(front: Callable[..., Front]) -> None:
    """A port that is closed."""
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


def test_nobody_answers(full_port: int, front: Callable[..., Front]) -> None:
    """The connection does not come about in time."""
    assert front(f"http://127.0.0.1:{full_port}", time_outs=TimeOuts(connect_s=0.5)).code() == "remote-unreachable"


def test_a_certificate_that_nobody_trusts(serve: Callable[..., ScriptedServer], front: Callable[..., Front]) -> None:
    """Nothing is sent over it; whom the user's system trusts is asked."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    server = serve(LlamaServer(lambda _: "1\n"), tls=tls)
    assert front(server.url).code() == "remote-tls"
    assert not server.requests
    trusted = Way(lambda: "", tls=ssl.create_default_context(cafile=str(CERTIFICATE)))
    assert front(server.url, way=trusted).ask("x = ").text == "1"


def test_a_server_that_speaks_no_tls(serve: Callable[..., ScriptedServer], front: Callable[..., Front]) -> None:
    """The address says https, and the server does not."""
    server = serve(LlamaServer(lambda _: "1\n"))
    assert front(server.url.replace("http:", "https:")).code() == "remote-tls"


def test_who_types_on_learns_that_a_server_is_silent(
    serve: Callable[..., ScriptedServer], front: Callable[..., Front]
) -> None:
    """Each key hangs up on the question before it, so that none waits for long enough to be given up by itself."""

    def handler(request: Request) -> Reply:
        if request.path == "/infill":
            threading.Event().wait(WAIT_S)
        yield as_json({"build_info": "fastcoder-lsp 9", "data": []})

    server = serve(handler)
    asking = front(server.url, pauses_s=(600.0,))
    assert asking.service.preload().result(20)
    asking.service.host._server.silent_ms = 1e3  # type: ignore[attr-defined]  # but nobody waits for so long
    numbers = count()

    def told() -> list[str]:
        number = next(numbers)
        future = asking.submit(f"x{number} = ")
        until(lambda: future.done() or len(server.asked("/infill")) > number)
        future.cancel()
        return [status.message for status in asking.statuses if status.state == "error"]

    until(told)
    assert "did not answer in time" in told()[0]
    assert asking.code("y = ") == "remote-silent"
    assert len(server.asked("/infill")) > 2


def test_a_connection_that_was_closed_in_between_is_no_failure(
    serve: Callable[..., ScriptedServer], front: Callable[..., Front]
) -> None:
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


def test_it_is_left_alone_ever_longer(serve: Callable[..., ScriptedServer], front: Callable[..., Front]) -> None:
    """While it is, questions are answered at once by the same reason, and nothing is sent."""
    server = serve(Faulty(says(as_json({}, 500))))
    asking = front(server.url, pauses_s=(0.0, 600.0))
    codes = [asking.code(f"x{number} = ") for number in range(5)]
    assert codes == ["remote-broken"] * 5
    assert len(server.asked("/infill")) == 2
    server.handler = LlamaServer(lambda _: "1\n")
    asking.service.reload()  # the user says: now
    assert asking.ask("x = ").text == "1"


def test_retry_after_is_kept(serve: Callable[..., ScriptedServer], front: Callable[..., Front]) -> None:
    """However short its own pause would be."""
    server = serve(Faulty(says(response(429, b"{}", Retry_After="60"))))
    asking = front(server.url)
    assert [asking.code(f"x{number} = ") for number in range(3)] == ["remote-busy"] * 3
    assert len(server.asked("/infill")) == 1


def test_retry_after_is_a_number_or_a_date() -> None:
    """What is neither, or lies behind, says nothing; nobody is believed for more than an hour."""
    now_s = 1_800_000_000.0
    texts = {"5": 5, formatdate(now_s + 90, usegmt=True): 90, formatdate(now_s - 9, usegmt=True): 0, "soon": 0, "-3": 0}
    texts |= {"1e9": 3600, "nan": 0, "": 0}
    for text, wait_s in texts.items():
        assert of_status("h", 429, {"retry-after": text}, b"", now_s).wait_s == wait_s, text


def test_what_a_server_says_of_itself_is_shown_short(
    serve: Callable[..., ScriptedServer], front: Callable[..., Front]
) -> None:
    """And without what would move a terminal's cursor."""
    server = serve(Faulty(says(as_json({"error": {"message": "\x1b[31mno\n\n" + "long " * 900}}, 403))))
    reason = front(server.url).ask("x = ").reason
    assert reason is not None
    assert "no long long" in reason.text
    assert reason.text.isprintable()
    assert len(reason.text) < 300


def test_a_key_is_sent_and_read_anew(
    serve: Callable[..., ScriptedServer], front: Callable[..., Front], tmp_path: Path
) -> None:
    """A wrong one has its reason; once the file holds another one, that is sent."""
    right = "sk-" + "a" * 30

    def guarded(request: Request) -> Reply:
        if request.headers.get("authorization") == f"Bearer {right}":
            return LlamaServer(lambda _: "1\n")(request)
        return iter([as_json({}, 401)])

    server, file = serve(guarded), tmp_path / "key"
    file.write_text("sk-wrong\n")
    file.chmod(0o600)
    keyed = {"remote_key_file": str(file)}
    asking: Front = front(server.url, way=Way(lambda: read_remote_key(asking.settings)), **keyed)
    assert asking.code() == "remote-key"
    file.write_text(f"{right}\n")
    assert asking.ask("x = ").text == "1"
    file.chmod(0o644)
    assert asking.code("y = ") == "remote-key"
    assert len([one for one in server.requests if one.headers.get("authorization") is None]) == 0


def test_events_in_pieces_are_events(serve: Callable[..., ScriptedServer], front: Callable[..., Front]) -> None:
    """However the network cuts them, with the line ends of either kind; what is no event is passed over."""
    text = b': hello\r\n\r\ndata: {"content": "1", "stop": false}\r\n\r\ndata: {"content": "\\n", "stop": true}\n\n'
    whole = [b"data: \n\n" + text, *(text[at : at + 1] for at in range(len(text)))]
    for pieces in (whole[:1], whole[1:]):
        server = serve(Faulty(says(events_head() + b"".join(map(chunk, pieces)))))
        assert front(server.url).ask("y = ").text == "1"


def test_a_server_that_drips_what_it_is(serve: Callable[..., ScriptedServer], front: Callable[..., Front]) -> None:
    """It is no longer waited for after a while, by whoever loads and by whoever asks next."""

    def drips(_: Request) -> Reply:
        yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n"
        while True:
            time.sleep(0.1)
            yield b" "

    server = serve(drips)
    asking = front(server.url, time_outs=SOON)
    assert asking.service.preload().result(20) is False
    assert "did not answer in time" in asking.statuses[-1].message
    server.handler = LlamaServer(lambda _: "1\n")
    until(lambda: asking.ask("y = ").text == "1")


@pytest.mark.parametrize("piece", ["x", " ", "\n ", "\n " * 200_000], ids=["a line", "blanks", "lines", "at once"])
def test_a_server_that_speaks_for_ever_is_hung_up_on(
    serve: Callable[..., ScriptedServer], front: Callable[..., Front], piece: str
) -> None:
    """However little it was asked for, and whether what it says would ever end; others are answered meanwhile."""

    def for_ever(_: Request) -> Reply:
        yield events_head()
        while True:
            yield event({"content": piece, "stop": False})

    server = serve(Faulty(for_ever))
    asking = front(server.url)
    asking.ask("def f():\n    ", "\n")
    until(lambda: any(one.gone.is_set() for one in server.asked("/infill")))
    server.handler = LlamaServer(lambda _: "1\n")
    assert asking.ask("y = ").text == "1"


def test_faults_one_after_the_other_leave_nothing_behind(
    serve: Callable[..., ScriptedServer], front: Callable[..., Front]
) -> None:
    """No thread, and the server is answered from as ever."""
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
