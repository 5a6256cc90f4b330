"""What a drafter sees of the datastore: the repository's code and common code, as they stood when the decode began.

Owns the pair D_r, D_c and how a search becomes continuations with a source; the stores belong to `index`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape
from fastcoder_lsp.index.searcher import Hits, Searcher


def no_table(shape: TableShape) -> FrozenTable | None:  # noqa: ARG001 the interface
    """No frozen table of any shape."""
    return None


@dataclass(frozen=True, slots=True)
class Pinned:
    """One state of the stores.

    Attributes:
        repository: D_r; None where it is absent.
        corpus: D_c; None where it is absent.
        generation: another one whenever anything in either store has changed.
        frozen: gives Cacheback's table of D_c in a shape; None while there is none.
    """

    repository: Searcher | None = None
    corpus: Searcher | None = None
    generation: tuple[int, ...] = ()
    frozen: Callable[[TableShape], FrozenTable | None] = no_table


Pin = Callable[[str], Pinned]
"""Pins the stores for a decode in the document of the given URI."""


def nothing(document: str) -> Pinned:  # noqa: ARG001 the interface
    """Pin nothing: there are no stores."""
    return Pinned()


def search(
    store: Searcher | None, context: Sequence[int], n_max: int, max_hits: int, depth: int, n_min: int = 1
) -> Hits | None:
    """The longest match of at least `n_min` tokens with its continuations; None where there is none."""
    if store is None:
        return None
    hits = store.search(context, n_max, max_hits, depth)
    return hits if hits.length >= n_min and len(hits.continuations_HD) else None
