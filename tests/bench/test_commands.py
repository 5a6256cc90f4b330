"""`fastcoder-lsp bench`: each benchmark is a module with options, and shared work is done in one place."""

import ast
import json
import re
import shlex
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import benchmarks
import fastcoder_lsp
from benchmarks.datasets import spread
from benchmarks.wire import Options, run
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


INSTALLED = Path(fastcoder_lsp.__file__).with_name("bench")

ONE_PLACE = {
    "DecodeRequest": "benchmarks/harness.py",
    "engines.load": "fastcoder_lsp/bench/model.py",
    "Tokenizer.load": "fastcoder_lsp/bench/model.py",
    "models.find": "fastcoder_lsp/bench/model.py",
    "load_runtime": "benchmarks/product.py",
}

"""What is called → the one file that calls it."""


@pytest.mark.parametrize("called", ONE_PLACE)
def test_it_is_done_in_one_place(called: str) -> None:
    calls = {
        file.relative_to(HOUSE.parent).as_posix()
        for folder in (HOUSE, INSTALLED)
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == called
    }
    assert calls == {ONE_PLACE[called]}


def test_some_of_many_are_evenly_spread() -> None:
    assert spread(range(10), 4) == (0, 2, 5, 7)
    assert spread("abc", 5) == spread("abc", None) == ("a", "b", "c")
    assert np.ptp(np.diff(spread(range(1000), 7))) == 1


def test_each_question_has_its_way_there_and_its_way_back(tmp_path: Path) -> None:
    target = tmp_path / "wire.json"
    assert run(Options(requests=20, lines=50, pause_ms=0.0, json=target)) == 0
    told = json.loads(target.read_text())
    assert {len(told[name]) for name in ("question", "answer", "both")} == {20}
    assert all(there > 0 and back > 0 for there, back in zip(told["question"], told["answer"], strict=True))
