"""The command line of `bench exactness`."""

import argparse

from benchmarks.drafting.options import add_tasks


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Decode from seeded places in the tasks' repositories, plainly and with every drafter, greedily "
        "and sampled, and compare the tokens. Exit code 1 where anything differs."
    )
    parser.epilog = "Example: fastcoder-lsp bench exactness --limit 20 --tokens 32 --engine cpu-fp32"
    add_tasks(parser)
    parser.set_defaults(limit=200)
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="tokens from each prompt; default: 64")
    parser.add_argument("--drafters", metavar="NAMES", help="default: all")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the places")
