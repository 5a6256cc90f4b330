"""Have everything compiled that the datastore runs: search, liveness, merges."""

import numpy as np

from fastcoder_lsp.index.liveness import liveness
from fastcoder_lsp.index.merge import weave
from fastcoder_lsp.index.part import Document, FileRecord, build_part
from fastcoder_lsp.index.searcher import LivePart, Searcher, StoreSnapshot

_FILES = 8


def warm_up() -> None:
    """Run all of it on a few made-up files: seconds the first time on a machine, milliseconds after."""
    documents = [Document(FileRecord(str(file), ""), np.arange(3, dtype=np.int32)) for file in range(_FILES)]
    part, nobody = build_part(documents), frozenset[int]()
    many, few = frozenset(range(_FILES - 1)), frozenset({0})
    live = liveness(part.order_M, part.starts, many)
    liveness(part.order_M, part.starts, few)
    weave([part, part], [many, nobody], [live, None])
    snapshot = StoreSnapshot((LivePart(part, many, live, recent=True), LivePart(part, nobody, None, recent=False)), 0)
    Searcher([snapshot]).search((0, 1), 2, 2, 2)
