"""`fastcoder-lsp bench index`: how fast the datastore is built, searched and brought up to date, and how large it is.

Measures on real code (the standard library of the running Python, repeated with other names to reach larger sizes), and
through the same classes that the server uses. Needs a model's tokenizer, not the model.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastcoder_lsp.bench.report import print_table, write_json

SIZES = (1_000_000, 10_000_000, 100_000_000)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of one measurement."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Growth:
    """One size of the store: how it is built and searched, and what an update costs, settled and during a merge.

    `merge_tokens_per_s` is for the whole store woven from two halves; `segments` after all merges.
    """

    tokens: int
    segments: int
    build_tokens_per_s: float
    merge_tokens_per_s: float
    search_us: Percentiles
    search_merging_us: Percentiles
    update_ms: Percentiles
    update_merging_ms: Percentiles
    first_update_ms: float
    bytes_per_token: float
    resident_bytes_per_token: float


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the benchmark."""
    parser = commands.add_parser(
        "index",
        help="the datastore: build, search, update, size",
        description="Measure the datastore: building and merging, searching at 1, 10 and 100 million tokens, a save "
        "and a keystroke in a 1,000-line file until it can be drafted from, bytes on the disk and in memory.",
        epilog="Example: fastcoder-lsp bench index --json index.json",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results")
    parser.add_argument("--limit", type=int, default=3, metavar="N", help="only the first N sizes (default: all 3)")
    parser.add_argument("--model", default="auto", help="whose tokenizer to use: as for `complete`")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table, write the report."""
    # Late, so that other commands do not load the compiler.
    from fastcoder_lsp import model  # noqa: PLC0415
    from fastcoder_lsp.bench.index_growth import corpus_tokens, measure_growth  # noqa: PLC0415
    from fastcoder_lsp.bench.index_live import measure_live  # noqa: PLC0415
    from fastcoder_lsp.tokenizer import Tokenizer  # noqa: PLC0415

    tokenizer = Tokenizer.load(model.find(arguments.model).folder)
    with tempfile.TemporaryDirectory(prefix="fastcoder-bench-") as folder:
        files = corpus_tokens(tokenizer)
        sizes = SIZES[: max(1, arguments.limit)]
        rows = [measure_growth(files, size, Path(folder) / str(size), tokenizer.identity) for size in sizes]
        save, keystroke, loop = measure_live(tokenizer, Path(folder) / "live")
    results = _results(rows, save, keystroke, loop)
    _print(rows, results)
    if arguments.json is not None:
        settings = {"n_max": 16, "continuations": 64, "depth": 10, "sizes": sizes, "tokenizer": tokenizer.identity}
        write_json(arguments.json, "index", settings, results)
    return 0


def _results(rows: Sequence[Growth], save: Percentiles, keystroke: Percentiles, loop: Percentiles) -> dict[str, Any]:
    # The headline figures are for 10 M tokens where that size was measured.
    headline = rows[min(1, len(rows) - 1)]
    return {
        "build_tokens_per_s": headline.build_tokens_per_s,
        "search_us": {f"{row.tokens // 1_000_000}M": asdict(row.search_us) for row in rows},
        "segments": {f"{row.tokens // 1_000_000}M": row.segments for row in rows},
        "save_ms": asdict(save),
        "keystroke_ms": asdict(keystroke),
        "event_loop_ms": asdict(loop),
        "bytes_per_token": headline.bytes_per_token,
        "resident_bytes_per_token": headline.resident_bytes_per_token,
        "growth": [asdict(row) for row in rows],
    }


def _print(rows: Sequence[Growth], results: dict[str, Any]) -> None:
    def both(value: Percentiles) -> str:
        return f"{value.p50:.1f} / {value.p99:.1f}"

    names = [f"{row.tokens / 1e6:.0f} M" for row in rows]
    lines: list[tuple[str, list[str]]] = [
        ("segments, merges settled", [str(row.segments) for row in rows]),
        ("build, M tokens/s", [f"{row.build_tokens_per_s / 1e6:.1f}" for row in rows]),
        ("merge, M tokens/s", [f"{row.merge_tokens_per_s / 1e6:.1f}" for row in rows]),
        ("search, µs p50 / p99", [both(row.search_us) for row in rows]),
        ("search during a merge", [both(row.search_merging_us) for row in rows]),
        ("update of a file, ms p50 / p99", [both(row.update_ms) for row in rows]),
        ("update during a merge", [both(row.update_merging_ms) for row in rows]),
        ("first update of a stored file, ms", [f"{row.first_update_ms:.1f}" for row in rows]),
        ("bytes a token on the disk", [f"{row.bytes_per_token:.2f}" for row in rows]),
        ("resident beyond mapped pages", [f"{row.resident_bytes_per_token:.2f}" for row in rows]),
    ]
    print_table("The datastore by size (n_max 16, 64 continuations of 10)", ["", *names], [[n, *c] for n, c in lines])
    save, keystroke, loop = results["save_ms"], results["keystroke_ms"], results["event_loop_ms"]
    print_table(
        "A 1,000-line file until it can be drafted from",
        ["", "p50 ms", "p99 ms"],
        [
            ["save", save["p50"], save["p99"]],
            ["keystroke", keystroke["p50"], keystroke["p99"]],
            ["on the event loop", f"{loop['p50']:.4f}", f"{loop['p99']:.4f}"],
        ],
    )
