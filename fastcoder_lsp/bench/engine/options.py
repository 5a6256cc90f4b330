"""The command line of `bench engine`, and the sizes that it times."""

import argparse
from pathlib import Path

WIDTHS = (1, 2, 4, 8, 16, 32, 64)
"""Rows of a step."""
PREFILLS = (512, 1024)
"""Tokens of a prefill."""
CACHED = 700
"""Tokens in the KV cache before a step."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        f"Time steps of {WIDTHS[0]} to {WIDTHS[-1]} rows with {CACHED} tokens in the KV cache, and "
        "prefills; beside them the int8 products alone and, where it is installed, transformers in bf16, taking turns "
        "in the same run."
    )
    parser.epilog = "Example: fastcoder-lsp bench engine --json engine.json"
    parser.add_argument("--model", default="auto", help="a hub id, a folder or a .gguf (default: %(default)s)")
    parser.add_argument("--engine", default="auto", help="kind of engine (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="CPU threads (default: as the setting `threads`)")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each figure (default: %(default)s)")
    parser.add_argument("--no-transformers", action="store_true", help="leave out the comparison")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results")
