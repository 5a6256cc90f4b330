"""Cacheback: drafts from least-recently-used tables of token n-grams alone.

Ma et al. 2025, *Cacheback: Speculative Decoding With Nothing But Cache* (EMNLP). A table maps a *leader* (LL tokens) to
its recent *followers* (FL tokens each). The dynamic table is filled by a sliding window from the prompt, then from the
accepted tokens; the frozen one holds a corpus's commonest n-grams (`frozen_table`). A query moves the leader to the
front, an insertion moves leader and follower. The paper resets the dynamic table for each test; here it lives as long
as its document.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Generic, TypeVar

from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, Draw
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.draft.base import FROM_CACHE, FROM_CORPUS, Drafter, Pin, Source, Specification, nothing
from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape
from fastcoder_lsp.papers.trees import Trie

Gram = tuple[int, ...]
Leader = TypeVar("Leader", bound=Hashable)


@dataclass(frozen=True, slots=True)
class CachebackParameters:
    """The paper's six parameters under the paper's names, its published setting as defaults."""

    leader_length: int = 1  # LL, tokens of a leader
    leader_capacity: int = 2**20  # LC, leaders that are kept
    follower_length: int = 3  # FL, tokens of a follower
    follower_capacity: int = 128  # FC, followers that are kept of a leader
    total_draft_length: int = 96  # TDL, drafts and tokens not yet in the KV cache
    continuation_reserve: int = 16  # CRT, the part of that kept for the second and later query levels
    dynamic: bool = True  # whether to query the document's table (the paper's ablation)
    frozen: bool = True  # whether to query the corpus' table (the paper's ablation)


CACHEBACK = Specification(
    "cacheback",
    "tables of recent and of common n-grams",
    CachebackParameters(),
    lambda parameters, parts: CachebackDrafter(parameters, parts.pin),
    paper="Ma et al. 2025, Cacheback",
    sources=(FROM_CACHE, FROM_CORPUS),
    reads=frozenset({"table"}),
    remembers=True,
)
CACHEBACK_DYNAMIC = replace(
    CACHEBACK,
    name="cacheback-dynamic",
    guesses_from="the table of recent n-grams alone",
    parameters=CachebackParameters(frozen=False),
    sources=(FROM_CACHE,),
    reads=frozenset(),
)
CACHEBACK_FROZEN = replace(
    CACHEBACK,
    name="cacheback-frozen",
    guesses_from="the table of common n-grams alone",
    parameters=CachebackParameters(dynamic=False),
    sources=(FROM_CORPUS,),
    remembers=False,
)


class LruTable(Generic[Leader]):
    """Leaders and their followers, both in order of use; the least recently used are dropped."""

    def __init__(self, leaders: int, followers: int) -> None:
        self._leaders, self._followers = leaders, followers
        self._table: OrderedDict[Leader, OrderedDict[Gram, None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._table)

    def insert(self, leader: Leader, follower: Gram) -> None:
        """Move both to the front."""
        followers = self._table.get(leader)
        if followers is None:
            followers = self._table[leader] = OrderedDict()
            if len(self._table) > self._leaders:
                self._table.popitem(last=False)
        else:
            self._table.move_to_end(leader)
        followers[follower] = None
        followers.move_to_end(follower)
        if len(followers) > self._followers:
            followers.popitem(last=False)

    def query(self, leader: Leader) -> Iterable[Gram]:
        """The followers, most recently used first; the leader moves to the front."""
        followers = self._table.get(leader)
        if followers is None:
            return ()
        self._table.move_to_end(leader)
        return reversed(followers)

    def peek(self, leader: Leader) -> list[Gram]:
        """The followers, most recently used first; the leader keeps its place."""
        return list(reversed(self._table.get(leader, ())))


@dataclass(slots=True)
class _DocumentState:
    """A document's dynamic table, the text that filled it last, and how many windows of it are in the table."""

    table: LruTable[Gram]
    seen: list[int] = field(default_factory=list)
    inserted: int = 0


class CachebackDrafter(Drafter):
    """Grows a tree, breadth first, from the dynamic table and, once `pin` gives one, the frozen table."""

    def __init__(self, parameters: CachebackParameters | None = None, pin: Pin = nothing) -> None:
        self._parameters = params = parameters or CachebackParameters()
        self._pin = pin
        leaders, followers = params.leader_capacity, params.follower_capacity
        self._shape = TableShape(params.leader_length, params.follower_length, leaders, followers)
        self._frozen: FrozenTable | None = None
        self._documents = PerDocument(lambda: _DocumentState(LruTable(leaders, followers)))
        super().__init__(CACHEBACK, self._documents)
        self._document = self._documents.fetch("")

    def begin(self, context: DraftContext) -> None:
        """Fill the dynamic table from the prompt; the part shared with the last prompt is in it already."""
        document = self._document = self._documents.fetch(context.document)
        if self._parameters.frozen:
            self._frozen = self._pin(context.document).frozen(self._shape)
        prompt = context.tokens
        shared = common_prefix(document.seen, prompt)
        window = self._parameters.leader_length + self._parameters.follower_length
        document.inserted = min(document.inserted, max(shared - window + 1, 0))
        document.seen = list(prompt)
        self._fill()

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """Insert the newly accepted tokens, then grow a tree below the last leader.

        TDL counts the tokens not in the KV cache yet; the loop holds back one, the last.
        """
        document = self._document
        document.seen += context.tokens[len(document.seen) :]
        self._fill()
        room = min(nodes, self._parameters.total_draft_length - 1)
        if room < 1:
            return NO_DRAFT
        return self._grow(context.tokens, room)

    def _fill(self) -> None:
        """Slide the window over the new tokens: each place gives one (leader, follower)."""
        if not self._parameters.dynamic:
            return
        document, middle = self._document, self._parameters.leader_length
        window = middle + self._parameters.follower_length
        for start in range(document.inserted, len(document.seen) - window + 1):
            gram = tuple(document.seen[start : start + window])
            document.table.insert(gram[:middle], gram[middle:])
            document.inserted = start + 1

    def _followers(self, leader: Gram) -> Iterator[tuple[Source, Gram]]:
        dynamic = ((FROM_CACHE, follower) for follower in self._document.table.query(leader))
        if self._frozen is None:
            return dynamic
        return chain(dynamic, ((FROM_CORPUS, follower) for follower in self._frozen.query(leader)))

    def _grow(self, tokens: Sequence[int], room: int) -> Draft:
        """Query level by level; the first leaves the nodes that CRT reserves, which shrink with the verification."""
        length = self._parameters.leader_length
        draft = _FollowerTree(room, length)
        root = tuple(tokens[-length:])
        reserve = self._parameters.continuation_reserve * (room + 1) // self._parameters.total_draft_length
        draft.extend(-1, self._followers(root), room - reserve)
        leaves = [(leaf, root + draft.path(leaf)) for leaf in draft.new_leaves()]
        while leaves and draft.left():
            for leaf, path in leaves:
                draft.extend(leaf, self._followers(path[-length:]), room)
                if not draft.left():
                    break
            leaves = [(leaf, (root + draft.path(leaf))[-length:]) for leaf in draft.new_leaves()]
        return draft.draft()


class _FollowerTree(Trie):
    """A draft that remembers where its followers end."""

    def __init__(self, room: int, match: int) -> None:
        super().__init__(room)
        self._match = match
        self._ends: list[int] = []

    def extend(self, node: int, followers: Iterable[tuple[Source, Gram]], limit: int) -> None:
        """Hang followers below `node` until the tree has `limit` nodes; the last follower may be cut short."""
        tokens, parents, places = self._tokens, self._parents, self._places
        if len(tokens) >= limit:
            return
        for source, follower in followers:
            place, before = node, len(tokens)
            for token in follower:
                known = places.get((place, token))
                if known is None:
                    if len(tokens) >= limit:
                        if len(tokens) > before:
                            self._ends.append(place)
                        return
                    known = places[place, token] = len(tokens)
                    tokens.append(token)
                    parents.append(place)
                    self._sources.append(source.name)
                place = known
            if len(tokens) > before:
                self._ends.append(place)

    def new_leaves(self) -> list[int]:
        ends, self._ends = self._ends, []
        return ends

    def path(self, node: int) -> Gram:
        found: list[int] = []
        while node >= 0:
            found.append(self._tokens[node])
            node = self._parents[node]
        return tuple(reversed(found))

    @override
    def draft(self, draws: Sequence[Draw] = ()) -> Draft:
        self._matches = [self._match] * len(self._tokens)
        return super().draft(draws)


SPECIFICATIONS = (CACHEBACK, CACHEBACK_DYNAMIC, CACHEBACK_FROZEN)
