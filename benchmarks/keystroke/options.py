"""The command line of `bench keystroke`."""

import argparse
from pathlib import Path

DRAFTERS = "none,fastcoder,cacheback,auto"
SPEEDS = "5,10"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Type runs of a recorded history against the real server, at 5 and 10 characters a second, and "
        "report the time to ghost text, what was accepted, and what it cost. Each drafter at each speed types the same "
        "runs with the same pauses in a fresh workspace. The plain call types runs of 480 keys in all, chosen by the "
        "seed, and takes under 20 minutes."
    )
    parser.epilog = "Example: fastcoder-lsp bench keystroke --replay ../shared/data/replay/structlog --html typing.html"
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="DIR/NAME",
        help="NAME.base.tar.gz and NAME.steps.jsonl in DIR; default: structlog",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="type N runs instead, whatever their length")
    parser.add_argument("--drafters", default=DRAFTERS, metavar="NAMES", help=f"default: {DRAFTERS}")
    parser.add_argument("--speed", default=SPEEDS, metavar="KEYS", help=f"keys a second; default: {SPEEDS}")
    parser.add_argument("--ablation", action="store_true", help="`auto` with each mechanism switched off in turn, too")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="accept only what is right: a text that comes next as a whole, or the rest of the line; 3 characters at "
        "least",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the choice and of the pauses")
    parser.add_argument("--model", default="auto", help="as the setting `model`")
    parser.add_argument("--engine", default="auto", help="as the setting `engine`")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the server, such as budget.automatic_ms=200; may be given again",
    )
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="type nothing and start no server: what full answers save with this setting and without, run by run, "
        "such as context.enabled=true; may be given again",
    )
    parser.add_argument(
        "--server",
        metavar="COMMAND",
        help="type against another server, such as 'OLD/.venv/bin/fastcoder-lsp serve'; the ceiling stays this one's",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results to FILE")
    parser.add_argument("--html", type=Path, metavar="FILE", help="draw the report into FILE, one page without network")
    parser.add_argument("--from", type=Path, dest="source", metavar="FILE", help="type nothing: draw this JSON report")
