"""Sources of `auto` that say whole continuations of the text: the datastore, and outdated suggestions.

Owns one class a source behind `ContinuationSource`, and the buffer they write to. To add a source is to add such a
class, and where its word is to be trusted differently, a name in `evidence`. What is asked at every node of the tree
(running text, history, tables) is compiled, in `auto_branches`.
"""

import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import DraftContext, DraftTree, Verified
from fastcoder_lsp.draft.auto.branches import TAIL, Continuations
from fastcoder_lsp.draft.auto.cells import OUTDATED, REPOSITORY, SOURCES
from fastcoder_lsp.draft.auto.retrieval import RetrievalRule
from fastcoder_lsp.draft.base import Pinned
from fastcoder_lsp.draft.matching import GAP, match_suffix
from fastcoder_lsp.index.searcher import Buffers, Searcher


class FoundContinuations:
    """Continuations found for one draft, each with its source and the length of its match."""

    def __init__(self, capacity: int = 128, depth: int = 16) -> None:
        self.capacity, self.depth = capacity, depth
        self._all = Continuations(
            np.full((capacity, depth), GAP, np.int32), np.zeros(capacity, np.int32), np.zeros(capacity, np.int32)
        )
        self._filled = 0
        self._tail_L: npt.NDArray[np.int32] | None = None

    def clear(self) -> None:
        """Begin another draft."""
        self._filled, self._tail_L = 0, None

    def tail(self, tokens: Sequence[int]) -> npt.NDArray[np.int32]:
        """The end of the text that is drafted for, backwards: several sources look for it, and all of them for one."""
        if self._tail_L is None:
            self._tail_L = np.array(tokens[: -TAIL - 1 : -1], np.int32)
        return self._tail_L

    def free(self, rows: int) -> npt.NDArray[np.int32]:
        """The next free rows, so many at most, to be written to; then `take`."""
        return self._all.rows_KD[self._filled : self._filled + rows]

    def take(self, rows: int, source: int, match: int) -> None:
        """So many of the free rows are continuations, `GAP` after their ends."""
        start, end = self._filled, self._filled + rows
        self._all.source_K[start:end] = source
        self._all.match_K[start:end] = min(match, TAIL)
        self._filled = end

    def add(self, rows_KD: npt.NDArray[np.int32], source: int, match: int) -> None:
        """Take in continuations, `GAP` after their ends; what does not fit is left out."""
        free_KD = self.free(len(rows_KD))
        columns = min(rows_KD.shape[1], self.depth)
        free_KD[:, :columns] = rows_KD[: len(free_KD), :columns]
        free_KD[:, columns:] = GAP
        self.take(len(free_KD), source, match)

    @property
    def continuations(self) -> Continuations:
        """What was found, good until the next change."""
        return Continuations(*(part[: self._filled] for part in self._all))


class ContinuationSource(Protocol):
    """Says what may follow the text, given as the whole of it."""

    name: str
    top_k: int

    def begin(self, context: DraftContext, stores: Pinned) -> None:
        """A new decode starts."""
        ...

    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        """Add continuations of `context.tokens` to `found`."""
        ...

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:
        """What became of the tree; `accepted`: the sources of the accepted nodes; `start`: the text's length then."""
        ...

    def forget(self, document: str) -> None:
        """The document is closed: drop what is kept for it."""
        ...

    def rename(self, old: str, new: str) -> None:
        """The document has another URI: what is kept for it follows."""
        ...


class QuietSource:
    """What most sources do on most occasions: ask nothing of the engine, start every decode alike, learn nothing."""

    top_k = 0

    def begin(self, context: DraftContext, stores: Pinned) -> None:
        """A decode starts: there is nothing to prepare."""

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:
        """What became of the tree: nothing is learnt of it."""

    def forget(self, document: str) -> None:
        """The document is closed: nothing is kept for it."""

    def rename(self, old: str, new: str) -> None:
        """The document has another URI: nothing is kept for it."""


class StoreSource(QuietSource):
    """D_r or D_c: what follows the longest match of the text's end there; searched where `RetrievalRule` says.

    Args:
        source: `evidence.REPOSITORY` or `CORPUS`.
        hits: continuations at most, an even sample where there are more.
        skips: whether the rule is followed.
        token_ms: what a token takes without drafts.
    """

    def __init__(self, source: int, *, hits: int, skips: bool, token_ms: float) -> None:
        self.name = SOURCES[source]
        self.rule = RetrievalRule()
        self._source, self._hits, self._skips, self._token_ms = source, hits, skips, token_ms
        self._store: Searcher | None = None
        self._search_ms = 0.02
        self._buffers = Buffers(hits)
        self._asked: deque[tuple[int, int]] = deque(maxlen=2)
        """Lengths of the text that was searched for, and its last token; nobody told yet what came of it."""

    def begin(self, context: DraftContext, stores: Pinned) -> None:  # noqa: ARG002 the interface
        """Search this decode's state of the store; what was missing in an older one may be there."""
        self._store = stores.repository if self._source == REPOSITORY else stores.corpus
        self.rule.pinned(stores.generation)
        self._asked.clear()

    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        """What follows the longest match, unless the rule says that a search is not worth its time."""
        last = context.tokens[-1]
        if self._store is None or (self._skips and not self.rule.worth(last, self._search_ms, self._token_ms)):
            return
        started = time.perf_counter()
        match, rows = self._store.fill(found.tail(context.tokens), found.free(self._hits), self._buffers)
        self._search_ms += 0.05 * (min((time.perf_counter() - started) * 1e3, 1.0) - self._search_ms)
        if match:
            self._asked.append((len(context.tokens), last))
            found.take(rows, self._source, match)
        else:
            self.rule.nothing(last)

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:  # noqa: ARG002
        """Tell the rule how many accepted tokens the search for this step gave."""
        while self._asked and self._asked[0][0] <= start:
            length, last = self._asked.popleft()
            if length == start:
                self.rule.gave(last, accepted.count(self._source))


class OutdatedSource(QuietSource):
    """What the output was expected to be before the text changed, put in step with what is said now.

    An expectation that the output so far agrees with from its first token goes on from there. Else the longest end of
    the output that stands in the expectation says where to go on: what was inserted or left out before does not matter.
    """

    name = SOURCES[OUTDATED]

    def __init__(self, longest: int = TAIL) -> None:
        self._longest = longest

    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        """The rest of each outdated suggestion from where the output has come to."""
        if not context.outdated:
            return
        output = np.array(context.tokens[context.prompt_length :], np.int32)
        for expected in context.outdated:
            text = np.array(expected, np.int32)
            place, match = resynchronise(output, text, self._longest)
            if match and place < len(text):
                found.add(text[None, place : place + found.depth], OUTDATED, match)


def resynchronise(output: npt.NDArray[np.int32], expected: npt.NDArray[np.int32], longest: int) -> tuple[int, int]:
    """Where `expected` goes on after `output`, and how many tokens vouch for it, `longest` at most; 0: nowhere.

    Agreement from the first token on, no output at all included, is vouched for by `longest`.
    """
    if len(output) < len(expected) and np.array_equal(expected[: len(output)], output):
        return len(output), longest
    ends_K = np.empty(1, np.int64)
    length, found = match_suffix(expected, output, longest, 1, ends_K)
    return (int(ends_K[0]), int(length)) if found else (0, 0)
