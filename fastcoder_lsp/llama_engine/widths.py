"""The class of widths whose rows do not depend on their neighbours, found by trial with this model on this machine.

A library's kernels differ with the number of rows, and so do their roundings: a draft would then change the text. In a
class of widths every pass is filled up to a multiple of some number of rows, and one set of kernels serves them all.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.core.files import private_folder, read_json, replace_file
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.llama_engine.backend import LlamaBackend, WidthClass

_CHUNK, _GPU_CHUNK = 128, 512
_CPU_WIDTHS = ((1, 128), (1, 7), (1, 3), (2, 128), (4, 128), (8, 128), (16, 128), (32, 128))
ON_CPU = tuple(
    WidthClass(quantum, most, _CHUNK, plain_cache=True, repacks=repacks)
    for repacks in (False, True)
    for quantum, most in _CPU_WIDTHS
)
"""In the file's order, up to 7 rows have the kernel of a single one for most kinds of weights; else more rows do."""
ON_GPU = tuple(WidthClass(width, width, _GPU_CHUNK, trees=trees) for trees in (True, False) for width in (16, 32, 64))
"""One width alone: a GPU's kernels cut their sums by the number of rows. Sums over a text are cut by the cache's cells,
where a branch lies behind others."""
FREE_ON_CPU, FREE_ON_GPU = WidthClass(1, 128, _CHUNK), WidthClass(1, 512, _GPU_CHUNK)  # without any promise
TEXT, SHORT = 600, 40
"""Tokens of the trial's text: on a GPU attention cuts its sums by the text's length."""
_ROWS, ROOM = 6, 128
"""Rows that are compared, and slots of the cache beyond the text."""
_YIELD, _TIMES, _GAIN, _MOST_S = {1: 1.0, 8: 2.5}, 3, 0.95, 60.0
"""Rows of the timed steps and the tokens that such a step gives, how often, which share of a time is a gain, and how
many seconds pass until the first class that holds is good enough."""

_FIELDS = ("quantum", "most", "repacks", "trees")  # what is recorded of a class

Open = Callable[[WidthClass], LlamaBackend]


def find_class(classes: Sequence[WidthClass], open_backend: Open, text: int) -> WidthClass | None:
    """The class of the quickest token whose rows are the same bits alone, in chains and trees; None if none is.

    Of each order of weights two are timed: one that fills nothing up, and the narrowest of those that do. After
    `_MOST_S` seconds no further class is tried beside one that holds.
    """
    best, least, timed, began = None, 0.0, set[tuple[bool, bool]](), time.monotonic()
    for widths in classes:
        if (kind := (widths.repacks, widths.quantum > 1)) in timed or (best and time.monotonic() - began > _MOST_S):
            continue
        backend = open_backend(widths)
        try:
            if holds(backend, text):
                timed.add(kind)
                taken = min(_seconds(backend, rows, text) / tokens for rows, tokens in _YIELD.items())
                if best is None or taken < _GAIN * least:
                    best, least = widths, taken
        finally:
            backend.is_first = False  # the weights stay
            backend.close()
    return best


def _seconds(backend: LlamaBackend, rows: int, text: int) -> float:
    taken = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        _rows(backend, [0] * rows, [-1, *[0] * (rows - 1)], text)
        taken.append(time.perf_counter() - began)
    return min(taken)


def holds(backend: LlamaBackend, text: int) -> bool:
    """Whether the last rows of a random text are the same bits in every way that they can be computed in."""
    rng = np.random.default_rng(0)
    tokens: list[int] = rng.integers(0, backend.vocabulary, text + _ROWS).tolist()
    path, chunk = tokens[text:], backend.chunk
    for start in range(0, text, chunk):
        backend.forward(Rows.chain(tokens[start : min(start + chunk, text)], start))
    expected = np.concatenate([_rows(backend, [token], [-1], text + row) for row, token in enumerate(path)])
    if not _same(_rows(backend, path, range(-1, _ROWS - 1), text), expected):
        return False
    kept = list(range(_ROWS))
    for size in (2 * _ROWS, 4 * _ROWS) if backend.widths.trees else ():
        nodes, parents, kept = _hidden(path, size, rng, backend.vocabulary)
        if not _same(_rows(backend, nodes, parents, text)[kept], expected):
            return False
    half = _ROWS // 2
    backend.compact(text, kept[:half])
    return _same(_rows(backend, path[half:], range(-1, _ROWS - half - 1), text + half), expected[half:])


def _rows(backend: LlamaBackend, tokens: Sequence[int], parents: Sequence[int], cached: int) -> Floats:
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    tokens_N, parents_N, depths_N = (np.array(part, np.int64) for part in (tokens, list(parents), depths))
    found = backend.forward(Rows(tokens_N, parents_N, depths_N, cached, 0))
    assert found is not None
    return found.copy()


def _hidden(
    path: list[int], size: int, rng: np.random.Generator, vocabulary: int
) -> tuple[list[int], list[int], list[int]]:
    """A random tree that has `path` in it: tokens, parents, and the path's nodes."""
    tokens, parents, kept = [path[0]], [-1], [0]
    places = set(rng.choice(np.arange(1, size), len(path) - 1, replace=False).tolist())
    for node in range(1, size):
        if node in places:
            tokens.append(path[len(kept)])
            parents.append(kept[-1])
            kept.append(node)
        else:
            tokens.append(int(rng.integers(vocabulary)))
            parents.append(int(rng.integers(node)))
    return tokens, parents, kept


def _same(left: Floats, right: Floats) -> bool:
    return bool(np.array_equal(left.view(np.int32), right.view(np.int32)))


def recorded(
    cache: Path, machine: str, classes: Sequence[WidthClass], find: Callable[[], WidthClass | None]
) -> WidthClass | None:
    """The class that an earlier start found on this `machine` with this model; else that of `find`, recorded."""
    path = cache / "tuning" / f"llama-{hashlib.sha256(machine.encode()).hexdigest()[:16]}.json"
    known = read_json(path)
    if _FIELDS[-1] in known:
        wanted = [known.get(each) for each in _FIELDS]
        return next((each for each in classes if [getattr(each, field) for field in _FIELDS] == wanted), None)
    found = find()
    with suppress(OSError):  # the next start tries again
        private_folder(path.parent)
        replace_file(path, json.dumps({field: getattr(found, field, 0) for field in _FIELDS}).encode())
    return found
