"""`fastcoder-lsp bench`: each benchmark is a module with options, and shared work is done in one place."""

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
    for row in README.partition("## Which command makes which table")[2].partition("\n## ")[0].splitlines()
    if row.startswith("| ") and not row.startswith(("| table", "| ---"))
]

COMMANDS = [command for *_, cell in TABLES for command in re.findall(r"`fastcoder-lsp (bench [^`]*)`", cell)]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_is_a_module_of_its_name(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--help` shows its options and an example that its own parser takes."""
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit) as ended:
        parser("bench").parse_args(["bench", name, "--help"])
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    example = re.search(r"Example: fastcoder-lsp (bench .*)", said)
    assert example is not None
    assert parser("bench").parse_args(shlex.split(example.group(1))).run is not None
    module = import_module("fastcoder_lsp.bench.engine" if name == "engine" else f"benchmarks.{name}")
    assert callable(module.run)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readmes_commands_are_taken(command: str) -> None:
    assert parser("bench").parse_args(shlex.split(command)).run is not None


def test_every_table_of_the_page_has_a_command() -> None:
    """A table is named by its heading and, where there are several below it, by its caption's first words."""
    page = (HOUSE.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    tables = set()
    for section in page.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        first, *captions = re.split(r"^\*\*(?=[^*]+\*\*)", text, flags=re.MULTILINE)
        tables |= {f"{heading}: {caption.partition('**')[0]}" for caption in captions}
        tables |= {heading} if "\n| --- |" in first else set()
    named = {name for name, _ in TABLES if not name.startswith(("docs/", "no table: "))}
    assert named == tables
    assert {command.split()[1] for command in COMMANDS} == set(BENCHMARKS)
