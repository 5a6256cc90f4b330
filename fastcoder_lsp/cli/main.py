"""`fastcoder-lsp`: finds the command, prints an error as one line and its hint, and exits with a code.

Exit codes: 0 done; 1 failed; 2 wrong use; 3 the model is missing; 4 the model is damaged; 5 no network; 6 no memory or
disk; 7 a package is missing or broken; 70 a fault of this program; 130 interrupted.

Imports next to nothing before it leaves the working directory (`start`): libraries would read files that a repository
put there.
"""

import argparse
import io
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from fastcoder_lsp import __version__
from fastcoder_lsp.cli.start import leave_folder, name_fully
from fastcoder_lsp.errors import FAULT_HINT, FastcoderError, InstallationError, understood

COMMANDS = (
    "play",
    "serve",
    "complete",
    "model",
    "editor",
    "doctor",
    "host",
    "http",
    "team",
    "index",
    "corpus",
    "bench",
    "train",
    "report",
)
FAULT = 70  # exit code of internal errors, as in sysexits.h


def parser(named: str = "") -> argparse.ArgumentParser:
    """The parser of the named command, without importing others: `doctor` must run where their packages are broken."""
    top = _Parser(
        prog="fastcoder-lsp",
        description="AI ghost text from a code model on your own machine, for every editor that speaks LSP.",
        epilog="Try: fastcoder-lsp play",
    )
    top.add_argument("--version", action="version", version=f"fastcoder-lsp {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    needed = () if named == "--version" else (named,) if named in COMMANDS else COMMANDS
    for command in needed:
        import_module(f"fastcoder_lsp.cli.{command}").add_parser(commands)
    return top


class _Parser(argparse.ArgumentParser):
    """Reports errors without obeying the control characters in them, and suggests the nearest command or option."""

    def error(self, message: str) -> NoReturn:
        from fastcoder_lsp.core.controls import visible

        super().error(visible(message))

    def parse_known_args(self, *arguments: Any, **named: Any) -> Any:
        """As its parent, but refuses unknown options, and suggests an option of this command."""
        found, unknown = super().parse_known_args(*arguments, **named)
        if unknown:
            option = next((one.partition("=")[0] for one in unknown if one.startswith("--")), "")
            near = _nearest(option, self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += _nearest(str(value), map(str, action.choices or ()))
            raise


def _nearest(word: str, known: Iterable[str]) -> str:
    """A question for the known word that is nearest to `word`, if one is near."""
    near = get_close_matches(word, known, n=1) if word else []
    return f"; did you mean {near[0]}?" if near else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` None: this process's own, whose working directory is left."""
    here = leave_folder() if argv is None else Path.cwd()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # unsupported letters print as a mark, without a traceback
    words = sys.argv[1:] if argv is None else argv
    try:
        arguments = parser(words[0] if words else "").parse_args(argv)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 a package is missing or broken
        return _failed(error)
    from fastcoder_lsp.cli.terminal import controls_shown

    with controls_shown():
        return _run(arguments, here)


def _run(arguments: argparse.Namespace, here: Path | None) -> int:
    try:
        name_fully(arguments, here)
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has gone.
        sys.stderr.close()
        return 1
    except Exception as error:  # noqa: BLE001 the last handler that can report it in one line
        return _failed(error)
    return code


def _failed(error: Exception) -> int:
    explained = error if isinstance(error, FastcoderError) else _left_out(error) or understood(error)
    print(f"fastcoder-lsp: {explained}", file=sys.stderr)
    if os.environ.get("FASTCODER_TRACEBACK") and explained is not error:
        traceback.print_exception(error)
    return explained.exit_code if explained is error or explained.hint != FAULT_HINT else FAULT


def _left_out(error: Exception) -> InstallationError | None:
    """How to install the extra `torch`, if the error is for lack of it; else None."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not name:
        return None
    from fastcoder_lsp.extensions import COMMANDS
    from fastcoder_lsp.model.machine import require_packages

    needed = COMMANDS["train"].packages
    try:
        require_packages("this command", *(needed if name in needed else ()))
    except InstallationError as lacking:
        return lacking
    return None


if __name__ == "__main__":
    sys.exit(main())
