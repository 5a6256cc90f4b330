"""Makes a well-formed tree for the engine out of any draft, and holds the tree to the text that a user has begun.

It drops nodes that cannot be verified (unknown ids, broken parents, twins, nodes beyond the room, text that healing
forbids) and keeps the order of the rest. A drafter that fails costs speed, never an answer: its first failure is
logged, and it drafts no more in this decode.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import lt
from typing import TypeVar

from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, CacheLost, Draft, DraftContext, DraftTree, Draw, Tokens, Verified
from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.draft.base import Drafter

Piece = Callable[[int], bytes]  # the bytes of a token's text
Allow = Callable[[bytes], Int64s]
"""The ids that agree with given bytes: their text starts with them, or they start with it. Never empty."""


@dataclass(frozen=True, slots=True)
class Healing:
    """The state of healing: the next tokens must first spell the `remaining` bytes."""

    remaining: bytes
    piece: Piece
    allow: Allow

    def after(self, token: int) -> "Healing | None":
        """The state after `token`; None if the token contradicts the text."""
        if not self.remaining:
            return self
        text = self.piece(token)
        if not text or not (text.startswith(self.remaining) or self.remaining.startswith(text)):
            return None
        return replace(self, remaining=self.remaining[len(text) :])


def allowed_ids(tree: DraftTree, healing: Healing) -> Mapping[int, Int64s]:
    """Node → the ids that may follow it, for nodes whose successors are restricted."""
    if not healing.remaining:
        return {}
    root = tree.pending - 1
    states = {root: healing}
    for node in range(tree.pending, len(tree)):
        state = states[tree.parents[node]].after(tree.tokens[node])
        assert state is not None, "build_tree lets no contradicting node through"
        states[node] = state
    return {node: healing.allow(state.remaining) for node, state in states.items() if state.remaining}


logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")


def build_tree(pending: Tokens, draft: Draft, *, room: int, vocabulary: int, healing: Healing) -> DraftTree:
    """The pending chain with the usable part of `draft` below it.

    Args:
        pending: tokens that are decided but not in the KV cache, at least one.
        draft: guesses; parents index the draft's own nodes, -1 is the last pending token. A node whose parent was
            dropped is dropped; of twins (same token, same parent) the first stays and takes over the other's children.
            A sampled draft is taken as a whole or not at all: with parts missing, its acceptance would be biased.
        room: most draft nodes.
        vocabulary: the number of ids.
        healing: the bytes before the cursor that the first tokens must spell.
    """
    if not healing.remaining and _is_sound(draft, room, vocabulary):
        return _joined(pending, draft)
    if draft.draws:
        return _joined(pending, NO_DRAFT)
    root = len(pending) - 1
    tokens, parents = list(pending), list(range(-1, root))
    sources, matches = [""] * len(pending), [0] * len(pending)
    place: dict[int, int] = {-1: root}
    twins: dict[tuple[int, int], int] = {}
    demands: dict[int, Healing] = {root: healing}
    for guess, (token, above) in enumerate(zip(draft.tokens, draft.parents, strict=False)):
        parent = place.get(above)
        if parent is None or above >= guess or not 0 <= token < vocabulary:
            continue
        if (twin := twins.get((parent, token))) is not None:
            place[guess] = twin
            continue
        below = demands[parent].after(token)
        if below is None or len(tokens) - len(pending) >= room:
            continue
        node = place[guess] = twins[parent, token] = len(tokens)
        demands[node] = below
        tokens.append(token)
        parents.append(parent)
        sources.append(draft.sources[guess] if guess < len(draft.sources) else "unnamed")
        matches.append(draft.matches[guess] if guess < len(draft.matches) else 0)
    return DraftTree(tuple(tokens), tuple(parents), len(pending), tuple(sources), tuple(matches))


def unbranched(tree: DraftTree) -> DraftTree:
    """The longest chain of a tree, for engines whose drafts may not branch; of a sampled tree the pending tokens."""
    depths, node = tree.depths(), tree.pending - 1
    if depths[-1] == len(tree) - 1:
        return tree
    kept = list[int]()
    node = node if tree.draws else depths.index(max(depths))
    while node >= 0:
        kept.append(node)
        node = tree.parents[node]
    kept.reverse()
    return DraftTree(
        tuple(tree.tokens[node] for node in kept),
        tuple(range(-1, len(kept) - 1)),
        tree.pending,
        tuple(tree.sources[node] for node in kept),
        tuple(tree.matches[node] for node in kept),
    )


def _is_sound(draft: Draft, room: int, vocabulary: int) -> bool:
    """Whether the draft needs no repair: true of good drafters, and checked in a quarter of the time."""
    tokens, parents = draft.tokens, draft.parents
    return (
        len(tokens) == len(parents) == len(draft.sources) == len(draft.matches)
        and 0 < len(tokens) <= room
        and min(tokens) >= 0
        and max(tokens) < vocabulary
        and min(parents) >= -1
        and all(map(lt, parents, range(len(parents))))
        and len(set(zip(parents, tokens, strict=True))) == len(tokens)
    )


def _joined(pending: Tokens, draft: Draft) -> DraftTree:
    first = len(pending)
    return DraftTree(
        tokens=(*pending, *draft.tokens),
        parents=(*range(-1, first - 1), *(parent + first for parent in draft.parents)),
        pending=first,
        sources=(*[""] * first, *draft.sources),
        matches=(*[0] * first, *draft.matches),
        draws=tuple(Draw(draw.node + first, draw.proposal) for draw in draft.draws),
    )


class GuardedDrafter(Drafter):
    """A drafter that passes calls to another one and catches its exceptions.

    One that has failed drafts nothing until the next decode, but still learns which documents are closed and renamed.
    """

    def __init__(self, drafter: Drafter) -> None:
        self.name, self.traits = drafter.name, drafter.traits
        self._drafter = drafter
        self._failed = False

    @override
    def begin(self, context: DraftContext) -> None:
        self._failed = False
        self._ask(lambda: self._drafter.begin(context), None)

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        if self._failed or nodes < 1:
            return NO_DRAFT
        return self._ask(lambda: self._drafter.propose(context, nodes), NO_DRAFT)

    @override
    def observe(self, tree: DraftTree, verified: Verified) -> None:
        if not self._failed:
            self._ask(lambda: self._drafter.observe(tree, verified), None)

    @override
    def forget(self, document: str) -> None:
        self._ask(lambda: self._drafter.forget(document), None)

    @override
    def rename(self, old: str, new: str) -> None:
        self._ask(lambda: self._drafter.rename(old, new), None)

    @override
    def keep(self) -> None:
        self._ask(self._drafter.keep, None)

    @override
    def warm_up(self) -> None:
        self._ask(self._drafter.warm_up, None)

    @override
    def figures(self) -> Mapping[str, float]:
        return self._ask(self._drafter.figures, {})

    def _ask(self, question: Callable[[], Answer], otherwise: Answer) -> Answer:
        try:
            return question()
        except CacheLost:  # not the drafter's fault: the next prefill restores the cache
            return otherwise
        except Exception:  # a draft must never cost an answer
            self._failed = True
            logger.exception("drafter %s failed; decoding continues without drafts", self.name)
            return otherwise
