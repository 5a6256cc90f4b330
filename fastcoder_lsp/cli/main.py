"""`fastcoder-lsp`: finds the command, prints an error as one line and its hint, exits with a code that means something.

Exit codes: 0 done; 1 failed; 2 wrong use; 3 the model is missing; 4 the model is damaged; 5 no network; 6 no memory or
disk; 130 interrupted.
"""

import argparse
import io
import sys
from collections.abc import Sequence

from fastcoder_lsp import __version__
from fastcoder_lsp.cli import bench, complete, corpus, doctor, index, model, play, serve, train
from fastcoder_lsp.errors import FastcoderError

COMMANDS = (play, serve, complete, model, doctor, index, corpus, bench, train)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="fastcoder-lsp",
        description="AI ghost text from a code model on your own machine, for every editor that speaks LSP.",
        epilog="Try: fastcoder-lsp play",
    )
    top.add_argument("--version", action="version", version=f"fastcoder-lsp {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without some letter gets a mark, not a traceback
    arguments = parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except FastcoderError as error:
        print(f"fastcoder-lsp: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough; there is nobody to tell.
        sys.stderr.close()
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
