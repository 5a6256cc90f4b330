"""What is asked of the machine: the driver's program, however it behaves, and the memory that a container leaves."""

import time
from pathlib import Path

import pytest

from fastcoder_lsp.model.machine import _container, ask_driver, available_bytes, installed_bytes


def install(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a program the only nvidia-smi there is."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("script", "bytes_", "problem"),
    [
        ("echo 24564", 24564 << 20, ""),
        ("echo NVIDIA-SMI has failed because; exit 9", 0, "NVIDIA-SMI has failed"),
        ("exit 1", 0, "no output"),
        ("exec sleep 600", 0, "did not answer"),
        ("sleep 600 & echo 5; wait", 0, "did not answer"),
        ("trap '' TERM INT HUP; while :; do sleep 1; done", 0, "did not answer"),
        ("exec yes", 0, "reported no memory size"),
    ],
)
def test_the_driver_is_asked_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, bytes_: int, problem: str
) -> None:
    """One that hangs, starts others, ignores signals or talks for ever costs the time it is given."""
    install(tmp_path, script, monkeypatch)
    answer = ask_driver(timeout_s=1.0 if problem == "did not answer" else 60.0)
    assert answer.memory_bytes == bytes_
    assert problem in answer.problem
    assert bool(problem) == bool(answer.problem)


def test_no_program_is_taken_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, f"touch {tmp_path}/ran; echo 1", monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ":.:relative")
    assert ask_driver(timeout_s=1.0).memory_bytes == 0
    time.sleep(0.1)
    assert not (tmp_path / "ran").exists()


def test_a_containers_limit_counts(tmp_path: Path) -> None:
    """The least of all groups above, in both versions of the kernel's way; caches of files can be had."""
    root, own = tmp_path / "cgroup", tmp_path / "own"
    for group, limit, used in (("", "max", 0), ("a", "4000", 1000), ("a/b", "3000", 2500)):
        (root / group).mkdir(parents=True, exist_ok=True)
        (root / group / "memory.max").write_text(f"{limit}\n")
        (root / group / "memory.current").write_text(f"{used}\n")
        (root / group / "memory.stat").write_text("anon 1\ninactive_file 300\n")
    own.write_text("0::/a/b\n")
    assert sorted(_container(root, own)) == [(3000, 800), (4000, 3300)]
    (root / "memory" / "a").mkdir(parents=True)
    for name, value in (("limit_in_bytes", 5000), ("usage_in_bytes", 4000)):
        (root / "memory" / "a" / f"memory.{name}").write_text(f"{value}\n")
    (root / "memory" / "a" / "memory.stat").write_text("total_inactive_file 100\n")
    own.write_text("9:name=systemd:/a\n4:memory:/a\n")
    assert list(_container(root, own)) == [(5000, 1100)]
    assert list(_container(root, tmp_path / "absent")) == []
    assert 0 < available_bytes() < installed_bytes()
