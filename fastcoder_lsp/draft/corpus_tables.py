"""Frozen tables of corpora: built once for a set of corpora, and kept on the disk beside them.

Owns where a table lies and what it was made of; the counting is in `frozen_table`.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape, build
from fastcoder_lsp.draft.kernels import GAP
from fastcoder_lsp.index.files import private_folder
from fastcoder_lsp.index.searcher import Snapshot
from fastcoder_lsp.index.suffix_array import Tokens32

TOKENS_AT_MOST = 16_000_000
"""Counted at once; of more tokens, files evenly spread over all are taken."""


def table_of(corpora: Sequence[Snapshot], cache: Path, identity: str, shape: TableShape) -> FrozenTable | None:
    """The frozen table of `corpora`: read from the disk, or built and written there (a second for 3 million tokens).

    Args:
        corpora: as they are now; a table of what they were is not taken.
        cache: the cache folder.
        identity: the tokenizer's.
        shape: the table's lengths and capacities.

    Returns:
        None where the corpora are empty.
    """
    files = {f"{i}/{key}": tokens for i, corpus in enumerate(corpora) for key, tokens in corpus.files().items()}
    if not files:
        return None
    path = private_folder(cache / "tables") / f"{_name(files, identity, shape)}.npz"
    table = FrozenTable.load(path, identity)
    if table is None:
        table = build(_joined(list(files.values())), shape)
        table.save(path, identity)
    return table


def _name(files: dict[str, Tokens32], identity: str, shape: TableShape) -> str:
    sizes = sorted((key, len(tokens)) for key, tokens in files.items())
    return hashlib.sha256(repr((sizes, identity, shape)).encode()).hexdigest()[:16]


def _joined(files: Sequence[Tokens32]) -> Tokens32:
    """The files' tokens, parted by `GAP`, at most `TOKENS_AT_MOST` and a file more."""
    every = max(1, -(-sum(map(len, files)) // TOKENS_AT_MOST))
    gap = np.array([GAP], np.int32)
    return np.concatenate([piece for tokens in files[::every] for piece in (tokens, gap)])
