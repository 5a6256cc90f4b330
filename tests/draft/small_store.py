"""A datastore of a few short files in memory, for drafters that retrieve."""

from collections.abc import Mapping, Sequence

import numpy as np

from fastcoder_lsp.draft.base import Pinned
from fastcoder_lsp.index.part import FileRecord, IndexedFile, build_part
from fastcoder_lsp.index.searcher import LivePart, Searcher, StoreSnapshot


def snapshot(files: Mapping[str, Sequence[int]]) -> StoreSnapshot:
    documents = [IndexedFile(FileRecord(key, ""), np.array(tokens, np.int32)) for key, tokens in files.items()]
    return StoreSnapshot((LivePart(build_part(documents), frozenset(), None, recent=False),), 1)


def searcher(files: Sequence[Sequence[int]]) -> Searcher:
    return Searcher([snapshot({f"{number}.py": tokens for number, tokens in enumerate(files)})])


def pinned(
    repository: Sequence[Sequence[int]] = (), corpus: Sequence[Sequence[int]] = (), generation: int = 1
) -> Pinned:
    return Pinned(searcher(repository) if repository else None, searcher(corpus) if corpus else None, (generation,))
