"""What a mark has run, and what it has left out with a word; in one process, and in two that share the tests out."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.groups import group

ROOT = Path(__file__).parents[2]
TESTS = """
import hypothesis, os, pytest
from pathlib import Path
from tests.examples import examples

def test_unmarked():
    assert Path(os.environ["FASTCODER_KERNELS"]).is_absolute()

@pytest.mark.ci
def test_slow():
    assert examples(400) == 400

@pytest.mark.long
def test_long(): pass
"""


@pytest.mark.parametrize(
    ("options", "passed", "skipped"),
    [
        ((), 1, {"ci: only with --ci or --long", "long: only with --long"}),
        (("--ci",), 2, {"long: only with --long"}),
        pytest.param(("--long", "-n", "2"), 3, set(), marks=pytest.mark.ci),
    ],
)
def test_what_runs(options: tuple[str, ...], passed: int, skipped: set[str], tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(TESTS, encoding="utf-8")
    config = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *config, "-p", "tests.conftest", "-rs", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert re.search(rf"^{passed} passed", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert set(re.findall(r"SKIPPED .*: ((?:ci|long): .*)", done.stdout)) == skipped


PROCESSES = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(6))
def test_where(number):
    with pathlib.Path(__file__).with_suffix(".log").open("a") as file:
        file.write(f"{os.getpid()}\\n")
"""


@pytest.mark.ci
def test_two_processes_share_out_whole_files(tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        (tmp_path / f"test_{name}.py").write_text(PROCESSES, encoding="utf-8")
    config = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *config, "-p", "tests.conftest", "-n", "2", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=200, check=True)
    processes = [set(path.read_text(encoding="utf-8").split()) for path in tmp_path.glob("*.log")]
    assert [len(each) for each in processes] == [1, 1, 1]
    assert len(set.union(*processes)) == 2
    assert group("tests/faults/test_a.py::test_b[c]") == group("tests/faults/test_d.py::test_e")
    assert group("tests/lsp/test_a.py::test_b[c::d]") != group("tests/lsp/test_d.py::test_e")
