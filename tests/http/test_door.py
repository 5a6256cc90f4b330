"""Who is let in, what is too much, what is malformed, and who goes before the answer."""

import contextlib
import http.client
import json
import random
import socket
import string
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from fastcoder_lsp.cli.http import read_key
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.http import sessions
from fastcoder_lsp.http.guard import BODY_BYTES, AccessRules
from fastcoder_lsp.http.sessions import MAX_SESSIONS
from tests.http.toy_server import PREFIX, Start, ToyServer
from tests.opened import until

MALFORMED = [pytest.param(1000, id="some"), pytest.param(10_000, marks=pytest.mark.ci, id="many")]
HANG_UPS = [pytest.param(40, id="some"), pytest.param(1000, marks=pytest.mark.ci, id="many")]
KEY = "k" * 20
ASK = {"prompt": PREFIX, "suffix": "\n"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example"},
        {"Host": "attacker.example:8012"},
        {"Host": ""},
        {"Host": "127.0.0.1.attacker.example"},
        {"Host": "[::1].attacker.example"},
        {"Host": "[::1]attacker"},
        {"Host": "[::1"},
        {"Host": "localhost:80@attacker.example"},
        {"Host": "localhost:8012:8012"},
        {"Host": "localhost:x"},
        {"Origin": "https://attacker.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_web_pages_and_other_names_are_refused(server: ToyServer, headers: dict[str, str]) -> None:
    for path, body in (("/v1/completions", ASK), ("/health", None), ("/nowhere", None)):
        code, reply = server.call(path, body, headers=headers)
        assert (code, reply["error"]["code"]) == (403, 403)


def test_names_of_loopback_are_let_in(server: ToyServer) -> None:
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8012", "[::1]:8012"):
        assert server.call("/health", headers={"Host": host})[0] == 200


def test_a_key_is_asked_for(start: Start) -> None:
    server = start("x\n", door=AccessRules(KEY, frozenset()))
    named = {"Host": "models.example"}
    wrong: list[dict[str, str]] = [
        {},
        {"Authorization": KEY},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {KEY}k"},
        {"X-Api-Key": "é"},
    ]
    for headers in wrong:
        code, reply = server.call("/v1/models", headers={**named, **headers})
        presented = any(value not in {KEY, "Bearer "} for value in headers.values())
        assert (code, "wrong" in reply["error"]["message"]) == (401, presented)
    for path in ("/health", "/v1/health"):
        assert server.call(path, headers=named)[0] == 200
    for headers in ({"Authorization": f"Bearer {KEY}"}, {"X-Api-Key": KEY}):
        assert server.call("/v1/models", headers={**named, **headers})[0] == 200


def test_a_key_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for text, mode in ((KEY, 0o644), ("short", 0o600), ("\n", 0o600), ("é" * 20, 0o600)):
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        with pytest.raises(UsageError):
            read_key(path)
    with pytest.raises(UsageError):
        read_key(tmp_path / "absent")
    path.write_text(f"{KEY}\n", encoding="utf-8")
    assert read_key(path) == KEY


def test_too_much_is_refused(server: ToyServer, start: Start) -> None:
    assert server.call("/infill", b'{"prompt": "' + b"x" * BODY_BYTES + b'"}')[0] == 413
    with socket.create_connection(("127.0.0.1", server.port)) as long:
        long.sendall(b"POST /infill HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES + 1))
        assert long.recv(12) == b"HTTP/1.1 413", "by its head alone"
    with socket.create_connection(("127.0.0.1", server.port)) as pieces:
        pieces.sendall(b"POST /infill HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        pieces.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (BODY_BYTES + 1, b"x" * (BODY_BYTES + 1)))
        assert pieces.recv(12) == b"HTTP/1.1 413", "that does not say how long it is"
    full = start("done\n", door=AccessRules(max_open=1))
    full.engine.may_step.clear()
    with socket.create_connection(("127.0.0.1", full.port)) as waiting:
        send_ask(waiting)
        until(lambda: full.desks.busy == 1)
        assert full.call("/v1/models")[0] == 503
        full.engine.may_step.set()
        assert waiting.recv(12) == b"HTTP/1.1 200"
    until(lambda: full.desks.busy == 0)
    until(lambda: full.call("/v1/models")[0] == 200)
    slow = start("done\n", answer_s=0.3)
    slow.engine.may_step.clear()
    assert slow.call("/v1/completions", ASK)[0] == 504
    slow.engine.may_step.set()


def send_ask(connection: socket.socket, text: str = PREFIX) -> None:
    body = b'{"prompt": "%s", "stream": true}' % text.replace("\n", "\\n").encode()
    connection.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    )


def bad_body(chance: random.Random) -> bytes:
    values = ["null", "3", "-1", "1e999", '"x"', "[]", "{}", "[[[]]]", '"\\ud800"', "true", "[1]", '{"a":1}']
    names = ["prompt", "input_prefix", "input_extra", "stop", "n_predict", "stream", "n", "suffix", "response_fields"]
    kind = chance.randrange(5)
    if kind == 0:
        return chance.randbytes(chance.randrange(200))
    if kind == 1:
        return b"[" * chance.randrange(1, 20_000)
    if kind == 2:
        return "".join(chance.choices(string.printable, k=50)).encode()
    fields = [f'"{chance.choice(names)}": {chance.choice(values)}' for _ in range(chance.randrange(1, 6))]
    text = "{" + ", ".join([*fields, '"input_extra": {"x": 3}', '"prompt": 1', '"n": "x"']) + "}"
    return text.encode()[: chance.randrange(len(text)) if kind == 3 else None]


@pytest.mark.parametrize("requests", MALFORMED)
def test_malformed_requests_get_well_formed_errors(server: ToyServer, requests: int) -> None:
    chance = random.Random(19)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.connect()
    paths = ["/infill", "/completion", "/v1/completions", "/v1/models", "/nowhere", "/%00", "/infill/../props"]
    for _ in range(requests):
        path, method = chance.choice(paths), chance.choice(["POST", "POST", "POST", "PUT", "DELETE"])
        connection.request(method, path, bad_body(chance))
        response = connection.getresponse()
        code, reply = response.status, json.loads(response.read())
        assert code in (400, 404, 405), (path, method)
        assert set(reply["error"]) == {"code", "message", "type"}
        assert reply["error"]["code"] == code
    connection.close()
    assert server.call("/v1/completions", ASK)[0] == 200
    assert server.desks.busy == 0


def test_names_are_no_texts(server: ToyServer) -> None:
    for name in ("model", "filename", "language"):
        assert server.call("/v1/completions", {**ASK, name: "m" * 5000, "n": 16, "stream": True})[0] == 400
    assert server.call("/infill", {"input_prefix": PREFIX, "filename": "m" * 5000})[0] == 400


def test_no_request_is_redirected(server: ToyServer) -> None:
    for path in ("/infill/", "/v1/completions/"):
        code, reply = server.call(path, ASK)
        assert (code, reply["error"]["code"]) == (404, 404)


def test_a_free_place_goes_to_a_request_that_still_waits(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    async def long(wait: Callable[[], Awaitable[object]]) -> None:
        await wait()

    monkeypatch.setattr(sessions, "_wait_briefly", long)
    server = start("y" * 190, step_s=0.5)
    with contextlib.ExitStack() as stack:

        def ask(number: int) -> socket.socket:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            send_ask(connection, f"first_{number} = 1\nsecond_{number} = 2\nthird_{number} = ")
            return connection

        busy = [ask(number) for number in range(MAX_SESSIONS)]
        until(lambda: server.desks.busy == MAX_SESSIONS)
        waiting = server.desks._free._waiters
        gone = ask(8)
        until(lambda: len(waiting) == 1)
        ask(9)
        until(lambda: len(waiting) == 2)
        gone.close()
        until(lambda: len(server._server.server_state.connections) == MAX_SESSIONS + 1)
        busy[0].close()
        until(lambda: any("first_9" in text for text in server.asked))
        assert not any("first_8" in text for text in server.asked)


@pytest.mark.parametrize("hang_ups", HANG_UPS)
def test_a_closed_connection_frees_the_model_within_a_step(start: Start, hang_ups: int) -> None:
    server = start("y" * 190, step_s=0.002)
    threads, server.holds = threading.active_count(), True
    for number in range(hang_ups):
        connection = socket.create_connection(("127.0.0.1", server.port))
        begun = server.engine.steps
        send_ask(connection, f"{PREFIX}name_{number} = ")
        server.until_asked(number + 1)
        connection.close()
        until(lambda: server.desks.busy == 0)
        server.engine.may_step.set()
        assert server.engine.steps - begun < 190, "it was not said to its end"
    assert sum(one.cancelled for one in server.desks.statistics()) == hang_ups
    assert threading.active_count() <= threads + MAX_SESSIONS
    server.holds = False
    gone, server.engine.text = server.engine.steps, "done\n"
    steps = []
    for text in ("other = ", "another = "):
        assert server.call("/v1/completions", {"prompt": text})[1]["choices"][0]["text"] == "done"
        steps.append(server.engine.steps - gone)
        gone = server.engine.steps
    assert steps[0] - steps[1] in (0, 1), "the step in which it was given up, and no other one"
