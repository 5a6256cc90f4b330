"""The command as people run it: where it listens, what it refuses, how it ends."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from fastcoder_lsp.cli.http import read_origin
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host.control import find_hosts, stop_host
from fastcoder_lsp.http.server import listen, reserved


def test_off_loopback_it_needs_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["http", "--host", "0.0.0.0"]) == 2
    assert "--key-file" in capsys.readouterr().err


def test_a_name_without_an_address_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert main(["http", "--host", "nonsense.invalid"]) == 2
    err = capsys.readouterr().err
    assert "nonsense.invalid has no address" in err
    assert "key" not in err


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match=r"port \d+ is in use"):
        listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SO_REUSEPORT")
def test_a_reserved_port_is_free_for_reuse_only() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match="is in use"), reserved("127.0.0.1", port):
            pass
    with reserved("127.0.0.1", port):
        with pytest.raises(UsageError, match="is in use"):
            listen("127.0.0.1", port)
        with socket.create_server(("127.0.0.1", port), reuse_port=True) as ours:
            socket.create_connection(("127.0.0.1", port), timeout=20).close()
            ours.accept()[0].close()


def test_a_number_that_is_no_port_is_said() -> None:
    with pytest.raises(UsageError, match="no port 99999"):
        listen("127.0.0.1", 99999)


@pytest.mark.parametrize("options", [["--alone"], []], ids=["alone", "shared"])
def test_without_a_model_it_ends_and_says_what_to_do(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert main(["http", "--port", "0", "--model", "nowhere/none", *options]) == 3
    said = capsys.readouterr().err
    assert "fastcoder-lsp model pull nowhere/none" in said
    assert "loading" not in said


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
@pytest.mark.parametrize("options", [["--alone"], []], ids=["alone", "shared"])
def test_without_a_loadable_model_it_waits_and_ends_in_order(tmp_path: Path, options: list[str]) -> None:
    for name, text in (("config.json", "{}"), ("tokenizer.json", "{}"), ("model.safetensors", "")):
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "http", "--port", "0", "--model", str(tmp_path)]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_RUNTIME_DIR": folder}
        started = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, env=environment)
        with started as process, ExitStack() as stack:
            stack.callback(process.kill)
            assert process.stderr is not None
            port = re.search(r"127\.0\.0\.1:(\d+)", process.stderr.readline())
            assert port is not None
            said = [process.stderr.readline() for _ in range(3)]
            assert str(tmp_path) in said[0]
            assert "keeps running" in said[2]
            connection = http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=20)
            connection.request("GET", "/health")
            assert connection.getresponse().status == 500
            connection.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        hosts = find_hosts([Path(folder) / "fastcoder-lsp"])
        assert len(hosts) == (not options)
        for host in hosts:
            stop_host(host, 10)


@pytest.mark.parametrize(
    "text", ["*", "null", "editor.example", "https://editor.example/", "https://*.example", "http://"]
)
def test_an_origin_is_scheme_host_and_port(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["http", "--allow-origin", text]) == 2
    assert "is not an origin" in capsys.readouterr().err
    assert read_origin("HTTPS://Editor.example:8443") == "https://editor.example:8443"
