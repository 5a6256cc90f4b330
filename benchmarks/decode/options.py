"""The command line of `bench decode`."""

import argparse

from benchmarks.drafting.options import PAPER_TOKENS, REPLAYED, add_setting, add_tasks

DECODED = f"{REPLAYED},recycling,recycling-paper,jacobi,lookahead,auto"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Decode every task plainly and with each drafter, one after the other, and compare outputs and "
        "times. Times are without prefill. The worst speed-up is the lowest median of a task of at least 48 tokens."
    )
    parser.epilog = "Example: fastcoder-lsp bench decode --limit 24 --nodes 8 --drafters fastcoder,cacheback"
    add_tasks(parser)
    add_setting(parser, DECODED, nodes=None)
    parser.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="sample at this temperature; default: 0, greedy"
    )
    parser.add_argument(
        "--rule",
        choices=("keyed", "rejection"),
        default="keyed",
        help="what accepts sampled guesses: the tokens of plain sampling, or its distribution; default: keyed",
    )
    parser.add_argument(
        "--tokens", type=int, default=PAPER_TOKENS, metavar="N", help=f"most of a task; default: {PAPER_TOKENS}"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="times that every pair is run; default: 3")
