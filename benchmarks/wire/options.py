"""The command line of `bench wire`."""

import argparse
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Type into a document and ask at every key of a shared process whose model answers at once: the time from the "
        "question until that process has it, and from its answer until it is told, by clocks that both share."
    )
    parser.epilog = "Example: fastcoder-lsp bench wire --json wire.json"
    parser.add_argument("--requests", type=int, default=2000, metavar="N", help="keys (default: 2000)")
    parser.add_argument("--lines", type=int, default=2000, metavar="N", help="of the document (default: 2000)")
    parser.add_argument("--pause-ms", type=float, default=5.0, metavar="MS", help="between two keys (default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results")
