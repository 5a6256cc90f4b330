"""`bench index`: how fast the datastore is built, searched and brought up to date, and how large it is.

Real files of the standard library are repeated under other names until there are enough tokens; each copy has other
token ids in a share of its places, so that copies are alike as forks of a file are, not the same. Needs a model's
tokenizer, not the model.
"""

import gc
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from benchmarks.harness import Reported, percentiles, write
from fastcoder_lsp.bench.model import find_model
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.config import resolve
from fastcoder_lsp.config.environment import neutral_folder, python_command
from fastcoder_lsp.index.chunks import ChunkedEncoder
from fastcoder_lsp.index.part import FileRecord, IndexedFile, text_digest
from fastcoder_lsp.index.searcher import Searcher
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.corpus_files import standard_library
from fastcoder_lsp.workspace.inbox import IndexUser
from fastcoder_lsp.workspace.live_index import LiveIndex

EXAMPLE = "index --json index.json"
SIZES = (1_000_000, 10_000_000, 100_000_000)
N_MAX, HITS, DEPTH = 16, 64, 10
SEARCHES, UPDATES, RESIDENT_SEARCHES = 4_000, 200, 2_000
EDITS, SAVES, LINES, FILES = 300, 100, 1_000, 300
BATCH_TOKENS = 4_000_000
_CHANGED, _IDS = 0.02, 150_000
_PATIENCE_S = 10.0
Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Measure the datastore: building it, searching it at 1, 10 and 100 million tokens, and sizes.

    Also a save and a keystroke in a 1,000-line file until it can be drafted from, bytes on the disk and in memory.
    """

    limit: int = option("only the first N sizes", 3, metavar="N")
    model: str = option("the model whose tokenizer to use, as for `complete`", "auto")


Percentiles = Mapping[str, float]


def run(options: Options) -> int:
    tokenizer = find_model(options.model).tokenizer
    with tempfile.TemporaryDirectory(prefix="fastcoder-bench-") as folder:
        files = ChunkedEncoder(tokenizer).encode_many([text for _, text in standard_library()])
        sizes = SIZES[: max(1, options.limit)]
        rows = [measure_growth(files, size, Path(folder) / str(size), tokenizer.identity) for size in sizes]
        save, keystroke = measure_live(tokenizer, Path(folder) / "live")
    _print(rows, save, keystroke)
    # The headline figures are for 10 M tokens where that size was measured.
    headline = rows[min(1, len(rows) - 1)]
    results = {
        "build_tokens_per_s": headline["build_tokens_per_s"],
        "search_us": {f"{row['tokens'] // 1_000_000}M": row["search_us"] for row in rows},
        "save_ms": save,
        "keystroke_ms": keystroke,
        "bytes_per_token": headline["bytes_per_token"],
        "resident_bytes_per_token": headline["resident_bytes_per_token"],
        "growth": rows,
    }
    write(options, "index", results, n_max=N_MAX, continuations=HITS, depth=DEPTH, tokenizer=tokenizer.identity)
    return 0


def _print(rows: Sequence[Mapping[str, Any]], save: Percentiles, keystroke: Percentiles) -> None:
    def both(name: str) -> list[str]:
        return [f"{row[name]['p50']:.1f} / {row[name]['p99']:.1f}" for row in rows]

    lines: list[tuple[str, list[str]]] = [
        ("build, M tokens/s", [f"{row['build_tokens_per_s'] / 1e6:.1f}" for row in rows]),
        ("search, µs p50 / p99", both("search_us")),
        ("update of a file, ms p50 / p99", both("update_ms")),
        ("bytes a token on the disk", [f"{row['bytes_per_token']:.2f}" for row in rows]),
        ("resident beyond mapped pages", [f"{row['resident_bytes_per_token']:.2f}" for row in rows]),
    ]
    names = [f"{row['tokens'] / 1e6:.0f} M" for row in rows]
    print_table("The datastore by size (n_max 16, 64 continuations of 10)", ["", *names], [[n, *c] for n, c in lines])
    live = [["save", *save.values()], ["keystroke", *keystroke.values()]]
    print_table("A 1,000-line file until it can be drafted from", ["", "p50 ms", "p99 ms"], live)


def measure_growth(files: Sequence[Tokens], size: int, folder: Path, identity: str) -> dict[str, Any]:
    store = Store.open(folder, identity, "benchmark")
    _warm_up(store)
    build_s = tokens = 0.0
    for batch in _batches(files, size):
        start = time.perf_counter()
        store.add_segment(batch)
        build_s += time.perf_counter() - start
        tokens += sum(len(document.tokens) for document in batch)
    while store.merge():
        pass
    search, update = _search(store, files), _update(store, files)
    store.close()
    return {
        "tokens": size,
        "build_tokens_per_s": tokens / build_s,
        "search_us": _percentiles(search, 1e6),
        "update_ms": _percentiles(update, 1e3),
        "bytes_per_token": sum(path.stat().st_size for path in folder.iterdir()) / tokens,
        "resident_bytes_per_token": resident_bytes(folder, identity) / tokens,
    }


def _batches(files: Sequence[Tokens], size: int) -> Iterator[list[IndexedFile]]:
    """Copies of the files until there are `size` tokens, in at least three batches."""
    largest = min(BATCH_TOKENS, -(-size // 3))
    chance = np.random.default_rng(0)
    batch: list[IndexedFile] = []
    held = total = copy = 0
    while True:
        for number, original in enumerate(files):
            tokens = original[: size - total]
            if copy:
                other = chance.random(len(tokens)) < _CHANGED
                tokens = np.where(other, (tokens + np.int32(copy)) % _IDS, tokens).astype(np.int32)
            batch.append(IndexedFile(FileRecord(f"/benchmark/copy{copy}/file{number}.py", ""), tokens))
            held, total = held + len(tokens), total + len(tokens)
            if held >= largest or total == size:
                yield batch
                batch, held = [], 0
            if total == size:
                return
        copy += 1


def _search(store: Store, files: Sequence[Tokens]) -> list[float]:
    chance, seconds = random.Random(1), []  # noqa: S311
    whole = [file.tolist() for file in chance.choices(files, k=200) if len(file) > N_MAX]
    for number in range(SEARCHES):
        tokens = chance.choice(whole)
        end = chance.randrange(N_MAX, len(tokens))
        context = tokens[end - N_MAX : end]
        if number % 2:
            strange = chance.randrange(N_MAX - 1)
            context[:strange] = [_IDS] * strange
        start = time.perf_counter()
        Searcher([store.pin()]).search(context, N_MAX, HITS, DEPTH)
        seconds.append(time.perf_counter() - start)
    return seconds


def _update(store: Store, files: Sequence[Tokens]) -> list[float]:
    """Seconds of updates of a file of some 10,000 tokens that is being edited: every one changes the store."""
    tokens = max(files, key=lambda file: -abs(len(file) - 10_000)).copy()
    chance, seconds = random.Random(2), []  # noqa: S311
    for number in range(UPDATES):
        tokens[chance.randrange(len(tokens))] = number
        start = time.perf_counter()
        store.overlay(IndexedFile(FileRecord("/benchmark/edited.py", str(number)), tokens.copy()))
        seconds.append(time.perf_counter() - start)
    store.drop_overlay("/benchmark/edited.py")
    return seconds


def _warm_up(store: Store) -> None:
    for generation in range(3):
        store.add_segment([IndexedFile(FileRecord(key, ""), np.arange(50, dtype=np.int32)) for key in ("a", "b", "c")])
        store.overlay(IndexedFile(FileRecord("b", str(generation)), np.arange(30, dtype=np.int32)))
        Searcher([store.pin()]).search(range(20), N_MAX, HITS, DEPTH)
        store.drop_overlay("b")
    store.merge()
    store.clear()


def resident_bytes(folder: Path, identity: str) -> int:
    """Bytes that opening and searching a store add to a process of its own, without mapped pages."""
    command = python_command("benchmarks.index", str(folder.absolute()), identity)
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=neutral_folder())
    return int(done.stdout)


def _resident(folder: Path, identity: str) -> int:
    with_code = Searcher([])
    with_code.search([1], 16, 64, 10)
    before = _anonymous_bytes()
    store = Store.open(folder, identity, reader=True)
    chance = np.random.default_rng(0)
    for _ in range(RESIDENT_SEARCHES):
        searcher = Searcher([store.pin()])
        searcher.search(chance.integers(0, 1000, 16).tolist(), 16, 64, 10)
    # One file is being edited, so that one segment has dead files.
    key = next(iter(store.records()))
    store.overlay(IndexedFile(FileRecord(key, "edited"), chance.integers(0, 1000, 10_000, dtype=np.int32)))
    gc.collect()
    return max(0, _anonymous_bytes() - before)


def _anonymous_bytes() -> int:
    """Memory of this process that is not mapped from files."""
    memory = psutil.Process().memory_info()
    return int(memory.rss - getattr(memory, "shared", 0))


def measure_live(encoder: Tokenizer, folder: Path) -> tuple[Percentiles, Percentiles]:
    """Milliseconds from a save and from a keystroke in a 1,000-line file until it can be drafted from."""
    root = folder / "project"
    root.mkdir(parents=True)
    texts = [text for _, text in standard_library()][:FILES]
    for number, text in enumerate(texts):
        (root / f"file{number}.py").write_text(text, encoding="utf-8")
    long = next(text for text in texts if text.count("\n") >= LINES)
    lines = long.split("\n")[:LINES]
    edited = root / "edited.py"
    edited.write_text("\n".join(lines), encoding="utf-8")
    live, user = LiveIndex({root: resolve(())[0]}, encoder, folder / "cache"), IndexUser()
    live.inbox.join(user)
    live.start()
    try:
        assert live.inbox.wait_idle(600)
        save = _live_times(live, None, edited, lines, SAVES)
        keystroke = _live_times(live, user, edited, lines, EDITS)
    finally:
        live.stop()
    return _percentiles(save, 1e3), _percentiles(keystroke, 1e3)


def _live_times(live: LiveIndex, user: IndexUser | None, path: Path, lines: list[str], times: int) -> list[float]:
    """Seconds from an edit until it is found: a user's, or a save."""
    chance, found = random.Random(3), []  # noqa: S311
    for number in range(times):
        lines[chance.randrange(len(lines))] += f" # {number}"
        text = "\n".join(lines)
        digest = text_digest(text)
        start = time.perf_counter()
        if user is None:
            path.write_text(text, encoding="utf-8")
        else:
            user.texts.put(path, text)
            live.inbox.document_changed(user, path)
        while not _holds(live, digest):
            time.sleep(0.0002)
            assert time.perf_counter() - start < _PATIENCE_S
        found.append(time.perf_counter() - start)
        # A person's next keystroke comes later than this; the rest of a burst of events must not count as the next.
        time.sleep(0.03)
        assert live.inbox.wait_idle(_PATIENCE_S)
    return found


def _holds(live: LiveIndex, digest: str) -> bool:
    recent = (entry for snapshot in live.pin() for entry in snapshot.parts if entry.recent)
    return any(record.digest == digest for entry in recent for record in entry.part.records)


def _percentiles(seconds: Sequence[float], scale: float) -> Percentiles:
    return percentiles([value * scale for value in seconds], 50, 99)


if __name__ == "__main__":
    print(_resident(Path(sys.argv[1]), sys.argv[2]))
