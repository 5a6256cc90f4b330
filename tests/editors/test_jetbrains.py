"""The template for JetBrains IDEs: no IDE is to be had here, so what it would send is held against the server."""

import json
from pathlib import Path
from typing import Any

from fastcoder_lsp.cli.main import parser
from fastcoder_lsp.config import SettingsLayer, resolve

TEMPLATE = Path(__file__).parents[2] / "editors" / "jetbrains" / "fastcoder"


def read(name: str) -> dict[str, Any]:
    content = json.loads((TEMPLATE / name).read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def test_the_command_is_one_that_the_program_takes() -> None:
    for command in read("template.json")["programArgs"].values():
        program, *arguments = command.split()
        assert program.removesuffix(".exe") == "fastcoder-lsp"
        assert parser(arguments[0]).parse_args(arguments).run


def test_each_pattern_stands_for_one_language() -> None:
    mappings = read("template.json")["fileTypeMappings"]
    patterns = [pattern for mapping in mappings for pattern in mapping["fileType"]["patterns"]]
    assert len(patterns) == len(set(patterns)) > 10
    assert all(mapping["languageId"] for mapping in mappings)


def test_the_settings_are_ones_that_the_server_takes() -> None:
    _, problems = resolve([SettingsLayer("template", read("initializationOptions.json"), trusted=True)])
    assert not problems
