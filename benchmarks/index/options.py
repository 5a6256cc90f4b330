"""The command line of `bench index`."""

import argparse
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Measure the datastore: building and merging, searching at 1, 10 and 100 million tokens, a save "
        "and a keystroke in a 1,000-line file until it can be drafted from, bytes on the disk and in memory."
    )
    parser.epilog = "Example: fastcoder-lsp bench index --json index.json"
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results")
    parser.add_argument("--limit", type=int, default=3, metavar="N", help="only the first N sizes (default: all 3)")
    parser.add_argument("--model", default="auto", help="whose tokenizer to use: as for `complete`")
