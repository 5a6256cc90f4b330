"""The command line of `bench draft`."""

import argparse
from pathlib import Path

from benchmarks.drafting.options import REPLAYED, add_setting, add_tasks


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Record what the model says to each task once, then replay drafters over it. Nodes are rows "
        "verified in one pass, the root included. Warm: tasks in the order of their file, the caches keep what the "
        "earlier ones left. D_c is the standard library alone; the target's body is in no index and no prompt."
    )
    parser.epilog = "Example: fastcoder-lsp bench draft --nodes 16 --drafters fastcoder,cacheback:follower_length=4"
    add_tasks(parser)
    add_setting(parser, REPLAYED, nodes=64)
    parser.add_argument("--heatmap", type=Path, metavar="FILE", help="draw where retrieval succeeds into FILE (SVG)")
