"""Strangers, slow bodies, floods, and what is written down of requests."""

import asyncio
import json
import socket
import threading
from pathlib import Path

import pytest

from fastcoder_lsp.http import guard
from fastcoder_lsp.team.counts import RequestFile
from fastcoder_lsp.team.keys import KeyFile, Refusal
from fastcoder_lsp.team.scripted import said_after
from tests.opened import WAIT_S, until
from tests.team.toy_team import Start

SECRET_TEXT = "password = 'correct horse'\nx = "
ASK = {"input_prefix": "def f():\n    "}


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


def test_every_form_is_answered(start: Start) -> None:
    team = start()
    before = "value = "
    said = said_after(before)
    assert team.call("/infill", {"input_prefix": before})[1]["content"] == said
    assert team.call("/completion", {"prompt": before})[1]["content"] == said
    assert team.call("/v1/completions", {"prompt": before, "n": 2})[1]["choices"][1]["text"] == said
    for path, body in (("/infill", {"input_prefix": before}), ("/v1/completions", {"prompt": before})):
        assert said in team.call(path, {**body, "stream": True})[1]
    assert team.call("/v1/models")[1]["data"][0]["id"] == "scripted"
    assert team.call("/props")[1]["total_slots"] == team.config.limits.open
    assert team.call("/nowhere")[0] == 404
    assert team.call("/nowhere", ASK)[0] == 404
    assert team.call("/infill")[0] == 405


def test_a_request_without_a_key_learns_nothing(start: Start, keys: KeyFile) -> None:
    good, revoked = keys.add("ada"), keys.add("eve")
    keys.revoke("eve")
    team = start(keys=keys)
    for key in ("", "x", "fck_00000000_aaaa", revoked, good[:-2]):
        for path, body in (("/infill", ASK), ("/v1/models", None), ("/props", None), ("/metrics", None), ("/no", None)):
            code, reply, headers = team.call(path, body, key=key)
            assert code == 401
            assert headers["www-authenticate"] == "Bearer"
            assert set(reply["error"]) == {"code", "message", "type"}
    assert team.call("/health")[0] == 200
    assert not team.calls
    assert team.call("/infill", ASK, headers={"X-Api-Key": good})[0] == 200
    assert team.call("/infill", ASK, key=good, headers={"Origin": "https://attacker.example"})[0] == 403


def test_an_unreadable_key_file_admits_no_client(start: Start, keys: KeyFile, tmp_path: Path) -> None:
    ada = keys.add("ada")
    team = start(keys=keys)
    assert team.call("/infill", ASK, key=ada)[0] == 200
    text = (tmp_path / "keys.json").read_bytes()
    (tmp_path / "keys.json").write_bytes(text[:20])
    until(lambda: team.call("/infill", ASK, key=ada)[0] == 503)
    (tmp_path / "keys.json").write_bytes(text)
    until(lambda: team.call("/infill", ASK, key=ada)[0] == 200)


def test_many_health_requests_are_one_request(start: Start, keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need no key, and each question would take a replica's place from who has one."""
    team, questions, may_end = start(keys=keys), list[int](), threading.Event()

    async def can_answer() -> bool:
        questions.append(1)
        return await asyncio.to_thread(may_end.wait)

    monkeypatch.setattr(team, "can_answer", can_answer)
    codes = list[int]()
    asking = [threading.Thread(target=lambda: codes.append(team.call("/health")[0])) for _ in range(12)]
    for thread in asking:
        thread.start()
    until(lambda: len(team._server.server_state.tasks) == len(asking))
    may_end.set()
    for thread in asking:
        thread.join(WAIT_S)
    assert codes == [200] * len(asking)
    assert len(questions) == 1
    assert team.call("/health")[0] == 200


def test_without_keys_only_this_machine_is_served(start: Start) -> None:
    """A name that a web page had resolved to it is refused."""
    team = start()
    assert team.call("/infill", ASK, headers={"Host": "attacker.example"})[0] == 403
    assert team.call("/infill", ASK, headers={"Host": "localhost:1"})[0] == 200


def test_metrics_need_a_key_for_metrics(start: Start, keys: KeyFile) -> None:
    ada, watch = keys.add("ada"), keys.add("prometheus", metrics=True)
    team = start(keys=keys)
    for _ in range(2):
        team.infill(SECRET_TEXT, "secret.py", ada)
    assert team.call("/metrics", key=ada)[0] == 403
    page = team.call("/metrics", key=watch)[1]
    assert 'fastcoder_team_requests_total{route="/infill",key="ada",code="200"} 2' in page
    assert 'fastcoder_team_prefix_total{found="true"} 1' in page
    assert "fastcoder_team_answer_ms_count 2" in page
    assert "horse" not in page
    assert "secret" not in page


def test_the_file_of_requests_has_no_text(start: Start, keys: KeyFile, tmp_path: Path) -> None:
    ada = keys.add("ada")
    team, path = start(keys=keys), tmp_path / "requests.jsonl"
    said = team.infill(SECRET_TEXT, "secret.py", ada, "my-workspace")["content"]
    team.call("/infill", b"{ horse", key=ada)
    written = RequestFile(path)
    for outcome in team.outcomes:
        written.write(outcome)
    text = path.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["key"], line["code"]) for line in lines] == [("ada", 200), ("ada", 400)]
    for secret in ("horse", said, "secret.py", "my-workspace", ada, ada.rpartition("_")[2]):
        assert secret not in text
    assert path.stat().st_mode & 0o077 == 0


def test_a_flood_of_one_key_is_refused_and_others_are_served(start: Start, keys: KeyFile) -> None:
    ada, ben = keys.add("ada", a_minute=10), keys.add("ben")
    team = start(keys=keys, clock=lambda: 0.0)  # no minute passes, however long the calls take
    codes = [team.call("/infill", ASK, key=ada) for _ in range(4)]
    assert [code for code, *_ in codes] == [200, 200, 429, 429]
    assert 1 <= int(codes[-1][2]["retry-after"]) <= 6
    assert team.call("/infill", ASK, key=ben)[0] == 200
    assert sum(call.tenant.key != "" for call in team.calls) == 3


def test_open_requests_of_a_key_are_bounded(start: Start, keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_S", 600.0)
    ada = keys.add("ada", open_=1)
    team = start(keys=keys)
    slow = socket.create_connection(("127.0.0.1", team.port))
    head = f"POST /infill HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ada}\r\nContent-Length: 100\r\n\r\n{{"
    slow.sendall(head.encode())
    until(lambda: team.call("/infill", ASK, key=ada)[0] == 429)
    slow.close()
    until(lambda: team.call("/infill", ASK, key=ada)[0] == 200)


def test_a_slow_body_ends(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_S", 0.3)
    team = start()
    with socket.create_connection(("127.0.0.1", team.port)) as slow:
        slow.sendall(b"POST /infill HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert slow.recv(12) == b"HTTP/1.1 408"
    with socket.create_connection(("127.0.0.1", team.port)) as long:
        long.sendall(b"POST /infill HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (guard.BODY_BYTES + 1))
        assert long.recv(12) == b"HTTP/1.1 413"
    assert not team.calls


def test_a_full_server_says_when_to_come_again(start: Start) -> None:
    team = start()
    team.refusal = Refusal("all replicas are busy", 3)
    code, reply, headers = team.call("/infill", ASK)
    assert (code, headers["retry-after"], reply["error"]["code"]) == (429, "3", 429)


def test_health_means_that_it_can_answer(start: Start) -> None:
    team = start()
    assert team.call("/health")[0] == 200
    team.healthy = False
    assert team.call("/health")[0] == 503


def test_a_closed_connection_frees_the_model(start: Start) -> None:
    team = start(model="scripted:step=1000,letters=32")
    body = b'{"input_prefix": "x = "}'
    gone = socket.create_connection(("127.0.0.1", team.port))
    gone.sendall(b"POST /infill HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    until(lambda: team.calls)
    gone.close()
    until(lambda: team.outcomes)
    assert team.outcomes[0].code == 499
    assert not team.outcomes[0].replica


def test_many_at_once_are_each_answered_with_their_own(start: Start) -> None:
    team = start(replicas=2, model="scripted:step=1,prefill=0.01")
    wrong = list[str]()

    def type_in(number: int) -> None:
        for line in range(6):
            before = f"# {number}\n" * 5 + f"line_{line} = "
            if team.infill(before, f"file_{number}.py")["content"] != said_after(before):
                wrong.append(before)

    threads = [threading.Thread(target=type_in, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not wrong
    assert len(team.outcomes) == 60
    assert all(outcome.again in (None, True) for outcome in team.outcomes)
