"""What a machine without an NVIDIA GPU installs, and for which places its wheels are looked for."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fastcoder_lsp.cli.main import LEFT_OUT
from scripts import cpu_requirements

ROOT = Path(__file__).parents[2]

ASK = """
import sys
sys.path.insert(0, sys.argv[1])
import check_wheels as found
for place in found.PLACES:
    words = found.command(place, "3.11", "folder")
    wanted = [word for word in words if "==" in word or word == "colorama"]
    platforms = [word for before, word in zip(words, words[1:]) if before == "--platform"]
    print(place.name, len(wanted), "colorama" in wanted, any(one.startswith("numba==") for one in wanted), *platforms)
"""


def test_every_place_is_asked_for_all_that_it_needs() -> None:
    """Markers are those of the place, not of the machine that asks; nothing is built; Intel Macs do without numba."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(ROOT / "scripts")], capture_output=True, text=True, check=True, timeout=120
    )
    found = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert set(found) == {"macos-arm64", "macos-x86_64", "linux-aarch64", "windows-x86_64"}
    for name, (count, colorama, numba, *platforms) in found.items():
        assert int(count) > 35
        assert (colorama == "True") is (name == "windows-x86_64")
        assert (numba == "True") is (name != "macos-x86_64")
        assert all(
            platform.endswith(("arm64", "x86_64", "universal2", "aarch64", "win_amd64")) for platform in platforms
        )
    assert "macosx_11_0_arm64" in found["macos-arm64"]
    assert "manylinux_2_28_aarch64" in found["linux-aarch64"]


def test_a_name_that_is_no_place_is_said() -> None:
    """Nothing looked at is nothing found: a misspelt place must not pass."""
    script = ROOT / "scripts" / "check_wheels.py"
    done = subprocess.run([sys.executable, script, "macos"], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert "Places: macos-arm64," in done.stdout


def test_the_file_is_what_the_script_makes() -> None:
    """After a change of dependencies or constraints: .venv/bin/python scripts/cpu_requirements.py."""
    assert cpu_requirements.TARGET.read_text(encoding="utf-8") == cpu_requirements.content()


def test_it_lacks_the_large_ones() -> None:
    names = {line.partition("==")[0].lower() for line in cpu_requirements.content().splitlines()}
    assert not names & {"torch", "transformers", "accelerate", "sympy", "networkx"}
    assert {"numba", "llvmlite", "tokenizers", "pygls", "attrs", "httpx2"} <= names


def test_the_program_knows_what_is_left_out() -> None:
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
