"""What a machine without an NVIDIA GPU installs: made of pyproject, without what is left out, found by the program."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fastcoder_lsp.cli.main import LEFT_OUT
from scripts import cpu_requirements


def test_the_file_is_what_the_script_makes() -> None:
    """After a change of dependencies or constraints: .venv/bin/python scripts/cpu_requirements.py."""
    assert cpu_requirements.TARGET.read_text(encoding="utf-8") == cpu_requirements.content()


def test_it_lacks_the_large_ones() -> None:
    names = {line.partition("==")[0].lower() for line in cpu_requirements.content().splitlines()}
    assert not names & {"torch", "transformers", "accelerate", "sympy", "networkx"}
    assert {"numba", "llvmlite", "tokenizers", "pygls", "attrs", "httpx2"} <= names


def test_the_program_knows_what_is_left_out() -> None:
    """It tells how to get it."""
    project = tomllib.loads((cpu_requirements.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert list(LEFT_OUT) == project["tool"]["fastcoder"]["not-for-cpu"]


def test_what_another_system_needs_is_in_it() -> None:
    """pip installs the list and nothing else: what Windows alone needs, unpinned, because it is not installed here."""
    assert 'colorama; platform_system == "Windows"' in cpu_requirements.content().splitlines()


def test_who_needs_what_was_left_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dependency that brings torch after all would undo the light way."""
    monkeypatch.setattr(cpu_requirements, "requires", lambda name: ["torch"] if name == "numba" else [])
    with pytest.raises(ValueError, match="torch is needed by one of numba"):
        cpu_requirements.content()


def test_the_program_says_where_it_is_before_anything_else_is_installed() -> None:
    """With the standard library alone: -S leaves site-packages out."""
    command = ("-S", "-m", "fastcoder_lsp.cli.main", "--cpu-requirements")
    root = cpu_requirements.ROOT
    done = subprocess.run(
        [sys.executable, *command], cwd=root, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert Path(done.stdout.strip()) == cpu_requirements.TARGET, done.stderr
