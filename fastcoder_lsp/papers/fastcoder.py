"""FastCoder: searches repository and common code only where that pays, behind a cache of accepted sequences.

The paper (first published as CodeSwift). Its Algorithm 1, before each forward step with context s:

    1   if |CACHE| ≥ l: results ← search(CACHE, s)            `_from_cache`
    2   if no results:
    3       if s ∈ M: skip the retrieval                       `_is_missing`
    4       if s ends in a skip token: go on with probability p  `_is_skipped`
    5       results ← search(D_r, s) ∥ search(D_c, s)          `_from_stores`
    6       if no results: M ← M ∪ {s}                         `_from_stores`
    7   put the results to work: trie, weights, tree           `propose`
    8   update the CACHE with the accepted tokens              `observe`

As printed, the algorithm has no branch that searches the datastore for an ordinary token, and adds skipped contexts to
M. This module follows the paper's prose instead: ordinary tokens always search, and only a failed search is remembered.
M stores the suffix of the failed search, not the whole context, which would never occur again. One thread does line 5:
handing a search of some 20 µs to another one costs more than the search.
"""

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, Verified
from fastcoder_lsp.core.arrays import Int32s
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.draft.base import (
    FROM_CACHE,
    FROM_CORPUS,
    FROM_PROMPT,
    FROM_REPOSITORY,
    Drafter,
    Pin,
    Pinned,
    Specification,
    limited,
    search,
)
from fastcoder_lsp.draft.matching import GAP, History, continuations, match_suffix
from fastcoder_lsp.index.searcher import LONGEST
from fastcoder_lsp.papers.trees import Growth

Reading = Literal["ends", "next"]
"""Two readings of "the context ends in a skip token", the first token of a line that is not white space. `ends`: the
text's last token *is* one. `next`: the next token *will be* one, for the line is blank so far."""


@dataclass(frozen=True, slots=True)
class FastcoderParameters:
    """The paper's parameters with its published values, then what it leaves open, then our departures, all off."""

    cache_minimum: int = 50  # l, sequences that the CACHE must hold before it is asked
    skip_probability: float = 0.5  # p, how often the search goes on at a skip token
    repository_weight: float = 1.0  # α; a node weighs α·t_r + β·t_c
    corpus_weight: float = 1.0  # β
    n_max: int = limited(16, most=LONGEST)  # the longest suffix that is searched
    draft_tokens: int = 64  # nodes of a draft
    cut: int = limited(20, least=1)  # the output enters the CACHE in pieces of so many tokens
    skip_reading: Reading = "ends"  # how "the context ends in a skip token" is read
    n_min: int = 1  # the shortest suffix that is searched
    depth: int = 10  # tokens of a continuation
    max_hits: int = 64  # continuations of each source, an even sample where there are more
    skip: bool = True
    """Whether searches are skipped at skip tokens (a switch of the paper's ablation, as the next four)."""
    missing: bool = True  # whether what was missing before is not searched again
    cache: bool = True  # whether the CACHE is asked
    repository: bool = True  # whether D_r is asked
    corpus: bool = True  # whether D_c is asked
    seed: int = 0  # of the draws of p
    merge: bool = False
    """Whether to search the CACHE and text *and* the stores, each for its longest match, not only one of them."""
    growth: float = 0.0  # factor of a match's weight for each of its tokens, shared by a source's hits; 0: as published
    text_weight: float = 2.0  # the weight of the running text and the CACHE then


PRODUCT = FastcoderParameters(cache_minimum=1, skip=False, merge=True, growth=1.6, corpus_weight=0.5, max_hits=32)
"""Parameters of `fastcoder`, measured on the development tasks (`bench draft`)."""


FASTCODER_PAPER = Specification(
    "fastcoder-paper",
    "the cache, else D_r and D_c, as published",
    FastcoderParameters(),
    lambda parameters, parts: FastcoderDrafter(parts.pin, parts.piece, parameters),
    paper="FastCoder / CodeSwift, Algorithm 1",
    sources=(FROM_CACHE, FROM_REPOSITORY, FROM_CORPUS),
    traits=DrafterTraits(late=True),  # the CACHE grows while the engine verifies
    reads=frozenset({"repository", "corpus"}),
    remembers=True,
)
FASTCODER = replace(
    FASTCODER_PAPER,
    name="fastcoder",
    guesses_from="the running text, a cache of accepted sequences, the repository (D_r) and D_c, merged",
    paper="our departures from `fastcoder-paper`",
    parameters=PRODUCT,
    sources=(FROM_PROMPT, FROM_CACHE, FROM_REPOSITORY, FROM_CORPUS),
)


@dataclass(slots=True)
class RetrievalCounts:
    """Outcomes of the retrievals; the paper reports such shares.

    `asked` (drafts that were wanted) is the sum of `cached` (the CACHE answered), `missing` (line 3 spared the search),
    `skipped` (line 4), `found` and `empty` (the stores were searched), unless `merge` asks all sources.
    """

    asked: int = 0
    cached: int = 0
    missing: int = 0
    skipped: int = 0
    found: int = 0
    empty: int = 0
    sequences: int = 0  # the most that a document's CACHE ever held


class SequenceCache:
    """The CACHE: the latest sequences, at most `capacity` tokens in all, searched by suffix like the datastore."""

    def __init__(self, capacity: int = 8192) -> None:
        self._flat = np.full(capacity, GAP, np.int32)
        self._size = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, sequence: Sequence[int]) -> None:
        """Add a sequence; one of fewer than two tokens has no continuation and is ignored."""
        needed = len(sequence) + 1
        if needed < 3 or needed > len(self._flat) // 2:
            return
        if self._size + needed > len(self._flat):
            self._drop_oldest_half()
        self._flat[self._size : self._size + len(sequence)] = sequence
        self._flat[self._size + len(sequence)] = GAP
        self._size += needed
        self._count += 1

    def search(self, context: Int32s, n_max: int, n_min: int, max_hits: int, depth: int) -> tuple[int, Int32s]:
        """The longest match of the context's end (0: none), and its continuations, latest first, padded by `GAP`."""
        ends_K = np.empty(max_hits, np.int64)
        flat = self._flat[: self._size]
        length, found = match_suffix(flat, context, n_max, n_min, ends_K)
        rows_KD = np.empty((found, depth), np.int32)
        continuations(flat, ends_K[:found], rows_KD)
        return int(length), rows_KD

    def _drop_oldest_half(self) -> None:
        half = self._size // 2
        gaps = np.flatnonzero(self._flat[half : self._size] == GAP)
        start = half + int(gaps[0]) + 1
        self._count -= int(np.count_nonzero(self._flat[:start] == GAP))
        kept = self._flat[start : self._size].copy()
        self._flat[: len(kept)] = kept
        self._size = len(kept)


@dataclass(slots=True)
class _DocumentState:
    """CACHE and M of one document, and the generation of the stores that M belongs to."""

    cache: SequenceCache = field(default_factory=SequenceCache)
    missing: set[tuple[int, ...]] = field(default_factory=set)
    generation: tuple[int, ...] = ()


class FastcoderDrafter(Drafter):
    """Algorithm 1. `piece` gives the bytes of a token, to find skip tokens."""

    def __init__(self, pin: Pin, piece: Callable[[int], bytes], parameters: FastcoderParameters | None = None) -> None:
        self._pin, self._piece = pin, piece
        self._parameters = params = parameters or FastcoderParameters()
        self._documents = PerDocument(_DocumentState)
        super().__init__(FASTCODER, self._documents)
        self._document = self._documents.fetch("")
        self._stores = Pinned()
        self._history = History()
        self._cut_at = 0
        self._lengths: deque[int] = deque(maxlen=2)  # tokens before each draft whose step is not observed yet
        self._growth = Growth(4 * params.max_hits, params.depth)
        self._ends_K = np.empty(params.max_hits, np.int64)
        self._random = random.Random(params.seed)  # noqa: S311 a guess is no secret
        self.retrievals = RetrievalCounts()

    def begin(self, context: DraftContext) -> None:
        """Pin the stores, and clear M if they have changed."""
        self._stores = self._pin(context.document)
        document = self._document = self._documents.fetch(context.document)
        if document.generation != self._stores.generation:
            document.missing.clear()
            document.generation = self._stores.generation
        self._history.begin(context)
        self._cut_at = len(self._history)
        self._lengths.clear()

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """Lines 1–7: retrieve, and draft the heaviest nodes of the trie."""
        self._history.follow(context)
        self._lengths.append(len(self._history))
        self._growth.clear()
        self.retrievals.asked += 1
        params, room = self._parameters, min(nodes, self._parameters.draft_tokens)
        if room < 1:
            return NO_DRAFT
        if params.merge:
            self._from_text()
        found = params.cache and len(self._document.cache) >= params.cache_minimum and self._from_cache()
        if (params.merge or not found) and not self._is_missing(context) and not self._is_skipped(context):
            self._from_stores(context)
        return self._growth.draft(room)

    def observe(self, tree: DraftTree, verified: Verified) -> None:  # noqa: ARG002 the interface
        """Line 8: context + accepted draft enter the CACHE, and the verified output, cut every 20 tokens."""
        params, history = self._parameters, self._history
        held = self._lengths.popleft() if self._lengths else len(history)
        length = held + len(verified.emitted)
        # A draft proposed since then has brought them already.
        history.append(verified.emitted[len(history) - held :])
        if not params.cache:
            return
        if verified.path:
            accepted = held + len(verified.path)
            self._document.cache.add(history.tokens[max(held - params.n_max, 0) : accepted].tolist())
        while length - self._cut_at >= params.cut:
            self._document.cache.add(history.tokens[self._cut_at : self._cut_at + params.cut].tolist())
            self._cut_at += params.cut
        self.retrievals.sequences = max(self.retrievals.sequences, len(self._document.cache))

    @override
    def figures(self) -> Mapping[str, float]:
        counted, asked = self.retrievals, max(self.retrievals.asked, 1)
        spared = counted.missing + counted.skipped
        return asdict(counted) | {"saved": spared / asked, "from_cache": counted.cached / asked}

    def _from_cache(self) -> bool:
        """Line 1: the CACHE, searched by suffix like the stores."""
        params = self._parameters
        length, rows_KD = self._document.cache.search(
            self._history.tokens, params.n_max, params.n_min, params.max_hits, params.depth
        )
        if not length:
            return False
        self.retrievals.cached += 1
        self._growth.add(
            rows_KD,
            self._weight(params.text_weight if params.merge else 1.0, length, len(rows_KD)),
            FROM_CACHE.name,
            length,
        )
        return True

    def _is_missing(self, context: DraftContext) -> bool:
        """Line 3: a search for this suffix found nothing before."""
        params = self._parameters
        missing = params.missing and tuple(context.tokens[-params.n_min :]) in self._document.missing
        self.retrievals.missing += missing
        return missing

    def _is_skipped(self, context: DraftContext) -> bool:
        """Line 4: at a skip token, go on with probability p only."""
        params = self._parameters
        skipped = (
            params.skip
            and at_skip_token(context.tokens, self._piece, params.skip_reading)
            and self._random.random() >= params.skip_probability
        )
        self.retrievals.skipped += skipped
        return skipped

    def _from_stores(self, context: DraftContext) -> None:
        """Lines 5 and 6: D_r and D_c, each with its longest match; both empty: the suffix is missing."""
        params, end, found = self._parameters, context.tokens[-self._parameters.n_max :], False
        for store, wanted, weight, source in (
            (self._stores.repository, params.repository, params.repository_weight, FROM_REPOSITORY),
            (self._stores.corpus, params.corpus, params.corpus_weight, FROM_CORPUS),
        ):
            hits = search(store if wanted else None, end, params.n_max, params.max_hits, params.depth, params.n_min)
            if hits is not None:
                found = True
                rows_KD = hits.continuations_HD
                self._growth.add(rows_KD, self._weight(weight, hits.length, len(rows_KD)), source.name, hits.length)
        if found:
            self.retrievals.found += 1
        else:
            self.retrievals.empty += 1
            self._document.missing.add(tuple(end[-params.n_min :]))

    def _from_text(self) -> None:
        """Departure `merge`: search prompt and output too, as prompt lookup does."""
        params, tokens = self._parameters, self._history.tokens
        length, found = match_suffix(tokens, tokens, params.n_max, params.n_min, self._ends_K)
        if found:
            rows_KD = np.empty((found, params.depth), np.int32)
            continuations(tokens, self._ends_K[:found], rows_KD)
            self._growth.add(rows_KD, self._weight(params.text_weight, length, found), FROM_PROMPT.name, int(length))

    def _weight(self, weight: float, length: int, hits: int) -> float:
        """Weight of one continuation: its source's; `growth` adds the match's length and its share of the hits."""
        growth = self._parameters.growth
        return weight * growth**length / hits if growth else weight


def at_skip_token(tokens: Sequence[int], piece: Callable[[int], bytes], reading: Reading) -> bool:
    """Whether the text of `tokens` ends at a skip token, in the given reading."""
    if reading == "next":
        return _is_blank(tokens, piece)
    last = piece(tokens[-1])
    line = last[last.rfind(b"\n") + 1 :]
    return bool(line.strip()) and (len(line) < len(last) or _is_blank(tokens[:-1], piece))


def _is_blank(tokens: Sequence[int], piece: Callable[[int], bytes]) -> bool:
    """Whether the last line of the text is blank; not if it is blank over 64 tokens, for that is no code."""
    for token in reversed(tokens[-64:]):
        text = piece(token)
        line = text[text.rfind(b"\n") + 1 :]
        if line.strip():
            return False
        if len(line) < len(text):
            return True
    return len(tokens) < 64


SPECIFICATIONS = (FASTCODER, FASTCODER_PAPER)
