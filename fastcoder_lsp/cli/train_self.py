"""`fastcoder-lsp train self`: which parts of the model are left out where it drafts for itself."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from fastcoder_lsp.cli.train_options import at_least


def add_self_parser(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", source: Callable[[str, Path | None], str]
) -> None:
    """Add the action."""
    parser = actions.add_parser(
        "self",
        help="search what the model may leave out where it drafts for itself; decode with --drafter self",
        description="Draft & Verify: the model drafts with some of its attention and inner layers left out. Which ones "
        "is searched on your code, by counting what is accepted, and kept for the model. Nothing is trained; it takes "
        "minutes.",
        epilog="Example: fastcoder-lsp train self --data ~/src/mine",
    )
    parser.add_argument("--model", default="auto", help="as for `complete`")
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="SOURCE",
        help="folders, archives, code files, corpus:NAME (see `corpus list`), or stdlib",
    )
    parser.add_argument("--places", type=at_least(1), default=24, metavar="N", help="of the code; default: 24")
    parser.add_argument(
        "--rounds", type=at_least(1), default=100, metavar="N", help="sets that are tried; default: 100"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed, the same set")
    parser.set_defaults(run=lambda arguments: _run(arguments, source))


def _run(arguments: argparse.Namespace, source: Callable[[str, Path | None], str]) -> int:
    from fastcoder_lsp.config import cache_folder
    from fastcoder_lsp.train.skipped import search_skipped

    def told(tried: int, speed: float) -> None:
        if tried % 10 == 0:
            print(f"{tried} sets, the best: {speed:.2f} times as fast", file=sys.stderr)

    data = [source(name, arguments.here) for name in arguments.data]
    found, path = search_skipped(
        arguments.model,
        data,
        cache_folder(),
        places=arguments.places,
        rounds=arguments.rounds,
        seed=arguments.seed,
        told=told,
    )
    attention = sorted(part // 2 for part in found.skipped if part % 2 == 0)
    inner = sorted(part // 2 for part in found.skipped if part % 2)
    print(f"Left out: attention of layers {attention}, inner layers {inner}.")
    print(
        f"Counted on this code: {found.speed:.2f} times as fast as plain decoding, of one row a pass. Kept in {path}."
    )
    return 0
