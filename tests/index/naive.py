"""A naive index: what the datastore must answer, found by looking at every place; and a check of the stored files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fastcoder_lsp.index.stored import check_order, load, read_manifest

Answer = tuple[int, int, frozenset[tuple[str, int]]]


def search(files: Mapping[str, Sequence[int]], context: Sequence[int], n_max: int) -> Answer:
    """Length of the longest match, number of hits, and the hits as (key, place in the file)."""
    for length in range(min(n_max, len(context)), 0, -1):
        query = list(context[-length:])
        hits = frozenset(
            (key, place)
            for key, tokens in files.items()
            for place in range(length, len(tokens))
            if list(tokens[place - length : place]) == query
        )
        if hits:
            return length, len(hits), hits
    return 0, 0, frozenset()


def faults(folder: Path) -> list[str]:
    """The faults of the store in `folder`; a damaged file raises `DamagedError`."""
    manifest = read_manifest(folder)
    _, parts = (None, []) if manifest is None else load(folder, manifest.identity, {})
    return [fault for part in parts for fault in check_order(part)]


def continuation(tokens: Sequence[int], place: int, depth: int) -> list[int]:
    """`depth` tokens from `place` on, -1 past the end."""
    found = list(tokens[place : place + depth])
    return found + [-1] * (depth - len(found))
