"""Frozen tables of corpora: built once, found again, never those of another state."""

from pathlib import Path

import numpy as np

from fastcoder_lsp.draft.frozen_table import TableShape, table_of
from fastcoder_lsp.index.part import FileRecord, IndexedFile, build_part
from fastcoder_lsp.index.searcher import LivePart, StoreSnapshot


def corpus(*files: list[int]) -> StoreSnapshot:
    documents = [IndexedFile(FileRecord(f"{i}", ""), np.array(tokens, np.int32)) for i, tokens in enumerate(files)]
    return StoreSnapshot((LivePart(build_part(documents), frozenset(), None, recent=False),), 1)


def test_a_table_is_kept_beside_its_corpora(tmp_path: Path) -> None:
    """The second call reads what the first one wrote; other corpora, tokenizers and shapes have tables of their own."""
    shape = TableShape(1, 2)
    one, two = corpus([1, 2, 3, 1, 2, 3]), corpus([1, 2, 3, 1, 2, 3], [1, 5, 5])
    for corpora in ([one], [one], [two], [one, two]):
        table = table_of(corpora, tmp_path, "tokenizer", shape)
        assert table is not None
        assert next(iter(table.query((1,)))) == (2, 3)
    assert len(list((tmp_path / "tables").glob("*.npz"))) == 3
    table_of([one], tmp_path, "another", shape)
    table_of([one], tmp_path, "tokenizer", TableShape(2, 1))
    assert len(list((tmp_path / "tables").glob("*.npz"))) == 5


def test_nothing_is_no_table(tmp_path: Path) -> None:
    """Without corpora there is nothing to count, and no n-gram spans two files."""
    assert table_of([], tmp_path, "tokenizer", TableShape()) is None
    table = table_of([corpus([1, 2], [3, 4])], tmp_path, "tokenizer", TableShape(1, 2))
    assert table is not None
    assert len(table) == 0
