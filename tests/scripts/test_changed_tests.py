"""`scripts/test --changed`: whoever reaches a changed file is run, however it does so, and nobody else."""

import subprocess
from pathlib import Path

import pytest

from scripts.lib.changed_tests import affected_tests, changed_files

FILES = {
    "fastcoder_lsp/__init__.py": "",
    "fastcoder_lsp/low.py": "",
    "fastcoder_lsp/middle/__init__.py": "from fastcoder_lsp.middle.part import x\n",
    "fastcoder_lsp/middle/part.py": "def x():\n    from fastcoder_lsp import low\n",
    "fastcoder_lsp/middle/sample/data.json": "{}",
    "fastcoder_lsp/worker.py": "import fastcoder_lsp.other",
    "fastcoder_lsp/other.py": "",
    "fastcoder_lsp/starter.py": "COMMAND = ['-m', 'fastcoder_lsp.worker']",
    "tests/conftest.py": "import fastcoder_lsp.worker",
    "tests/a/test_middle.py": "from fastcoder_lsp.middle import x",
    "tests/a/test_part.py": "import fastcoder_lsp.middle.part",
    "tests/a/test_started.py": "PROGRAM = 'from fastcoder_lsp.starter import COMMAND'",
    "tests/a/expected.txt": "",
    "tests/a/test_stale.py": "import fastcoder_lsp.deleted",
    "tests/b/conftest.py": "from tests.b.toys import toy",
    "tests/b/toys.py": "from fastcoder_lsp import other",
    "tests/b/test_toy.py": "def test_it(toy): pass",
    "tests/editors/test_editor.py": "",
    "tests/test_pages.py": "PAGE = 'guide.md'",
    "docs/guide.md": "",
    "docs/more.md": "",
    "editors/some/plugin.lua": "",
    "pyproject.toml": "",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("fastcoder_lsp/low.py", {"a/test_middle", "a/test_part"}),  # through an import inside a function
        ("fastcoder_lsp/middle/__init__.py", {"a/test_middle"}),
        ("fastcoder_lsp/middle/sample/data.json", {"a/test_middle", "a/test_part"}),
        ("fastcoder_lsp/other.py", {"a/test_started", "b/test_toy"}),  # a program by its name; a fixture's module
        ("tests/a/test_part.py", {"a/test_part"}),
        ("tests/a/expected.txt", {"a/test_middle", "a/test_part", "a/test_stale", "a/test_started"}),
        ("tests/b/conftest.py", {"b/test_toy"}),
        ("docs/guide.md", {"test_pages"}),
        ("docs/more.md", set()),
        ("editors/some/plugin.lua", {"editors/test_editor"}),
        ("fastcoder_lsp/deleted.py", {"a/test_stale"}),
    ],
)
def test_who_reaches_a_file(checkout: Path, changed: str, tests: set[str]) -> None:
    assert affected_tests(checkout, [changed]) == tuple(sorted(f"tests/{name}.py" for name in tests))


@pytest.mark.parametrize("changed", ["pyproject.toml", "tests/conftest.py"])
def test_what_is_everybodys(checkout: Path, changed: str) -> None:
    assert affected_tests(checkout, ["docs/more.md", changed]) == ("tests",)


def test_what_changed_since(checkout: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null")
        subprocess.run(["git", *who, *arguments], cwd=checkout, check=True, capture_output=True)

    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "first")
    assert changed_files(checkout) == ()
    git("branch", "upstream")
    (checkout / "fastcoder_lsp/low.py").write_text("LOW = 1\n")
    git("commit", "-a", "-m", "second")
    (checkout / "tests/a/new é.py").write_text("")
    (checkout / "docs/more.md").unlink()
    assert changed_files(checkout) == ("docs/more.md", "tests/a/new é.py")
    git("branch", "--set-upstream-to", "upstream")
    assert changed_files(checkout) == ("docs/more.md", "fastcoder_lsp/low.py", "tests/a/new é.py")
    assert changed_files(checkout, "HEAD") == ("docs/more.md", "tests/a/new é.py")
