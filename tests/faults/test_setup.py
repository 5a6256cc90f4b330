"""`scripts/run` in a checkout that is read-only, locked by a killed start, or being set up already: it ends or works.

Python and pip are stand-ins: what is tried is the script.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.faults.stranger import HANG_S, NAMESPACE, ROOT, require_namespaces

PYTHON = """#!/bin/sh
case "$*" in
    *'-m pip '*' install '*) echo "$*" >>"$LOG.pip" ;;
    *'print("%d.%d"'*) echo 3.11 ;;
    *'-m venv '*)
        while [ -e "$HOLD" ]; do sleep 0.05; done
        echo made >>"$LOG"
        for folder; do :; done
        mkdir -p "$folder/bin"
        cp "$0" "$folder/bin/python"
        printf '#!/bin/sh\\necho "started $1"\\n' >"$folder/bin/fastcoder-lsp"
        chmod +x "$folder/bin/fastcoder-lsp" ;;
esac
"""
FILES = ("scripts/run", "scripts/lib/setup.sh", "pyproject.toml", "constraints.txt")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The script and what it reads, with a Python that installs nothing."""
    root = tmp_path / "checkout"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "python").write_text(PYTHON, encoding="utf-8")
    (root / "python").chmod(0o755)
    return root


def environment(checkout: Path) -> dict[str, str]:
    own = {"PYTHON": str(checkout / "python"), "HOLD": str(checkout / "hold"), "LOG": str(checkout / "log")}
    return os.environ | own


def start(checkout: Path, prefix: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*prefix, "bash", str(checkout / "scripts" / "run")],
        env=environment(checkout),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    with process:
        try:
            out, err = process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return process.returncode, out, err


def test_a_first_start(checkout: Path) -> None:
    assert ended(start(checkout))[:2] == (0, "started play\n")
    assert ended(start(checkout))[:2] == (0, "started play\n")
    assert (checkout / "log").read_text() == "made\n"
    assert not (checkout / ".scratch" / "setup.lock").exists()


def test_a_read_only_checkout(checkout: Path) -> None:
    require_namespaces()
    closed = f'mount --bind {checkout} {checkout} && mount -o remount,ro,bind {checkout} && exec "$@"'
    code, _, err = ended(start(checkout, (*NAMESPACE, "sh", "-c", closed, "sh")))
    assert code == 1
    assert ".scratch cannot be made" in err
    assert "Make it writable for you" in err


@pytest.mark.ci
def test_a_lock_that_a_killed_start_left(checkout: Path) -> None:
    """Beside each other: an unreadable lock is waited for ten seconds."""
    waiting = {}
    for number, holder in enumerate(("", "999999999", str(os.getpid()), "garbage")):
        lock = shutil.copytree(checkout, checkout.with_name(f"copy{number}")) / ".scratch" / "setup.lock"
        lock.mkdir(parents=True)
        if holder:
            (lock / "pid").write_text(f"{holder}\n")
        waiting[lock.parent] = start(lock.parents[1])
    for scratch, process in waiting.items():
        assert ended(process)[:2] == (0, "started play\n"), scratch
        assert list(scratch.iterdir()) == []


def test_two_at_once_set_up_once(checkout: Path) -> None:
    (checkout / "hold").touch()
    first = start(checkout)
    held = checkout / ".scratch" / "setup.lock" / "pid"
    until = time.monotonic() + HANG_S
    while not (held.exists() and held.read_text().strip()) and time.monotonic() < until:
        time.sleep(0.02)
    second = start(checkout)
    assert second.stderr is not None
    line = second.stderr.readline()
    assert f"kill {first.pid}" in line
    (checkout / "hold").unlink()
    assert ended(first)[:2] == (0, "started play\n")
    assert ended(second)[:2] == (0, "started play\n")
    assert (checkout / "log").read_text() == "made\n"


@pytest.mark.ci
def test_a_driver_that_hangs(checkout: Path) -> None:
    assert ended(start(checkout, with_driver(checkout, "exec sleep 600")))[:2] == (0, "started play\n")
    assert installed(checkout)[0].endswith(f"--editable {checkout}")


def test_without_a_gpu_no_torch_is_installed(checkout: Path) -> None:
    ended(start(checkout, with_driver(checkout, "echo none; exit 9")))
    (light,) = installed(checkout)
    assert light.endswith(f"--constraint {checkout}/constraints.txt --editable {checkout}")


def test_with_a_gpu_torch_is_installed(checkout: Path) -> None:
    ended(start(checkout, with_driver(checkout, "echo 'GPU 0: some'")))
    (whole,) = installed(checkout)
    assert whole.endswith(f"--constraint {checkout}/constraints.txt --editable {checkout}[torch]")


def with_driver(checkout: Path, script: str) -> tuple[str, ...]:
    tools = checkout / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (tools / "nvidia-smi").chmod(0o755)
    return ("env", f"PATH={tools}:{os.environ['PATH']}")


def installed(checkout: Path) -> list[str]:
    return (checkout / "log.pip").read_text().splitlines()
