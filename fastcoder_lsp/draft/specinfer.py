"""SpecInfer: several smaller models speak, their trees are merged into one, and the model verifies all of it at once.

Miao et al. 2024, *SpecInfer: Accelerating Generative LLM Serving with Tree-based Speculative Inference and
Verification*. Section 3: *expansion-based* trees, where step i of a smaller model takes the k_i best tokens of each
node, and *merge-based* ones, where the trees of several smaller models are united (a token tree holds every sequence
that one of them holds). Section 4.3: by chance, k_i tokens are drawn from each node, and multi-step speculative
sampling tries them in turn (`engine/rejection`).

A model's tree is grown layer by layer, one pass each. Owns the expansion and the merging.
"""

from dataclasses import dataclass

import numpy as np

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, Draw, Proposal
from fastcoder_lsp.draft.base import Source, Specification
from fastcoder_lsp.draft.draft_model import SmallerDrafter
from fastcoder_lsp.draft.smaller import BEST, Smaller, SmallModel, shares

FROM_SPECINFER = Source("specinfer", "other")


@dataclass(frozen=True, slots=True)
class SpecInferParameters:
    """The published setting.

    Attributes:
        expansion: k_i, children of each node of layer i (paper: ⟨1, 1, 3, 1, 1, 1, 1, 1⟩).
    """

    expansion: tuple[float, ...] = (1, 1, 3, 1, 1, 1, 1, 1)


SPECINFER = Specification(
    "specinfer",
    "the merged trees of several smaller models with the same tokenizer",
    SpecInferParameters(),
    lambda parameters, parts: SpecInferDrafter(parts.smaller, parameters),
    paper="Miao et al. 2024, SpecInfer, sections 3 and 4.3",
    sources=(FROM_SPECINFER,),
    smaller=True,
)


class SpecInferDrafter(SmallerDrafter):
    """Drafts the union of what all smaller models guess."""

    def __init__(self, smaller: Smaller, parameters: SpecInferParameters | None = None) -> None:
        super().__init__(SPECINFER, smaller)
        self._expansion = tuple(int(wide) for wide in (parameters or SpecInferParameters()).expansion)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """The trees, one after the other, each with an equal share of the room."""
        if nodes < 1:
            return NO_DRAFT
        ready = [model for model in self.models if model.follow(context.tokens)]
        tree = TokenTree()
        for place, model in enumerate(ready):
            share = nodes // len(ready) + (place < nodes % len(ready))
            self._expand(model, context, tree, share)
        return tree.draft(nodes)

    def _expand(self, model: SmallModel, context: DraftContext, tree: "TokenTree", most: int) -> None:
        """One model's tree of at most `most` guesses, or draws, put into `tree`.

        How much is drawn depends on what was drawn above alone, so that it is judged rightly (`core.Draft`).
        """
        sampled = context.sampler.temperature > 0  # then noise may choose any of many ids
        by_chance = sampled and context.sampler.rule == "rejection"
        own: list[tuple[int, int, int]] = []
        """Token, parent in this list, and node of `tree`."""
        layer, said = [-1], 0
        for level, wide in enumerate(self._expansion[: model.room(len(self._expansion))]):
            if said >= most or len(own) > model.rows():
                break
            tokens, parents = [token for token, _, _ in own], [parent for _, parent, _ in own]
            ids_NK, logits_NK = model.look(tokens, parents, BEST if sampled else max(wide, 1))
            fresh: list[int] = []
            for above in layer:
                ids_K = ids_NK[above + 1].copy()
                chances_K = shares(ids_K, logits_NK[above + 1], context.sampler, model.position() + level)
                node = own[above][2] if above >= 0 else -1
                seen: set[int] = set()
                order = np.argsort(-chances_K, kind="stable").tolist()
                for rank in range(min(wide, most - said)):
                    proposal = Proposal(ids_K, chances_K)
                    if not by_chance and rank >= len(order):
                        break
                    token = self.draw(proposal) if by_chance else int(ids_K[order[rank]])
                    said += 1
                    child = tree.hang(node, token, proposal if by_chance else None)
                    if token not in seen:
                        seen.add(token)
                        fresh.append(len(own))
                        own.append((token, above, child))
            layer = fresh
            if not layer:
                break


class TokenTree:
    """Sequences of several models, what they have in common once."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._places: dict[tuple[int, int], int] = {}
        self._draws: list[Draw] = []

    def hang(self, parent: int, token: int, proposal: Proposal | None) -> int:
        """The child of `parent` with this token, a new one where there is none; `proposal`: what it was drawn from."""
        place = self._places.get((parent, token))
        if place is None:
            place = self._places[parent, token] = len(self._tokens)
            self._tokens.append(token)
            self._parents.append(parent)
        if proposal is not None:
            self._draws.append(Draw(place, proposal))
        return place

    def draft(self, nodes: int) -> Draft:
        """All of it, which is no more than `nodes`."""
        count = len(self._tokens)
        assert count <= nodes
        names = (FROM_SPECINFER.name,) * count
        return Draft(tuple(self._tokens), tuple(self._parents), names, (0,) * count, tuple(self._draws))
