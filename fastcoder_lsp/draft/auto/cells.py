"""What a source can say of a token, told apart into cells: each cell has a probability of its own, learnt by counting.

A source that finds the context elsewhere (hits) tells: how long the match is, which share of its hits, weighed by the
lengths of their matches, goes on with the token, and how many hits there are. A table tells the token's rank in its
row, and how sure the model was of it. A source that has something to say at a node but not this token tells that, too.

Owns the numbering; the counts are in `calibration`.
"""

from typing import Any, Final

from fastcoder_lsp.draft.base import (
    FROM_CACHE,
    FROM_CORPUS,
    FROM_PROMPT,
    FROM_RECYCLING,
    FROM_REPOSITORY,
    Source,
)
from fastcoder_lsp.kernels import inlined

GROUPED: Final = (
    FROM_PROMPT,
    FROM_CACHE,
    FROM_REPOSITORY,
    FROM_CORPUS,
    Source("outdated", "cache"),
    Source("trained", "other"),
    FROM_RECYCLING,
    Source("recycling-pairs", "cache"),
    Source("frozen", "datastore"),
)
"""In the order of their numbers, which are also who is named where several say the same."""
SOURCES: Final = tuple(source.name for source in GROUPED)
"""The names of all sources, by their numbers."""
TEXT, PAST, REPOSITORY, CORPUS, OUTDATED, TRAINED, RECYCLED, PAIRS, FROZEN = range(9)
LENGTHS = 8
ABSENT = 120
"""The first of the cells that mean: the source has something else to say here."""
CELLS = 136


@inlined
def length_bucket(match: Any) -> Any:
    """1, 2, 3, 4, 5–6, 7–9, 10–15, 16 and more."""
    if match <= 4:
        return max(match, 1) - 1
    if match <= 6:
        return 4
    if match <= 9:
        return 5
    return 6 if match <= 15 else 7


@inlined
def hits_cell(match: Any, share: Any, hits: Any) -> Any:
    """The cell of a token that hits name: longest match, share of the hits' weight (0…1), number of all hits."""
    if share >= 0.8:
        part = 4
    elif share >= 0.45:
        part = 3
    elif share >= 0.2:
        part = 2
    else:
        part = 1 if share >= 0.08 else 0
    number = 0 if hits == 1 else (1 if hits <= 3 else 2)
    return length_bucket(match) * 15 + part * 3 + number
