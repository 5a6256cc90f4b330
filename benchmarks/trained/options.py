"""The command line of `bench trained`."""

import argparse
from pathlib import Path

from fastcoder_lsp.config.engines import ENGINES


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Decode with a tuned model, and with the one it was tuned from: Jacobi's fast-forward and "
        "stationary tokens for each n, SDSAT's accepted guesses for each k, speed against plain decoding, exact match "
        "of single-line infilling, and whether programs with the model's line pass their tests (run in a process with "
        "limits on time, memory and files)."
    )
    parser.epilog = "Example: fastcoder-lsp bench trained --model tuned/model --before auto --limit 12"
    parser.add_argument("--model", required=True, help="the tuned model: OUT/model of `train`")
    parser.add_argument("--before", metavar="MODEL", help="the model that it was tuned from, to compare")
    parser.add_argument("--parts", default="counts,speed,exact,functional", help="of counts, speed, exact, functional")
    parser.add_argument(
        "--data", nargs="+", type=Path, metavar="SOURCE", help="folders of code for counts and speed; default: RepoEval"
    )
    parser.add_argument("--engine", default="auto", choices=ENGINES, help="as the setting `engine`")
    parser.add_argument("--limit", type=int, default=16, metavar="N", help="prompts for counts and speed; default: 16")
    parser.add_argument("--tokens", type=int, default=96, metavar="N", help="tokens of each output; default: 96")
    parser.add_argument("--blocks", default="16,32", metavar="N,…", help="n of Jacobi decoding; default: 16,32")
    parser.add_argument("--ks", default="1,3,5,8,13", metavar="K,…", help="k of SDSAT; default: 1,3,5,8,13")
    parser.add_argument(
        "--drafters",
        default="jacobi,lookahead,sdsat,auto,auto:without=trained",
        metavar="NAMES",
        help="for speed; default: jacobi,lookahead,sdsat,auto,auto:without=trained",
    )
    parser.add_argument("--quality-limit", type=int, default=100, metavar="N", help="tasks of infilling; default: 100")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results to FILE")
