"""The wheel and the source distribution that pip builds: what they hold, and that the wheel's program starts."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from fastcoder_lsp import __version__
from tests.scripts.conftest import pip

pytestmark = pytest.mark.ci  # pip fetches the build backend, twice


def test_the_source_distribution_holds_what_is_read_built_and_tested(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    pages = {"README.md", "LICENSE", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"}
    assert (
        pages | {"constraints.txt", "docs/install.md", "tests/conftest.py", "scripts/test", "pyproject.toml"} <= names
    )
    assert not [name for name in names if name.startswith((".scratch", ".venv", "editors")) or "__pycache__" in name]


def test_the_wheel_holds_the_program_and_its_data(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "fastcoder_lsp/requirements-cpu.txt" in names
    assert "fastcoder_lsp/cli/play/sample/web/src/api.ts" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    benches = {name.rpartition("/")[2] for name in names if name.startswith("fastcoder_lsp/bench/")}
    assert benches == {"__init__.py", "engine.py", "model.py", "report.py"}
    assert {name.partition("/")[0] for name in names} == {"fastcoder_lsp", f"fastcoder_lsp-{__version__}.dist-info"}


def test_the_wheels_program_starts_without_any_other_package(wheel: Path, tmp_path: Path) -> None:
    """Installed by itself, in isolation from this checkout: the version, and the list of what else to install."""
    pip("install", "--no-deps", "--no-index", "--target", str(tmp_path), str(wheel))
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from fastcoder_lsp.cli.main import main; sys.exit(main())"
    )

    def said(option: str) -> str:
        command = [sys.executable, "-I", "-S", "-c", program, str(tmp_path), option]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.strip()

    assert said("--version") == f"fastcoder-lsp {__version__}"
    assert said("--cpu-requirements") == str(tmp_path / "fastcoder_lsp" / "requirements-cpu.txt")
