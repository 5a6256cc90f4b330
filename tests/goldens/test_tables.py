"""What the product offers, and what it says when it refuses: settings, commands, drafters, methods, reasons, errors."""

import argparse
import errno
import shlex
from contextlib import redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.goldens import adapter
from tests.goldens.golden import Goldens, Normal
from tests.goldens.said import reasons_and_errors

UNFORESEEN = (
    MemoryError(),
    OSError(errno.ENOSPC, "No space left on device"),
    PermissionError(errno.EACCES, "Permission denied", "a/file"),
    ModuleNotFoundError("No module named 'x'"),
    RuntimeError("cannot allocate memory"),
    ValueError("what nothing foresaw"),
)


def test_offers(goldens: Goldens, monkeypatch: pytest.MonkeyPatch) -> None:
    goldens.check("settings", adapter.settings())
    goldens.check("drafters", adapter.drafters())
    goldens.check("methods", adapter.methods())
    goldens.check("commands", dict(_options(_whole_parser(monkeypatch))))


def test_reasons_and_errors(goldens: Goldens) -> None:
    said: dict[str, Any] = {
        "codes of empty answers": adapter.reason_codes(),
        "why a file is not read": adapter.exclusions(),
        "exit codes": adapter.errors(),
        "unforeseen": [adapter.understood_as(error) for error in UNFORESEEN],
    }
    goldens.check("reasons_and_errors", said | reasons_and_errors(adapter.errors()))


def test_refused_commands(
    goldens: Goldens,
    small_model: Path,
    environment: dict[str, str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("FASTCODER_CACHE", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, environment[name])
    Path("a.py").write_text("x = 1\n", encoding="utf-8")
    Path("long.py").write_text("x" * 6_000, encoding="utf-8")
    Path(".env").write_text("KEY=1\n", encoding="utf-8")
    Path("binary.py").write_bytes(b"\xff\xfe\x00")
    Path("folder").mkdir()
    Path("broken").mkdir()
    for name, text in (("config.json", "{}"), ("tokenizer.json", "{}"), ("model.safetensors", "")):
        (Path("broken") / name).write_text(text, encoding="utf-8")
    paths = {str(small_model): "SMALL", str(tmp_path): "HERE", environment["XDG_RUNTIME_DIR"]: "RUNTIME"}
    normal, table = Normal(paths), {}
    for command in goldens.recorded("refused_commands"):
        words = shlex.split(command.replace("SMALL", str(small_model)))
        try:
            code: Any = adapter.run_command(words)
        except SystemExit as end:
            code = end.code
        out, err = map(normal.text, capfd.readouterr())
        table[command] = {"exit": code, "out": out.splitlines(), "err": _without_usage(err)}
    goldens.check("refused_commands", table)


def _without_usage(err: str) -> list[str]:
    """The lines of stderr without progress and argparse's usage; its quotes depend on Python's version."""
    lines = (line for line in err.splitlines() if not line.startswith(("usage:", " ")) and not line.endswith("…"))
    return [line.replace("'", "") if "choose from" in line else line for line in lines]


def _whole_parser(monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser:
    """The parser of all commands, taken where it is asked to parse."""
    taken: list[argparse.ArgumentParser] = []

    def take(parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        taken.append(parser)
        raise SystemExit(0)

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", take)
        with pytest.raises(SystemExit):
            adapter.run_command([])
    return taken[0]


def _options(parser: argparse.ArgumentParser) -> list[tuple[str, list[str]]]:
    """Command → its options, each with its default, choices and help; verbs as commands."""
    if parser.get_default("module") is not None:  # a benchmark, which adds its options when it is asked to parse
        with suppress(SystemExit), redirect_stderr(StringIO()):
            parser.parse_known_args([])
    options, below = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in sorted(action.choices):
                below += _options(action.choices[name])
        elif not isinstance(action, argparse._HelpAction):
            name = "/".join(action.option_strings) or str(action.metavar or action.dest)
            choices = f" of {list(action.choices)}" if action.choices else ""
            options.append(f"{name}{choices}, {action.nargs}, default {action.default!r}: {action.help}")
    return [(parser.prog, [f"{parser.description}", f"{parser.epilog}", *options]), *below]
