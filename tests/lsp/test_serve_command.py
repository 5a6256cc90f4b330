"""`fastcoder-lsp serve` as a program: its options, its wire, its words, and an update under it."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fastcoder_lsp
from fastcoder_lsp.lsp.session import InstalledVersion
from tests.lsp.raw_client import WAIT_S, running

SERVE = (sys.executable, "-m", "fastcoder_lsp.cli.main", "serve")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    return subprocess.run(
        [*SERVE, *arguments], input="", capture_output=True, text=True, cwd=root, check=False, timeout=60
    )


def test_help_has_an_example() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "Example: fastcoder-lsp serve" in done.stdout


@pytest.mark.parametrize("arguments", [("--no-such-option",), ("--engine", "abacus"), ("--log-level", "loud")])
def test_wrong_options_are_refused(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert arguments[-1] in done.stderr
    assert "Traceback" not in done.stderr


def test_no_client_at_all() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (1, "")
    assert "Editors start this command" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="shell redirections")
def test_closed_streams_are_a_clear_error() -> None:
    root = Path(__file__).parents[2]
    command = " ".join([f"'{sys.executable}'", *SERVE[1:]])
    for streams, code in (("<&- 2>&1", 2), (">&-", 2), ("</dev/null 2>&-", 1)):
        done = subprocess.run(
            f"{command} {streams}", shell=True, capture_output=True, text=True, cwd=root, check=False, timeout=60
        )
        assert done.returncode == code
        assert "Traceback" not in done.stdout + done.stderr


async def test_options_of_the_command_line_are_stronger_than_settings(tmp_path: Path) -> None:
    log = tmp_path / "log"
    arguments = ("--stdio", "--model", "the/option", "--log-file", str(log))
    async with running(*arguments, command=SERVE) as client:
        await client.initialize(initializationOptions={"model": "the/setting", "log.file": "/nowhere/log"})
        client.open("untitled:1", "x = ")
        assert await client.inline("untitled:1", 0, 4) == []
        assert "the/option" in "".join(client.notices())
        assert (await client.answer(client.ask("fastcoder/debug/text", {"uri": "untitled:1"})))["error"][
            "code"
        ] == -32601
        assert await client.leave() == 0
    assert "the/option" in log.read_text()


async def test_the_process_named_on_the_command_line_is_followed() -> None:
    """vscode-languageclient passes `--clientProcessId`."""
    editor = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    async with running("--stdio", f"--clientProcessId={editor.pid}", command=SERVE) as client:
        await client.initialize()
        editor.kill()
        await editor.wait()
        assert await asyncio.wait_for(client.process.wait(), WAIT_S) == 1


def install(file: Path, version: str) -> None:
    """As installers do: another file in the same place."""
    new = file.with_name("new")
    new.write_text(f'"""The package."""\n\n__version__ = "{version}"\n')
    new.replace(file)


def test_another_version_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "__init__.py"
    install(file, "1.0")
    installed = InstalledVersion(file, "1.0")
    assert installed.news() is None
    install(file, "1.0")  # the same once more
    assert installed.news() is None
    file.unlink()
    assert installed.news() is None
    install(file, "1.1")
    told = installed.news()
    assert told is not None
    assert "1.1 is installed" in told
    assert "1.0 is running" in told
    assert installed.news() is None
    install(file, "1.2.dev1")
    assert "1.2.dev1" in (installed.news() or "")
    file.write_text("no version")
    assert installed.news() is None


async def test_opening_a_file_tells_of_a_new_version(tmp_path: Path) -> None:
    copy = tmp_path / "fastcoder_lsp"
    shutil.copytree(
        Path(fastcoder_lsp.__file__).parent, copy, ignore=shutil.ignore_patterns("*.nb[ic]", "bench", "train")
    )
    serve = (sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "serve")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "FASTCODER_CACHE": str(tmp_path / "cache")}
    async with running(command=serve, environment=environment) as client:
        await client.initialize(initializationOptions={"enabled": False})
        client.open("file:///a.py", "x = 1\n")
        await client.call("fastcoder/stats", {})
        install(copy / "__init__.py", "9.9.9")
        for name in ("b", "c"):
            client.open(f"file:///{name}.py", "x = 1\n")
        await client.call("fastcoder/stats", {})
        [told] = client.notices()
        assert "version 9.9.9 is installed" in told
