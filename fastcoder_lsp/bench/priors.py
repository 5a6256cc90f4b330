"""The command line of `bench priors`; what it does is in `fitting`, which is loaded when it runs."""

import argparse
from pathlib import Path

from fastcoder_lsp.config.table import ENGINES


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the benchmark."""
    parser = commands.add_parser(
        "priors",
        help="learn what the drafter `auto` believes at first; held out by repository",
        description="Record what the model says with its best ids at 64 rows a step, once; learn the priors of `auto` "
        "from it; and replay `auto` with priors learnt on all repositories but the task's own.",
        epilog="Example: fastcoder-lsp bench priors --limit 48 --out auto_priors.json",
    )
    parser.add_argument("--tasks", type=Path, metavar="DIR", help="tasks.jsonl and repos.tar.gz; default: RepoEval")
    parser.add_argument("--limit", type=int, metavar="N", help="take N tasks, evenly spread over all")
    parser.add_argument("--model", default="auto", help="as the setting `model`")
    parser.add_argument("--engine", default="cpu-int8", choices=ENGINES, help="as the setting `engine`")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the priors learnt from all tasks to FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.bench.fitting import run  # noqa: PLC0415 it brings a compiler along

    return run(arguments)
