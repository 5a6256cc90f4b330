"""Options that benchmarks of drafters share: which tasks, which model, how drafters are run over them."""

import argparse
from pathlib import Path

from fastcoder_lsp.config.engines import ENGINES

REPLAYED = "lookup,suffix,rest,fastcoder,fastcoder-paper,cacheback"
"""Drafters that can be replayed over recorded text."""
PAPER_TOKENS = 512


def add_tasks(parser: argparse.ArgumentParser) -> None:
    """What is run: tasks of a model."""
    parser.add_argument("--tasks", type=Path, metavar="DIR", help="tasks.jsonl and repos.tar.gz; default: RepoEval")
    parser.add_argument("--limit", type=int, metavar="N", help="take N tasks, evenly spread over all")
    parser.add_argument("--model", default="auto", help="as the setting `model`")
    parser.add_argument(
        "--engine", default="cpu-int8", choices=ENGINES, help="as the setting `engine`; default: cpu-int8"
    )
    parser.add_argument("--strict", action="store_true", help="as the setting `gpu.strict`")
    parser.add_argument(
        "--draft-model",
        action="append",
        default=[],
        metavar="NAME",
        help="a smaller model, for drafters that draft by one; may be given several times",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results to FILE")


def add_setting(parser: argparse.ArgumentParser, drafters: str, nodes: int | None) -> None:
    """How drafters are run over tasks."""
    parser.add_argument("--setting", choices=("product", "paper"), default="product", help="where the output ends")
    usual = str(nodes) if nodes else "16, and for auto what pays, 64 at most"
    parser.add_argument(
        "--nodes", type=int, default=nodes, metavar="N", help=f"rows of one verification; default: {usual}"
    )
    parser.add_argument("--cache", choices=("cold", "warm"), default="cold", help="what caches hold at a task's start")
    parser.add_argument(
        "--drafters",
        default=drafters,
        metavar="NAMES",
        help="names, with parameters after a colon, or a group: `ablation`, `sweep-fastcoder`, `sweep-cacheback`; "
        f"default: {drafters}",
    )
