"""The command line of `bench priors`."""

import argparse
from pathlib import Path

from benchmarks.drafting.options import add_tasks


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Record what the model says with its best ids at 64 rows a step, once; learn the priors of `auto` "
        "from it; and replay `auto` with priors learnt on all repositories but the task's own."
    )
    parser.epilog = "Example: fastcoder-lsp bench priors --limit 48 --out auto_priors.json"
    add_tasks(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the priors learnt from all tasks to FILE")
