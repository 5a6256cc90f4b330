"""The command lines of `bench draft`, `bench decode` and `bench exactness`.

Owns their options; what they do is in the modules of their names, which are loaded when they run, for they load a
compiler and a model.
"""

import argparse
from pathlib import Path

from fastcoder_lsp.config.table import ENGINES

REPLAYED = "lookup,suffix,rest,fastcoder,fastcoder-paper,cacheback"
DECODED = f"{REPLAYED},recycling,recycling-paper,jacobi,lookahead,auto"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the three benchmarks."""
    draft = commands.add_parser(
        "draft",
        help="replay drafters over recorded text: tokens a pass, cost of a draft",
        description="Record what the model says to each task once, then replay drafters over it. Nodes are rows "
        "verified in one pass, the root included. Warm: tasks in the order of their file, the caches keep what the "
        "earlier ones left. D_c is the standard library alone; the target's body is in no index and no prompt.",
        epilog="Example: fastcoder-lsp bench draft --nodes 16 --drafters fastcoder,cacheback:follower_length=4",
    )
    _add_tasks(draft)
    _add_setting(draft, REPLAYED, nodes=64)
    draft.add_argument("--heatmap", type=Path, metavar="FILE", help="draw where retrieval succeeds into FILE (SVG)")
    draft.set_defaults(run=_draft)

    decode = commands.add_parser(
        "decode",
        help="drafters against plain decoding, with the model",
        description="Decode every task plainly and with each drafter, one after the other, and compare outputs and "
        "times. Times are without prefill. The worst speed-up is the lowest median of a task of at least 48 tokens.",
        epilog="Example: fastcoder-lsp bench decode --limit 24 --nodes 8 --drafters fastcoder,cacheback",
    )
    _add_tasks(decode)
    _add_setting(decode, DECODED, nodes=None)
    decode.add_argument("--rounds", type=int, default=3, metavar="N", help="times that every pair is run; default: 3")
    decode.set_defaults(run=_decode)

    exactness = commands.add_parser(
        "exactness",
        help="the same tokens whatever drafts, greedy and sampled",
        description="Decode from seeded places in the tasks' repositories, plainly and with every drafter, greedily "
        "and sampled, and compare the tokens. Exit code 1 where anything differs.",
        epilog="Example: fastcoder-lsp bench exactness --limit 20 --tokens 32 --engine cpu-fp32",
    )
    _add_tasks(exactness)
    exactness.set_defaults(limit=200, run=_exactness)
    exactness.add_argument("--tokens", type=int, default=64, metavar="N", help="tokens from each prompt; default: 64")
    exactness.add_argument("--drafters", metavar="NAMES", help="default: all")
    exactness.add_argument("--seed", type=int, default=0, metavar="N", help="of the places")


def _add_tasks(parser: argparse.ArgumentParser) -> None:
    """What is run: tasks of a model."""
    parser.add_argument("--tasks", type=Path, metavar="DIR", help="tasks.jsonl and repos.tar.gz; default: RepoEval")
    parser.add_argument("--limit", type=int, metavar="N", help="take N tasks, evenly spread over all")
    parser.add_argument("--model", default="auto", help="as the setting `model`")
    parser.add_argument(
        "--engine", default="cpu-int8", choices=ENGINES, help="as the setting `engine`; default: cpu-int8"
    )
    parser.add_argument("--strict", action="store_true", help="as the setting `gpu.strict`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results to FILE")


def _add_setting(parser: argparse.ArgumentParser, drafters: str, nodes: int | None) -> None:
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


def _draft(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.bench.draft import run  # noqa: PLC0415 see the module's docstring

    return run(arguments)


def _decode(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.bench.decode import run  # noqa: PLC0415 as above

    return run(arguments)


def _exactness(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.bench.exactness import run  # noqa: PLC0415 as above

    return run(arguments)
