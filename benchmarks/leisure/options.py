"""The command line of `bench leisure`."""

import argparse
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Cut lines of a tree near their middle and ask the real server there by key, with ample time: how many first "
        "lines are right, how many texts are empty, and how long they take. Then ask once more after a rest, and "
        "report how many of these first lines are those of `fastcoder-lsp complete` (parity)."
    )
    parser.epilog = "Example: fastcoder-lsp bench leisure --base ../shared/data/replay/svcs.base.tar.gz --places 40"
    parser.add_argument(
        "--base",
        "--replay",
        type=Path,
        dest="base",
        metavar="DIR/NAME",
        help="the history whose first tree is asked in, or its archive DIR/NAME.base.tar.gz; default: structlog",
    )
    parser.add_argument("--places", type=int, default=40, metavar="N", help="default: 40")
    parser.add_argument("--rest", type=float, default=2.0, metavar="SECONDS", help="before the second ask; default: 2")
    parser.add_argument("--seed", type=int, default=5, metavar="N", help="of the choice of places")
    parser.add_argument("--model", default="auto", help="as the setting `model`")
    parser.add_argument("--engine", default="auto", help="as the setting `engine`")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the server, such as context.enabled=false; may be given again",
    )
    parser.add_argument(
        "--server",
        metavar="COMMAND",
        help="ask another server, such as 'OLD/.venv/bin/fastcoder-lsp serve'; parity is with this one's `complete`",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results to FILE")
