"""Cacheback's frozen table: a corpus's commonest leaders, each with its commonest followers.

It never changes once built (the paper: "takes no insertions"). The paper builds it from 1 % of OpenWebText; here it is
built from code, once for a set of corpora, and kept in the cache folder.
"""

import hashlib
import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from fastcoder_lsp.core.arrays import Int32s, Int64s
from fastcoder_lsp.core.files import appearing, delete, private_folder, read_cached
from fastcoder_lsp.draft.matching import GAP
from fastcoder_lsp.index.part import Tokens32
from fastcoder_lsp.index.searcher import StoreSnapshot
from fastcoder_lsp.kernels import inlined, kernel

log = logging.getLogger(__name__)

VERSION = 1  # version of the form on disk
KEPT = 8  # tables kept on the disk; the oldest are deleted first
TOKENS_AT_MOST = 16_000_000  # tokens counted at once; of more tokens, files evenly spread over all are taken
_BITS = 62
_RANKS, _LOOKED_AT = 8, 24  # next tokens of a token in `commonest_VR`, and followers that are looked at to find them


@dataclass(frozen=True, slots=True)
class TableShape:
    """Lengths of a leader and a follower in tokens, and how many leaders, and followers of each, are kept at most."""

    leader_length: int = 1
    follower_length: int = 3
    leaders: int = 2**20
    followers: int = 128


class FrozenTable:
    """Leader → followers, commonest first.

    Args:
        keys_L: packed leaders, ascending.
        starts_L: the index of each leader's first follower; one more entry at the end.
        followers_FT: all followers.
        leader_length: tokens of a leader.
        bits: bits of a token in a packed leader.
    """

    def __init__(self, keys_L: Int64s, starts_L: Int64s, followers_FT: Int32s, leader_length: int, bits: int) -> None:
        self._keys_L, self._starts_L, self._followers_FT = keys_L, starts_L, followers_FT
        self._leader_length, self._bits = leader_length, bits
        # bisect reads single items of a memoryview several times faster than those of an array
        self._keys, self._starts = memoryview(keys_L.data), memoryview(starts_L.data)

    def __len__(self) -> int:
        return len(self._keys_L)

    @cached_property
    def commonest_VR(self) -> Int32s:  # noqa: N802 array names carry their shapes
        """The commonest next tokens after each token, commonest first, padded with `GAP`: [V, R].

        For leaders of one token; V ends with the last leader. One row is one cache line of the processor: compiled code
        reads the rows of all nodes of a tree.
        """
        assert self._leader_length == 1, "rows are found by one token"
        tokens = int(self._keys_L[-1]) + 1 if len(self._keys_L) else 0
        commonest_VR = np.full((tokens, _RANKS), GAP, np.int32)
        _commonest(self._keys_L, self._starts_L, self._followers_FT, commonest_VR)
        return commonest_VR

    def query(self, leader: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The followers of `leader`, commonest first."""
        key = 0
        for token in leader:
            if token >= 1 << self._bits:
                return
            key = key << self._bits | token
        place = bisect_left(self._keys, key)
        if place == len(self._keys) or self._keys[place] != key or len(leader) != self._leader_length:
            return
        # In blocks: most queries take only a few followers.
        start, end = self._starts[place], self._starts[place + 1]
        for block in range(start, end, 16):
            yield from map(tuple, self._followers_FT[block : min(block + 16, end)].tolist())

    def save(self, path: Path, identity: str) -> None:
        """Write the table to `path` (.npz); `identity` is the tokenizer's."""
        shape = np.array([VERSION, self._leader_length, self._bits], np.int64)
        name = np.frombuffer(identity.encode(), np.uint8)
        with appearing(path) as file:
            np.savez(
                file, shape=shape, identity=name, keys=self._keys_L, starts=self._starts_L, followers=self._followers_FT
            )

    @classmethod
    def load(cls, path: Path, identity: str) -> "FrozenTable | None":
        """The table at `path`; None if it is absent, damaged, of another version or another tokenizer's."""

        def parse(data: bytes) -> FrozenTable:
            with np.load(BytesIO(data), allow_pickle=False) as stored:
                version, leader_length, bits = stored["shape"].tolist()
                if version != VERSION or stored["identity"].tobytes() != identity.encode():
                    raise ValueError(f"version {version}, or another tokenizer's")
                return cls(stored["keys"], stored["starts"], stored["followers"], leader_length, bits)

        return read_cached(path, parse)


def build(tokens_N: Int32s, shape: TableShape) -> FrozenTable:
    """Count the n-grams of a corpus and keep the commonest; none spans `GAP`, which separates the files."""
    bits = max(int(tokens_N.max(initial=1)).bit_length(), 1)
    assert bits * shape.leader_length <= _BITS, "leaders are packed into one integer"
    width = shape.leader_length + shape.follower_length
    grams_NW = np.lib.stride_tricks.sliding_window_view(tokens_N, width) if len(tokens_N) >= width else None
    if grams_NW is None:
        empty = np.zeros(0, np.int64)
        return FrozenTable(empty, np.zeros(1, np.int64), np.zeros((0, 1), np.int32), shape.leader_length, bits)
    grams_NW = grams_NW[(grams_NW != GAP).all(axis=1)]
    leaders_N = _pack(grams_NW[:, : shape.leader_length], bits)
    return _keep(leaders_N, np.ascontiguousarray(grams_NW[:, shape.leader_length :]), shape, bits)


def _keep(leaders_N: Int64s, followers_NT: Int32s, shape: TableShape, bits: int) -> FrozenTable:
    """Group equal n-grams, drop the leaders beyond capacity, then of each leader the followers beyond capacity."""
    step = _BITS // bits
    parts = [_pack(followers_NT[:, start : start + step], bits) for start in range(0, followers_NT.shape[1], step)]
    order = np.lexsort([*reversed(parts), leaders_N])
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = np.logical_or.reduce([np.diff(part[order]) != 0 for part in (leaders_N, *parts)])
    first = np.flatnonzero(fresh)
    counts_G = np.diff(np.append(first, len(order)))
    grams = order[first]
    leaders_G, followers_GT = leaders_N[grams], followers_NT[grams]

    keys, inverse_G = np.unique(leaders_G, return_inverse=True)
    totals = np.bincount(inverse_G, weights=counts_G, minlength=len(keys))
    if len(keys) > shape.leaders:
        kept = np.zeros(len(keys), np.bool_)
        kept[np.argsort(-totals, kind="stable")[: shape.leaders]] = True
        mask = kept[inverse_G]
        leaders_G, followers_GT, counts_G = leaders_G[mask], followers_GT[mask], counts_G[mask]

    order = np.lexsort([-counts_G, leaders_G])
    leaders_G, followers_GT = leaders_G[order], followers_GT[order]
    keys, starts, sizes = np.unique(leaders_G, return_index=True, return_counts=True)
    rank = np.arange(len(leaders_G)) - np.repeat(starts, sizes)
    mask = rank < shape.followers
    ends = np.cumsum(np.minimum(sizes, shape.followers))
    return FrozenTable(
        keys.astype(np.int64),
        np.concatenate(([0], ends)).astype(np.int64),
        np.ascontiguousarray(followers_GT[mask], np.int32),
        shape.leader_length,
        bits,
    )


def _pack(grams_NW: Int32s, bits: int) -> Int64s:
    packed = np.zeros(len(grams_NW), np.int64)
    for column in range(grams_NW.shape[1]):
        packed = packed << bits | grams_NW[:, column]
    return packed


@kernel
def _commonest(keys_L: Any, starts_L: Any, followers_FT: Any, commonest_VR: Any) -> None:
    for place in range(len(keys_L)):
        row, rank = commonest_VR[keys_L[place]], 0
        for follower in range(starts_L[place], min(starts_L[place] + _LOOKED_AT, starts_L[place + 1])):
            token = followers_FT[follower, 0]
            if rank < len(row) and not _among(row, rank, token):
                row[rank] = token
                rank += 1


@inlined
def _among(row: Any, rank: Any, token: Any) -> Any:
    for other in range(rank):  # noqa: SIM110 numba compiles no generators in here
        if row[other] == token:
            return True
    return False


def table_of(corpora: Sequence[StoreSnapshot], cache: Path, identity: str, shape: TableShape) -> FrozenTable | None:
    """The frozen table of `corpora`, from the disk or built anew (a second for 3 million tokens); None if empty."""
    files = {f"{i}/{key}": tokens for i, corpus in enumerate(corpora) for key, tokens in corpus.files().items()}
    if not files:
        return None
    path = private_folder(cache / "tables") / f"{_name(files, identity, shape)}.npz"
    table = FrozenTable.load(path, identity)
    if table is None:
        table = build(_joined(list(files.values())), shape)
        try:
            table.save(path, identity)
        except OSError as error:  # counted again at the next start
            log.warning("cannot store a table of common code: %s", error)
        _forget_old(path)
    return table


def _forget_old(newest: Path) -> None:
    """Delete the oldest tables: each change of the corpora makes a new one."""
    ages = {}
    for path in newest.parent.glob("*.npz"):
        with suppress(OSError):
            ages[path] = path.stat().st_mtime_ns
    for path in sorted(ages, key=lambda path: (path == newest, ages[path]))[:-KEPT]:
        delete(path)


def _name(files: dict[str, Tokens32], identity: str, shape: TableShape) -> str:
    sizes = sorted((key, len(tokens)) for key, tokens in files.items())
    return hashlib.sha256(repr((sizes, identity, shape)).encode()).hexdigest()[:16]


def _joined(files: Sequence[Tokens32]) -> Tokens32:
    """The files' tokens, separated by `GAP`, at most `TOKENS_AT_MOST` and a file more."""
    every = max(1, -(-sum(map(len, files)) // TOKENS_AT_MOST))
    gap = np.array([GAP], np.int32)
    return np.concatenate([piece for tokens in files[::every] for piece in (tokens, gap)])
