"""Sources of `auto` that propose whole continuations of the text, one class each.

Sources that are asked at every node of the tree (running text, history, tables) are compiled, in `tree`.
"""

import logging
import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, CacheLost, Draft, DraftContext, DraftTree, StepCosts, Verified
from fastcoder_lsp.core.arrays import Int32s
from fastcoder_lsp.draft.auto.evidence import OUTDATED, REPOSITORY, SOURCES, TRAINED
from fastcoder_lsp.draft.auto.tree import TAIL, WEIGHT_GROWTH, Continuations
from fastcoder_lsp.draft.base import Drafter, DrafterParts, Pinned
from fastcoder_lsp.draft.matching import GAP, match_suffix
from fastcoder_lsp.draft.pricing import Price
from fastcoder_lsp.draft.rewrite import Alignment, PredictedToken
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.index.searcher import Searcher

logger = logging.getLogger(__name__)

_BUCKETS = 4096
_HALVED_AT = 4096.0  # searches after a token before they and their gains count half
_GAIN, _STRENGTH = 0.2, 4.0  # prior for the tokens that a search brings, and its weight in searches
_NODES = 16  # guesses that another drafter is asked for at once
_SURE = 0.5  # the probability from which the first token of a path counts as a match of `TAIL`
_WINDOW = 8192  # newest tokens of the prompt that an alignment searches


DEPTH = 16  # tokens of a continuation, if no source has longer ones


class FoundContinuations:
    """Continuations found for one draft, of at most `depth` tokens, each with its source and its match's length."""

    capacity = 128

    def __init__(self, depth: int = DEPTH) -> None:
        self.depth = depth
        rows_KD = np.full((self.capacity, self.depth), GAP, np.int32)
        self._all = Continuations(rows_KD, *(np.zeros(self.capacity, np.int32) for _ in range(2)))
        self._filled = 0
        self._tail_L: Int32s | None = None

    def clear(self) -> None:
        """Begin another draft."""
        self._filled, self._tail_L = 0, None

    def tail(self, tokens: Sequence[int]) -> Int32s:
        """The end of the text, backwards; made once for all sources of a draft."""
        if self._tail_L is None:
            self._tail_L = np.array(tokens[: -TAIL - 1 : -1], np.int32)
        return self._tail_L

    def free(self, rows: int) -> Int32s:
        """The next free rows, at most `rows`, to write to before `take`."""
        return self._all.rows_KD[self._filled : self._filled + rows]

    def take(self, rows: int, source: int, match: int) -> None:
        """Count so many of the free rows as continuations, padded with `GAP`."""
        start, end = self._filled, self._filled + rows
        self._all.source_K[start:end] = source
        self._all.match_K[start:end] = min(match, TAIL)
        self._filled = end

    def add(self, rows_KD: Int32s, source: int, match: int) -> None:
        """Copy continuations, padded with `GAP`; those that do not fit are left out."""
        free_KD = self.free(len(rows_KD))
        columns = min(rows_KD.shape[1], self.depth)
        free_KD[:, :columns] = rows_KD[: len(free_KD), :columns]
        free_KD[:, columns:] = GAP
        self.take(len(free_KD), source, match)

    def add_row(self, tokens: Sequence[int], source: int, match: int) -> None:
        """Add one continuation, cut where it does not fit."""
        self.add(np.array([tokens[: self.depth]], np.int32), source, match)

    @property
    def continuations(self) -> Continuations:
        """The continuations, valid until the next change."""
        return Continuations(*(part[: self._filled] for part in self._all))


class ContinuationSource:
    """A source of continuations that needs nothing of the engine, keeps nothing and learns nothing."""

    name: str
    top_k = 0
    depth = DEPTH  # the most tokens of its continuations

    def begin(self, context: DraftContext, stores: Pinned) -> None:
        """Prepare for a new decode."""

    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        """Add continuations of `context.tokens` to `found`."""
        raise NotImplementedError

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:
        """Learn from a tree proposed after `start` tokens of text; `accepted`: the sources of its accepted nodes."""

    def forget(self, document: str) -> None:
        """Drop the memory of a closed document."""

    def rename(self, old: str, new: str) -> None:
        """Move the memory of a document to its new URI."""


class RetrievalRule:
    """Decides whether one store is searched, from the gains of earlier searches after the same token.

    FastCoder's skip tokens and missing table are special cases: the last token shows where searches seldom find
    anything, and a suffix that no file contains is not searched again until the store changes.
    """

    def __init__(self) -> None:
        self._searched = np.zeros(_BUCKETS, np.float32)
        self._gained = np.zeros(_BUCKETS, np.float32)
        self._missing: set[int] = set()
        self._generation: tuple[int, ...] = ()

    def pinned(self, generation: tuple[int, ...]) -> None:
        """Forget missing tokens if the store has changed."""
        if generation != self._generation:
            self._generation = generation
            self._missing.clear()

    def worth(self, last: int, search_ms: float, token_ms: float) -> bool:
        """Whether to search for a context that ends in the token `last`; a plain token takes `token_ms`."""
        if last in self._missing:
            return False
        bucket = last % _BUCKETS
        gain = (_GAIN * _STRENGTH + self._gained[bucket]) / (_STRENGTH + self._searched[bucket])
        if gain * token_ms < search_ms:
            # Decays, so that a skipped token is tried again one day.
            self._searched[bucket] *= 0.99
            return False
        return True

    def nothing(self, last: int) -> None:
        """Record that a search did not even find the last token."""
        self._missing.add(last)

    def gave(self, last: int, tokens: int) -> None:
        """Record how many accepted tokens a search gave."""
        bucket = last % _BUCKETS
        self._searched[bucket] += 1
        self._gained[bucket] += tokens
        if self._searched[bucket] > _HALVED_AT:
            self._searched[bucket] /= 2
            self._gained[bucket] /= 2


class StoreSource(ContinuationSource):
    """D_r or D_c: continuations of the longest match of the text's end, searched where `RetrievalRule` says.

    `source`: `evidence.REPOSITORY` or `CORPUS`. Of more than `hits` continuations it takes an even sample. `token_ms`:
    time of a token without drafts.
    """

    def __init__(self, source: int, *, hits: int, skips: bool, token_ms: float) -> None:
        self.name = SOURCES[source]
        self.rule = RetrievalRule()
        self._source, self._hits, self._skips, self._token_ms = source, hits, skips, token_ms
        self._store: Searcher | None = None
        self._search_ms = 0.02
        self._hits_H2 = np.empty((hits, 2), np.int32)
        self._asked: deque[tuple[int, int]] = deque(maxlen=2)
        """Searches whose step is not observed yet: the text's length, and its last token."""

    @override
    def begin(self, context: DraftContext, stores: Pinned) -> None:
        self._store = stores.repository if self._source == REPOSITORY else stores.corpus
        self.rule.pinned(stores.generation)
        self._asked.clear()

    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        """Add continuations of the longest match, unless the rule says that a search is not worth its time."""
        last = context.tokens[-1]
        if self._store is None or (self._skips and not self.rule.worth(last, self._search_ms, self._token_ms)):
            return
        started = time.perf_counter()
        match, rows = self._store.fill(found.tail(context.tokens), found.free(self._hits), self._hits_H2)
        self._search_ms += 0.05 * (min((time.perf_counter() - started) * 1e3, 1.0) - self._search_ms)
        if match:
            self._asked.append((len(context.tokens), last))
            found.take(rows, self._source, match)
        else:
            self.rule.nothing(last)

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:  # noqa: ARG002
        """Record how many accepted tokens the search for this step gave."""
        while self._asked and self._asked[0][0] <= start:
            length, last = self._asked.popleft()
            if length == start:
                self.rule.gave(last, accepted.count(self._source))


class OutdatedSource(ContinuationSource):
    """Earlier expectations of the output, from before the text changed, aligned with the output so far.

    An expectation that agrees from its first token continues from there. Otherwise the longest end of the output that
    occurs in the expectation determines the place, so that insertions and omissions before it do not matter.
    """

    name = SOURCES[OUTDATED]

    @override
    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        if not context.outdated:
            return
        output = np.array(context.tokens[context.prompt_length :], np.int32)
        for expected in context.outdated:
            text = np.array(expected, np.int32)
            place, match = resynchronise(output, text, TAIL)
            if match and place < len(text):
                found.add(text[None, place : place + found.depth], OUTDATED, match)


class RewriteSource(ContinuationSource):
    """The likeliest paths through an answer that repeats most of an old text, where one is known (`draft.rewrite`).

    A path counts as a match as long as the copy behind it; a less likely one beside it as a shorter match. `piece`
    gives the bytes of a token.
    """

    name = SOURCES[OUTDATED]

    def __init__(self, piece: Callable[[int], bytes]) -> None:
        self._piece = piece
        self._alignment: Alignment | None = None
        self._seen = 0

    @override
    def begin(self, context: DraftContext, stores: Pinned) -> None:
        self._alignment, self._seen = None, context.prompt_length
        if context.rewrite is not None:
            prompt = context.tokens[max(self._seen - _WINDOW, 0) : self._seen]
            self._alignment = Alignment(context.rewrite, prompt, self._piece)

    @override
    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        if self._alignment is None:
            return
        self._alignment.follow(context.tokens[self._seen :])
        self._seen = len(context.tokens)
        grown = self._alignment.grow(_NODES)
        for path, share in _paths(grown):
            first = grown[path[0]]
            longest = TAIL if first.likely >= _SURE else min(max(first.state.match, first.state.run), TAIL)
            match = round(longest + math.log(share) / math.log(WEIGHT_GROWTH))
            found.add_row([grown[node].token for node in path], OUTDATED, max(match, 1))


def _paths(grown: Sequence[PredictedToken]) -> Iterator[tuple[list[int], float]]:
    """The paths of a tree, each with its probability among all paths."""
    below, shares = defaultdict[int, float](float), list[float]()
    for node in grown:
        below[node.parent] += node.likely
    for node in grown:
        shares.append((shares[node.parent] if node.parent >= 0 else 1.0) * node.likely / below[node.parent])
    for leaf in range(len(grown)):
        if leaf not in below:
            path, place = list[int](), leaf
            while place >= 0:
                path.append(place)
                place = grown[place].parent
            yield path[::-1], shares[leaf]


def resynchronise(output: Int32s, expected: Int32s, longest: int) -> tuple[int, int]:
    """Where `expected` goes on after `output`, and the match's length, at most `longest`; 0: nowhere."""
    if len(output) < len(expected) and np.array_equal(expected[: len(output)], output):
        return len(output), longest
    ends_K = np.empty(1, np.int64)
    length, found = match_suffix(expected, output, longest, 1, ends_K)
    return (int(ends_K[0]), int(length)) if found else (0, 0)


class TailSource(ContinuationSource):
    """A source that also hangs tokens of its own below the tree that `auto` grew."""

    def extended(self, draft: Draft, likely: Sequence[float], nodes: int, costs: StepCosts | None) -> Draft:
        """`draft` with tokens below it, as many as are worth their rows.

        Args:
            draft: the tree that `auto` grew.
            likely: the probability of each of its nodes' paths.
            nodes: nodes at most, in all.
            costs: of the engine's steps; None if they are unmeasured.
        """
        raise NotImplementedError


class DrafterSource(ContinuationSource):
    """The drafts of another drafter, one that runs a model, asked where it pays (`pricing`).

    Each path of its tree is a continuation. A drafter that does not pay costs nothing: it reads no text, and the engine
    keeps no hidden states for it. One that reads hidden states is tried again only if the engine keeps some anyway,
    since keeping them would cost more than all drafts of a trial.

    Args:
        drafter: proposes by itself; it observes the verified tree, not the one that it proposed.
        clock: in seconds.
        costs: of the engine's steps, for the time of a token before the first step; None if unmeasured.
        priced: False asks it in every step.
    """

    name = SOURCES[TRAINED]

    def __init__(
        self,
        drafter: Drafter,
        clock: Callable[[], float] = time.perf_counter,
        costs: StepCosts | None = None,
        *,
        priced: bool = True,
    ) -> None:
        self.drafter, self.top_k = drafter, drafter.traits.top_k
        self._clock, self._costs = clock, costs
        self._price = Price(costs, priced=priced)
        self._asked = False
        self._since = 0.0
        self._guessed: dict[tuple[int, int], int] = {}  # the nodes of its last tree, by parent and token
        self._lent = False  # whether the engine ever kept hidden states for it: once kept, they stay so
        self.asked = self.left_out = 0

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers whose hidden states the next decode must keep for it; none while it is not asked."""
        layers, price = self.drafter.traits.layers, self._price
        return layers if layers and (self.pays() or (self._lent and (price.trial or price.due()))) else ()

    def warm_up(self) -> None:
        """Prepare the drafter, and forecast its price."""
        self.drafter.warm_up()
        self._price.expect(self.drafter.forecast(self._costs))

    @override
    def begin(self, context: DraftContext, stores: Pinned) -> None:
        self._asked = False
        self._since = 0.0
        self._lent |= context.engine is not None
        if not self._price.trial and self._possible(context) and self._price.due() and not self.pays():
            self._price.begin_trial()
        self.drafter.begin(context)

    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        """Add the paths of the drafter's tree, if it is worth asking."""
        before = self._clock()
        self._guessed = {}
        self._asked = self._possible(context) and (self._price.trial > 0 or self.pays())
        if self._asked:
            self.asked += 1
            self._price.asking()
            draft = self._proposed(context)
            self._guessed = {at: node for node, at in enumerate(zip(draft.parents, draft.tokens, strict=True))}
            self._add(draft, found)
            took = (self._clock() - before) * 1e3
            self._asked = self._price.drafted(took, empty=not draft.tokens)
        else:
            self.left_out += 1
        self._since = self._clock()

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:  # noqa: ARG002
        """Count the tokens that only this drafter brought, and the time of the step."""
        if self._since and verified.emitted:
            took = (self._clock() - self._since) * 1e3
            brought = self._brought_by(verified.emitted, accepted)
            self._price.stepped(
                took, rows=len(tree.tokens), emitted=len(verified.emitted), brought=brought, asked=self._asked
            )
        self._since = 0.0
        self.drafter.observe(tree, verified)

    def pays(self) -> bool:
        """Whether asking is worth its time, as far as is known."""
        return self._price.pays()

    @override
    def forget(self, document: str) -> None:
        self.drafter.forget(document)

    @override
    def rename(self, old: str, new: str) -> None:
        self.drafter.rename(old, new)

    def _proposed(self, context: DraftContext) -> Draft:
        """The drafter's tree; an error of its weights must not cost other sources their drafts."""
        try:
            return self.drafter.propose(context, _NODES)
        except (FastcoderError, CacheLost):  # reported at the start; over after the next prefill
            raise
        except Exception:
            self._price.fail()
            logger.exception("drafter %s failed; auto stops using it", self.drafter.name)
            return NO_DRAFT

    def _possible(self, context: DraftContext) -> bool:
        return context.engine is not None or not self.drafter.traits.layers

    def _brought_by(self, emitted: Sequence[int], accepted: Sequence[int]) -> int:
        """How many accepted tokens are in this drafter's own tree: several drafters share one source name."""
        node, brought = -1, 0
        for token, source in zip(emitted, accepted, strict=False):
            if (below := self._guessed.get((node, token))) is None:
                break
            node, brought = below, brought + (source == TRAINED)
        return brought

    def _add(self, draft: Draft, found: FoundContinuations) -> None:
        inner = set(draft.parents)
        for leaf in range(len(draft.tokens)):
            if leaf in inner:
                continue
            path: list[int] = []
            node = leaf
            while node >= 0:
                path.append(draft.tokens[node])
                node = draft.parents[node]
            found.add_row(path[::-1], TRAINED, TAIL)


Offer = Callable[[DrafterParts, str], ContinuationSource | Drafter]
"""What a drafter brings to `auto` (`for_auto` in its module), given its parts and the folder of its weights.

A drafter that runs a model is asked where its expected gain is worth its price (`DrafterSource`).
"""
