"""Drafters that do everything wrong; the output must not care."""

import random

from fastcoder_lsp.core import Draft, DraftContext, DraftTree, Verified
from fastcoder_lsp.draft.base import NoDrafter


class Adversary(NoDrafter):
    """Says nothing itself; the others override one method."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "adversary"
        self.chance = random.Random(1)


class Rubbish(Adversary):
    """Random ids below random parents, cut sources."""

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        size = self.chance.randrange(1, 3 * nodes)
        tokens = tuple(self.chance.randrange(-5, 300) for _ in range(size))
        return Draft(tokens, tuple(self.chance.randrange(-3, size + 3) for _ in range(size)), ("x",), ())


class Cycles(Adversary):
    """Nodes that hang from each other and from themselves."""

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        tokens = tuple(context.tokens[-4:])
        return Draft(tokens, tuple((i + 1) % len(tokens) for i in range(len(tokens))))


class OutOfVocabulary(Adversary):
    """Ids that no model has."""

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        return Draft((2**31, -1, 10**9, 2**63), (-1, 0, 1, -1))


class TenThousand(Adversary):
    """Far too long a draft."""

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        return Draft(tuple(context.tokens[i % len(context.tokens)] for i in range(10_000)), tuple(range(-1, 9_999)))


class Twins(Adversary):
    """The same child again and again, each with children of its own."""

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        token, other = context.tokens[-1], context.tokens[0]
        return Draft((token, token, other, other, token), (-1, -1, 0, 1, 2))


class RaisesInPropose(Adversary):
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        raise ZeroDivisionError


class RaisesInObserve(Adversary):
    def observe(self, tree: DraftTree, verified: Verified) -> None:
        raise KeyError


class RaisesInBegin(Adversary):
    def begin(self, context: DraftContext) -> None:
        raise OSError


ADVERSARIES: tuple[type[Adversary], ...] = (
    Rubbish,
    Cycles,
    OutOfVocabulary,
    TenThousand,
    Twins,
    RaisesInPropose,
    RaisesInObserve,
    RaisesInBegin,
)
