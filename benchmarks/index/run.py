"""`bench index` at work: the store at each size, the way of an edit to it, the tables."""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.index.growth import corpus_tokens, measure_growth
from benchmarks.index.live import measure_live
from benchmarks.index.records import Growth, Percentiles
from fastcoder_lsp.bench.model import find_model
from fastcoder_lsp.bench.report import print_table, write_json

SIZES = (1_000_000, 10_000_000, 100_000_000)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table, write the report."""
    tokenizer = find_model(arguments.model).tokenizer
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
