"""The command line of `bench typing`."""

import argparse
from pathlib import Path

from benchmarks.datasets.histories import NAMES


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Type runs of recorded histories key by key, with each value of `context.enabled` in turn, over the same keys. "
        "Time is reckoned: steps and prompts take what they take on an idle machine, so that the figures are the same "
        "on a busy one. A part that was typed is kept in --answers: a stopped run goes on where it ended."
    )
    parser.epilog = "Example: fastcoder-lsp bench typing --histories svcs --keys 480 --answers typing.jsonl"
    parser.add_argument("--histories", default=",".join(NAMES), metavar="NAME,…", help="of the folder `replay`")
    parser.add_argument("--keys", type=int, metavar="N", help="of each history at most; default: all of it")
    parser.add_argument("--model", default="auto", help="a name as in the setting (default: auto)")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="as the setting; no figure depends on it")
    parser.add_argument(
        "--costs", default="vnni", choices=("amx", "vnni"), help="whose times are reckoned with (default: vnni)"
    )
    parser.add_argument(
        "--slower", type=float, default=1.0, metavar="FACTOR", help="of a machine that takes so many times longer"
    )
    parser.add_argument("--speed", type=float, default=3.0, metavar="KEYS", help="a second (default: 3)")
    parser.add_argument("--seed", type=int, default=0, help="of the runs and the rhythm (default: 0)")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="what was typed already, a line for each part")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results")
