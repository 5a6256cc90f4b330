"""`fastcoder-lsp train self`: which parts of the model are left out where it drafts for itself."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from fastcoder_lsp.cli.numbers import at_least


def add_self_parser(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", source: Callable[[str, Path | None], str]
) -> None:
    """Add the action."""
    parser = actions.add_parser(
        "self",
        help="choose the layers that the model skips when it drafts for itself; decode with --drafter self",
        description="Draft & Verify: the model drafts for itself, without some of its attention and inner layers. "
        "This command searches for the best ones to skip on your code, and stores them for the model. It trains "
        "nothing, and takes minutes.",
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
    parser.add_argument(
        "--places", type=at_least(1), default=24, metavar="N", help="places in the code to measure at; default: 24"
    )
    parser.add_argument(
        "--rounds", type=at_least(1), default=100, metavar="N", help="sets of layers to try; default: 100"
    )
    parser.add_argument(
        "--seed", type=at_least(0), default=0, metavar="N", help="random seed; the same seed gives the same set"
    )
    parser.set_defaults(run=lambda arguments: _run(arguments, source))


def _run(arguments: argparse.Namespace, source: Callable[[str, Path | None], str]) -> int:
    from fastcoder_lsp.config import cache_folder
    from fastcoder_lsp.train.skipped import search_skipped

    def told(tried: int, speed: float) -> None:
        if tried % 10 == 0:
            print(f"{tried} sets tried, the best is {speed:.2f} times as fast", file=sys.stderr)

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
    print(f"Skipped: attention of layers {attention}, inner layers {inner}.")
    print(f"Estimated on this code: {found.speed:.2f} times as fast as plain decoding. Stored in {path}.")
    return 0
