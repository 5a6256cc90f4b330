"""Frozen tables of corpora: built once for a set of corpora, and kept on the disk beside them.

Owns where a table lies and what it was made of; the counting is in `frozen_table`.
"""

import hashlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape, build
from fastcoder_lsp.draft.matching import GAP
from fastcoder_lsp.index.files import delete, private_folder
from fastcoder_lsp.index.searcher import StoreSnapshot
from fastcoder_lsp.index.suffix_array import Tokens32

log = logging.getLogger(__name__)

KEPT = 8
"""Tables on the disk; those that were made first go first."""
TOKENS_AT_MOST = 16_000_000
"""Counted at once; of more tokens, files evenly spread over all are taken."""


def table_of(corpora: Sequence[StoreSnapshot], cache: Path, identity: str, shape: TableShape) -> FrozenTable | None:
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
        try:
            table.save(path, identity)
        except OSError as error:  # counted again at the next start
            log.warning("cannot store a table of common code: %s", error)
        _forget_old(path)
    return table


def _forget_old(newest: Path) -> None:
    """Delete tables of what corpora once were: each change of them makes a new one."""
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
    """The files' tokens, parted by `GAP`, at most `TOKENS_AT_MOST` and a file more."""
    every = max(1, -(-sum(map(len, files)) // TOKENS_AT_MOST))
    gap = np.array([GAP], np.int32)
    return np.concatenate([piece for tokens in files[::every] for piece in (tokens, gap)])
