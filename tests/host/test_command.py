"""`fastcoder-lsp host`: says who shares the process, ends it, shows what it said."""

import os
import socket
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from fastcoder_lsp.cli.doctor import check_host
from fastcoder_lsp.cli.host import _lines
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.config import Settings
from fastcoder_lsp.host import control
from fastcoder_lsp.host.address import cache_part, named_address
from fastcoder_lsp.host.control import FoundHost, find_hosts
from fastcoder_lsp.host.host_log import MOST_BYTES, log_path, older, open_log
from fastcoder_lsp.host.transport import AskFronts, Codec, FrontAt, Fronts, Hello, Stop
from tests.host.test_process import Machine, gone, machine

__all__ = ["machine"]


@pytest.fixture
def here(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(machine.folder.parent))
    machine.folder = machine.folder.parent / "fastcoder-lsp"
    return machine


def test_it_names_its_fronts_and_ends_it(here: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    here.settings = Settings(host_linger_s=60)  # however late it is asked to end, it has not ended by itself
    _, front = here.asked()
    process_id = front.facts().process_id
    assert main(["host", "status"]) == 0
    said = capsys.readouterr().out
    assert f"process {process_id}: scripted on none" in said
    assert f"editor's server {os.getpid()}: no folder" in said

    front.close(1)
    assert main(["host", "stop"]) == 0
    assert f"process {process_id}: ended" in capsys.readouterr().out
    assert gone(process_id)
    assert main(["host", "log", "--lines", "3"]) == 0
    assert "ending: asked by the command line" in capsys.readouterr().out


def test_processes_of_another_cache_folder_are_not_its_business(
    here: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are they of another home: their sockets may lie in one folder."""
    _, front = here.asked()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("FASTCODER_CACHE", str(here.folder / "elsewhere"))
        for verb in ("status", "stop"):
            assert main(["host", verb]) == 0
            assert "No shared process is running" in capsys.readouterr().out
    assert here.processes() == [front.facts().process_id]


def test_where_none_runs_it_says_so(here: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["host", "status"]) == 0
    assert main(["host", "stop"]) == 0
    assert main(["host", "log"]) == 0
    said = capsys.readouterr().out
    assert said.count("No shared process is running") == 2
    assert "The log is empty" in said


def test_the_log_is_bounded_and_this_users_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path))
    for _ in range(8):
        with open_log() as log:
            log.write(b"x" * MOST_BYTES)
    assert log_path().stat().st_size + older(log_path()).stat().st_size <= 5 * MOST_BYTES
    assert log_path().stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in log_path().parent.iterdir()) == ["host.log", "host.old.log"]


def test_a_log_of_another_user_is_put_aside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever once ran an editor as root has left it; the folder is this user's."""
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path))
    with open_log() as log:
        log.write(b"theirs")
    theirs, opened = log_path().stat().st_ino, os.open

    def refuse(path: Path, *rest: int) -> int:
        if path.exists() and path.stat().st_ino == theirs:
            raise PermissionError(13, "Permission denied")
        return opened(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    with open_log() as log:
        log.write(b"ours")
    assert log_path().read_bytes() == b"ours"
    assert older(log_path()).read_bytes() == b"theirs"


def test_so_many_lines_of_the_log(here: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    with open_log() as log:
        log.write(b"one\ntwo\n")
    assert main(["host", "log", "--lines", "0"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["host", "log", "--lines", "1"]) == 0
    assert capsys.readouterr().out == "two\n"
    with pytest.raises(SystemExit):
        main(["host", "log", "--lines", "-1"])


def test_it_knows_its_model_while_no_editor_is_connected(here: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    here.settings = Settings(host_linger_s=30)
    _, front = here.asked()
    front.close(1)
    for _ in range(100):
        main(["host", "status"])
        said = capsys.readouterr().out
        if "no editor" in said:
            break
    assert "scripted on none" in said
    assert " 0 MB" not in said


def test_an_answer_byte_by_byte_is_not_waited_for(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_ANSWER_S", 0.5)
    here.folder.mkdir(mode=0o700)
    ended = threading.Event()

    def drip(listening: socket.socket) -> None:
        connected, _ = listening.accept()
        with connected, suppress(OSError):
            connected.sendall((1000).to_bytes(4, "little"))
            while not ended.wait(0.1):
                connected.sendall(b"x")

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(here.folder / f"{cache_part()}{'k' * 10}.sock"))
        listening.listen()
        dripping = threading.Thread(target=drip, args=(listening,))
        dripping.start()
        [found] = find_hosts([here.folder])
        ended.set()
        dripping.join()
    assert found.report is None


def test_it_says_whose_turn_it_is_and_how_urgent_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fronts = FrontAt(21, (b"/w/one",), True, 3.0), FrontAt(22, (), True, 500.0, turn=True), FrontAt(23, (), False, 9.0)
    told = Fronts(7, "0.1+abc", "model", "engine", 2**30, 60.0, fronts)
    found = FoundHost(named_address(tmp_path, "k" * 16), told, 7)
    assert list(_lines(found)) == [
        "process 7: model on engine, 1,074 MB, for 60 s, version 0.1+abc",
        "  editor's server 21: /w/one, for 3 s, waiting",
        "  editor's server 22: no folder open, for 8 min, working for it",
        "  editor's server 23: no folder open, for 9 s",
    ]
    monkeypatch.setattr(control, "find_hosts", lambda: (found,))
    (check,) = check_host()
    assert (check.state, check.text) == (
        "ok",
        "process 7: model, editors connected: 3, 2 of them waiting for a suggestion; it works for process 22",
    )
    found = replace(found, report=structs.replace(told, nice=10))
    assert "nice 10" in list(_lines(found))[1]
    (check,) = check_host()
    assert check.state == "note"
    assert "nice 10" in check.text


def test_control_messages_keep_their_form() -> None:
    """Hosts run on when the package is updated: `host status` and `host stop` must reach them."""
    front = [21, [b"/w/one"], True, 3.0, True]
    said = ["Fronts", 7, "0.1+abc", "model", "engine", 2**30, 60.0, [front], 0]
    fronts = (FrontAt(21, (b"/w/one",), True, 3.0, True),)
    assert Codec().from_host(msgspec.msgpack.encode(said)) == Fronts(
        7, "0.1+abc", "model", "engine", 2**30, 60.0, fronts
    )
    assert msgspec.msgpack.decode(Codec().encode(Stop())) == ["Stop"]
    assert msgspec.msgpack.decode(Codec().encode(AskFronts())) == ["AskFronts"]
    assert msgspec.msgpack.decode(Codec().encode(Hello(7, "0.2", 1, "control"))) == ["Hello", 7, "0.2", 1, "control"]
