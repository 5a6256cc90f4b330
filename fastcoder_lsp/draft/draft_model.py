"""Speculative decoding with a smaller model: it says the next tokens one by one, and all are verified in one pass.

Leviathan et al. 2023, *Fast Inference from Transformers via Speculative Decoding*, and Chen et al. 2023, *Accelerating
LLM Decoding with Speculative Sampling*: a chain of γ tokens. By rejection sampling they are drawn from the smaller
model's distribution, and accepted by chance (`engine/rejection`). By the keyed sampler the smaller model's tokens are
chosen with the very noise that will choose the model's, so that both say the same as often as their logits are alike.

`draft-model-tree`: layer by layer the likeliest nodes are expanded, and of all the likeliest paths are drafted (Li et
al. 2024, EAGLE-2, section 4, whose drafter is another one: here each path's probability is the smaller model's own).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DraftTree, Draw, Proposal, StepCosts
from fastcoder_lsp.draft.base import BaseDrafter, Source, Specification
from fastcoder_lsp.draft.pricing import Forecast, timed
from fastcoder_lsp.draft.small_trees import likeliest
from fastcoder_lsp.draft.smaller import BEST, DocumentEngines, Smaller, SmallModel, shares

_TIMED = "timed"
FROM_DRAFT_MODEL = Source("draft-model", "other")


@dataclass(frozen=True, slots=True)
class DraftModelParameters:
    """How much is drafted.

    Attributes:
        shape: "chain", or "tree" by path probability. Where tokens are accepted by chance, it is a chain.
        length: γ, tokens of the chain (Leviathan et al.: 3 to 10 by the models' speeds; Chen et al.: 4), or the tree's
            depth.
        branch: children that are looked at below a node of the tree.
        beam: nodes of each layer that are expanded (EAGLE-2: 10).
        least: the probability of a path below which nothing is drafted; 0 as in the papers.
    """

    shape: Literal["chain", "tree"] = "chain"
    length: int = 5
    branch: int = 8
    beam: int = 8
    least: float = 0.0


DRAFT_MODEL = Specification(
    "draft-model",
    "what a smaller model with the same tokenizer says next",
    DraftModelParameters(),
    lambda parameters, parts: DraftModelDrafter(parts.smaller, parameters),
    paper="Leviathan et al. 2023, section 2; Chen et al. 2023, Algorithm 2",
    sources=(FROM_DRAFT_MODEL,),
    smaller=True,
)
DRAFT_MODEL_TREE = replace(
    DRAFT_MODEL,
    name="draft-model-tree",
    guesses_from="the likeliest paths of what a smaller model with the same tokenizer may say next",
    parameters=DraftModelParameters(shape="tree", least=0.01),
    paper="Leviathan et al. 2023, section 2; the tree: Li et al. 2024, EAGLE-2, section 4",
)


class SmallerDrafter(BaseDrafter):
    """What drafters by smaller models have in common: which models, a KV cache a document, and noise for drawing.

    Args:
        specification: name and traits.
        smaller: lends the models.
    """

    def __init__(self, specification: Specification[Any], smaller: Smaller) -> None:
        super().__init__(specification)
        self._lend = smaller
        self._lent: tuple[DocumentEngines, ...] | None = None
        self.models: list[SmallModel] = []
        self._noise = np.random.default_rng(0)
        self._passes = 0

    def begin(self, context: DraftContext) -> None:
        """The models' caches of this document; drawing starts anew."""
        if self._lent is None:
            self._lent = tuple(self._lend())
        self._count()
        self.models = [SmallModel(model.of(context.document)) for model in self._lent]
        self._noise = np.random.default_rng([context.sampler.seed & 0xFFFFFFFF, len(context.tokens)])

    def forget(self, document: str) -> None:
        """The document is closed: its caches may go."""
        super().forget(document)
        for model in self._lent or ():
            model.forget(document)

    def rename(self, old: str, new: str) -> None:
        """The caches follow."""
        super().rename(old, new)
        for model in self._lent or ():
            model.rename(old, new)

    def figures(self) -> Mapping[str, float]:
        """How many passes the smaller models have made."""
        self._count()
        return {"draft passes": float(self._passes)}

    def draw(self, proposal: Proposal) -> int:
        """One token from a distribution."""
        place = np.searchsorted(proposal.probabilities.cumsum(), self._noise.random(), side="right")
        return int(proposal.ids[min(int(place), len(proposal.ids) - 1)])

    def _count(self) -> None:
        for model in self.models:
            self._passes += model.passes
            model.passes = 0


class DraftModelDrafter(SmallerDrafter):
    """Drafts what the first of the smaller models says."""

    def __init__(self, smaller: Smaller, parameters: DraftModelParameters | None = None) -> None:
        super().__init__(DRAFT_MODEL, smaller)
        self._parameters = parameters or DraftModelParameters()

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """A chain or a tree from the text's end; nothing while the smaller model has not read the text."""
        asked = self._parameters
        if nodes < 1 or not self.models or not self.models[0].follow(context.tokens):
            return NO_DRAFT
        model = self.models[0]
        by_chance = context.sampler.temperature > 0 and context.sampler.rule == "rejection"
        if by_chance:
            return self._drawn(model, context, model.room(min(nodes, asked.length)))
        if asked.shape == "tree":
            depth = model.room(asked.length)
            tree = likeliest(model, context.sampler, nodes, depth, asked.branch, asked.beam, asked.least)
            count = len(tree.tokens)
            return Draft(tree.tokens, tree.parents, (FROM_DRAFT_MODEL.name,) * count, (0,) * count)
        return self._chain(model, context, model.room(min(nodes, asked.length)))

    def forecast(self, costs: StepCosts | None) -> Forecast | None:  # noqa: ARG002 the interface
        """As many passes as a draft is long, over a short text, in a cache of their own."""
        if not self._lent:
            return None
        engine, asked = self._lent[0].of(_TIMED), self._parameters
        rows = min(asked.beam if asked.shape == "tree" else 1, engine.info.max_nodes)
        tree = DraftTree(tuple(range(rows)), (-1, *(0,) * (rows - 1)))

        def draft() -> None:
            for _ in range(asked.length):
                engine.prefill((), lambda: False)
                engine.step(tree, top_k=BEST)

        found = timed(draft, {}, time.perf_counter)  # it computes in several threads
        self._lent[0].forget(_TIMED)
        return found

    def _chain(self, model: SmallModel, context: DraftContext, length: int) -> Draft:
        """Token by token as the sampler chooses them."""
        tokens: list[int] = []
        likely = 1.0
        while len(tokens) < length:
            token, ids_K, logits_K = model.say(context.sampler, BEST if self._parameters.least else 1)
            if self._parameters.least:
                likely *= float(shares(ids_K, logits_K, context.sampler, model.position())[ids_K == token].sum())
                if likely < self._parameters.least:
                    break
            tokens.append(token)
            model.take(token)
        return _as_chain(tokens)

    def _drawn(self, model: SmallModel, context: DraftContext, length: int) -> Draft:
        """Token by token, drawn; how many does not depend on which."""
        tokens: list[int] = []
        draws: list[Draw] = []
        while len(tokens) < length:
            _, ids_K, logits_K = model.say(context.sampler, BEST)
            proposal = Proposal(ids_K.copy(), shares(ids_K, logits_K, context.sampler, model.position()))
            tokens.append(self.draw(proposal))
            draws.append(Draw(len(tokens) - 1, proposal))
            model.take(tokens[-1])
        return replace(_as_chain(tokens), draws=tuple(draws))


def _as_chain(tokens: list[int]) -> Draft:
    count = len(tokens)
    return Draft(tuple(tokens), tuple(range(-1, count - 1)), (FROM_DRAFT_MODEL.name,) * count, (0,) * count)
