"""The choice of changed tests, the extra `torch`, and GitHub's workflows and forms."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement

from fastcoder_lsp.cli.main import parser
from fastcoder_lsp.extensions import COMMANDS
from scripts.lib.changed_tests import affected_tests, changed_files, untouched
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
def test_tests_that_a_changed_file_affects(checkout: Path, changed: str, tests: set[str]) -> None:
    assert affected_tests(checkout, [changed]) == tuple(sorted(f"tests/{name}.py" for name in tests))


@pytest.mark.parametrize("changed", ["pyproject.toml", "tests/conftest.py"])
def test_a_file_that_affects_every_test(checkout: Path, changed: str) -> None:
    assert affected_tests(checkout, ["docs/more.md", changed]) == ("tests",)


def test_neighbours_that_nothing_touched() -> None:
    assert untouched([]) == ("tests/papers", "tests/torch_engines", "tests/team")
    assert untouched(["fastcoder_lsp/papers/rest.py", "tests/team/test_keys.py"]) == ("tests/torch_engines",)


def test_files_changed_since_a_commit(checkout: Path) -> None:
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


def test_the_program_names_the_packages_of_the_extra_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [Requirement(one).name for one in project["optional-dependencies"]["torch"]] == list(
        COMMANDS["train"].packages
    )


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


@pytest.mark.ci
def test_workflows_and_forms_are_what_the_schemas_say(tmp_path: Path) -> None:
    """The published schemas, as check-jsonschema carries them: nothing is fetched but that tool."""
    checker = tool("check-jsonschema", tmp_path / "checker")
    forms = [FORMS / "fault.yml", FORMS / "wish.yml"]
    for schema, files in (("vendor.github-workflows", WORKFLOWS), ("vendor.github-issue-forms", forms)):
        command = [str(checker), "--builtin-schema", schema, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


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
def test_scripts_that_workflows_run_exist(path: Path) -> None:
    named = re.findall(r"(?<![\w/.-])(?:scripts|\.ci)/[\w./-]+", "\n".join(commands(path)))
    assert named
    assert not [name for name in named if not (ROOT / name).is_file()]


def test_forms_ask_for_a_report_that_exists() -> None:
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
