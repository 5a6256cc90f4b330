"""`fastcoder-lsp bench`: each benchmark is a folder with a command line; a readme maps tables to commands."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

import benchmarks
from fastcoder_lsp.cli.bench import BENCHMARKS
from fastcoder_lsp.cli.main import parser

HOUSE = Path(benchmarks.__file__).parent
README = (HOUSE / "README.md").read_text(encoding="utf-8")
TABLES = [
    [cell.strip() for cell in row.strip("|").split("|")]
    for row in README.partition("## Which file makes which table")[2].partition("\n## ")[0].splitlines()
    if row.startswith("| ") and not row.startswith(("| table", "| ---"))
]
COMMANDS = [command for *_, cell in TABLES for command in re.findall(r"`fastcoder-lsp (bench [^`]*)`", cell)]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_is_a_folder_of_its_name(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--help` shows its options and an example that its own parser takes."""
    monkeypatch.setenv("COLUMNS", "1000")
    package = "fastcoder_lsp.bench.engine" if name == "engine" else f"benchmarks.{name}"
    assert callable(import_module(f"{package}.run").run)
    with pytest.raises(SystemExit) as ended:
        parser("bench").parse_args(["bench", name, "--help"])
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    example = re.search(r"Example: fastcoder-lsp (bench .*)", said)
    assert example is not None
    assert parser("bench").parse_args(shlex.split(example.group(1))).run is not None


def test_each_folder_is_known() -> None:
    """To the command line, or to the readme as something that others use."""
    folders = {path.parent.name for path in HOUSE.glob("*/__init__.py")}
    assert folders == {*BENCHMARKS, "gpu", "drafting", "common", "datasets"} - {"engine"}
    assert all(f"`{folder}/`" in README for folder in folders)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readmes_commands_are_taken(command: str) -> None:
    """Each line can be typed as it stands."""
    assert parser("bench").parse_args(shlex.split(command)).run is not None


def test_every_table_has_a_row_and_every_row_a_file() -> None:
    """Each heading of docs/benchmarks.md begins a row, and what a row names exists."""
    page = (HOUSE.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert headings
    assert not [heading for heading in headings if not any(name.startswith(heading) for name, *_ in TABLES)]
    files = [file for _, made_by, _ in TABLES for file in re.findall(r"`([^`]+)`", made_by)]
    assert len(files) == len(TABLES)
    assert not [file for file in files if not (HOUSE / file).is_file()]
    named = {command.split()[1] for command in COMMANDS}
    assert named == set(BENCHMARKS)
