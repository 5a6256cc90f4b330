"""`fastcoder-lsp play`: type into real files in the terminal and see the ghost text of the real server."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.cli.options import chosen_settings
from fastcoder_lsp.config.environment import python_command

if TYPE_CHECKING:
    from fastcoder_lsp.cli.play.playground import Playground
    from fastcoder_lsp.errors import FastcoderError

SERVER = list(python_command("fastcoder_lsp.cli.main", "serve"))
"""The server that editors start, from this installation."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "play",
        help="type in the terminal and see ghost text",
        description="A small editor that talks to the real language server: type, see ghost text and the time of every "
        "answer, and press Tab to accept. Opens a sample workspace, or FILE; nothing is ever saved. Renames and "
        "missing imports need no model. If the output is not a terminal, plays a short scripted session and prints it.",
        epilog="Example: fastcoder-lsp play src/app.py",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="a file of yours, opened without saving")
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file (default: the setting)")
    parser.add_argument("--engine", help="the engine that runs the model (default: the setting)")
    parser.add_argument("--script", action="store_true", help="play the scripted session, in a terminal too")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play; 0 when it went well."""
    from fastcoder_lsp.cli.play.playground import sample_playground, user_playground
    from fastcoder_lsp.errors import FastcoderError, ModelMissingError
    from fastcoder_lsp.model import find

    options = {name: value for name in ("model", "engine") if (value := getattr(arguments, name)) is not None}
    settings, _ = chosen_settings("play", options)
    missing: FastcoderError | None = None
    try:
        if not settings.remote_url:
            find(settings.model)  # the server would report the same, but only after the screen is drawn
    except ModelMissingError as error:
        if arguments.file is not None or options:
            raise
        missing = error
    place = sample_playground() if arguments.file is None else user_playground(arguments.file)
    if arguments.script or not (sys.stdin.isatty() and sys.stdout.isatty()):
        asyncio.run(_scripted(place, options, missing))
    else:
        asyncio.run(_on_screen(place, options))
    return 0


async def _scripted(place: "Playground", options: dict[str, object], missing: "FastcoderError | None") -> None:
    from fastcoder_lsp.cli.play.script import play_edits, play_script
    from fastcoder_lsp.cli.play.session import PlaySession

    print(f"Playing in {place.root}; nothing is saved.")
    session = PlaySession(place.files, lambda: None)
    try:
        await session.start(SERVER, place.root, options)
        await play_edits(session, place.edits)
        if missing is None:
            await play_script(session, place.steps)
        else:
            print(f"There is no ghost text yet: {missing.message}\n{missing.hint}")
    finally:
        await session.stop()


async def _on_screen(place: "Playground", options: dict[str, object]) -> None:
    from fastcoder_lsp.cli.play.screen import Screen

    await Screen(place).run(SERVER, options)
