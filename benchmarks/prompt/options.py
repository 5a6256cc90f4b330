"""The command line of `bench prompt`."""

import argparse
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Type the recorded runs of real histories character by character and count the prompt tokens that "
        "are not in the KV cache. Needs the model's tokenizer only."
    )
    parser.epilog = "Example: fastcoder-lsp bench prompt --json prompt.json"
    parser.add_argument("--model", default="auto", help="whose tokenizer (default: auto)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N typed runs of each history")
    parser.add_argument("--plain", action="store_true", help="the plain order, for comparison")
    parser.add_argument("--no-auto-indent", action="store_true", help="type the blanks at the start of lines, too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results to FILE")
