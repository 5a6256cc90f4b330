"""The command line of `bench quality`."""

import argparse
from pathlib import Path

from benchmarks.datasets.repositories import SPLITS
from benchmarks.quality.arms import ARMS


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Ask infilling and repository tasks in several ways and compare the answers pairwise, with "
        "standard errors. Answers are kept in --answers: a stopped run goes on where it ended."
    )
    parser.epilog = "Example: fastcoder-lsp bench quality --suites boundary,word --arms plain,anchored --limit 100"
    parser.add_argument("--tasks", type=Path, metavar="DIR", help="folder with the suites' data")
    parser.add_argument(
        "--suites", default="start,boundary,word,repoeval", help="of start, boundary, word, repoeval, api, lines"
    )
    parser.add_argument(
        "--split", default="held-out", choices=SPLITS, help="repositories of api and lines: for fitting, or kept aside"
    )
    parser.add_argument("--arms", default="plain,anchored", help=f"of {', '.join(ARMS)}")
    parser.add_argument("--engines", default="auto", help="kinds of engine, as the setting `engine`")
    parser.add_argument("--model", default="auto", help="as the setting `model`")
    parser.add_argument("--limit", type=int, metavar="N", help="take N tasks of each suite, evenly spread")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="where answers are kept (default: in the cache)")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the first arm's prompts, and do no more")
    parser.add_argument(
        "--import", dest="outside", type=Path, metavar="FILE", help="answers of another program to these"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results to FILE")
