"""Speculative decoding with smaller models: chains, trees of one model, and merged trees of several.

`draft-model`: Leviathan et al. 2023, *Fast Inference from Transformers via Speculative Decoding*, and Chen et al. 2023,
*Accelerating LLM Decoding with Speculative Sampling*: a chain of γ tokens, verified in one pass. By rejection sampling
they are drawn from the smaller model's distribution and accepted by chance (`engine/verification`). By the keyed
sampler the smaller model's tokens are chosen with the noise that will choose the model's, so both choose the same
token as often as their logits are alike.

`draft-distilled`: the same with a student that `train distill` tuned on the model's own outputs (Zhou et al. 2024,
*DistillSpec*).

`draft-model-tree`: layer by layer the nodes with the likeliest paths are expanded, and of all nodes the likeliest are
drafted (Li et al. 2024, *EAGLE-2*, section 4, whose drafter is another one: here each path's probability is the smaller
model's own).

`specinfer`: Miao et al. 2024, *SpecInfer: Accelerating Generative LLM Serving with Tree-based Speculative Inference and
Verification*. Section 3: *expansion-based* trees, where step i of a smaller model takes the k_i best tokens of each
node, and *merge-based* ones, which unite the trees of several smaller models. Section 4.3: by chance, k_i tokens are
drawn from each node, and multi-step speculative sampling tries them in turn.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DraftTree, Draw, Proposal, Sampler, StepCosts
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.base import Drafter, DrafterParts, Smaller, Source, Specification, chain
from fastcoder_lsp.draft.pricing import Forecast, timed
from fastcoder_lsp.papers.smaller import BEST, SmallModel, shares
from fastcoder_lsp.papers.trees import Trie

_TIMED = "timed"
FROM_DRAFT_MODEL = Source("draft-model", "other")
FROM_SPECINFER = Source("specinfer", "other")


@dataclass(frozen=True, slots=True)
class DraftModelParameters:
    """Parameters of `draft-model`."""

    shape: Literal["chain", "tree"] = "chain"
    """"chain", or "tree" by path probability. Always a chain where tokens are accepted by chance."""
    length: int = 5
    """Γ, tokens of the chain (Leviathan et al.: 3 to 10 by the models' speeds; Chen et al.: 4), or the tree's depth."""
    branch: int = 8  # children of a node of the tree
    beam: int = 8  # nodes of each layer that are expanded (EAGLE-2: 10)
    least: float = 0.0  # paths of a lower probability are not drafted; 0 as in the papers


@dataclass(frozen=True, slots=True)
class SpecInferParameters:
    """Parameters of `specinfer`: k_i, children of each node of layer i (paper: ⟨1, 1, 3, 1, 1, 1, 1, 1⟩)."""

    expansion: tuple[float, ...] = (1, 1, 3, 1, 1, 1, 1, 1)


DRAFT_MODEL = Specification(
    "draft-model",
    "the next tokens of a smaller model",
    DraftModelParameters(),
    lambda parameters, parts: DraftModelDrafter(parts.smaller, parameters),
    paper="Leviathan et al. 2023, section 2; Chen et al. 2023, Algorithm 2",
    sources=(FROM_DRAFT_MODEL,),
    smaller=True,
)
DRAFT_MODEL_TREE = replace(
    DRAFT_MODEL,
    name="draft-model-tree",
    guesses_from="the likeliest paths of a smaller model",
    parameters=DraftModelParameters(shape="tree", least=0.01),
    paper="Leviathan et al. 2023, section 2; the tree: Li et al. 2024, EAGLE-2, section 4",
)
DRAFT_DISTILLED = replace(
    DRAFT_MODEL,
    name="draft-distilled",
    guesses_from="the next tokens of a smaller model that `train distill` tuned on the model's outputs",
    paper="Zhou et al. 2024, DistillSpec, section 4",
)
SPECINFER = Specification(
    "specinfer",
    "the merged trees of several smaller models",
    SpecInferParameters(),
    lambda parameters, parts: SpecInferDrafter(parts.smaller, parameters),
    paper="Miao et al. 2024, SpecInfer, sections 3 and 4.3",
    sources=(FROM_SPECINFER,),
    smaller=True,
)


class SmallerDrafter(Drafter):
    """Base of drafters by smaller models: the models, a KV cache per document, and noise for drawing."""

    def __init__(self, specification: Specification[Any], smaller: Smaller) -> None:
        super().__init__(specification)
        self._lend = smaller
        self._lent: tuple[Slots, ...] | None = None
        self.models: list[SmallModel] = []
        self._noise = np.random.default_rng(0)
        self._passes = 0

    def begin(self, context: DraftContext) -> None:
        """Take the models' caches of this document, and restart the noise."""
        if self._lent is None:
            self._lent = tuple(self._lend())
        self._count()
        self.models = [SmallModel(model.of(context.document)) for model in self._lent]
        self._noise = np.random.default_rng([context.sampler.seed & 0xFFFFFFFF, len(context.tokens)])

    @override
    def forget(self, document: str) -> None:
        super().forget(document)
        for model in self._lent or ():
            model.forget(document)

    @override
    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        for model in self._lent or ():
            model.rename(old, new)

    @override
    def figures(self) -> Mapping[str, float]:
        self._count()
        return {"draft passes": float(self._passes)}

    def draw(self, proposal: Proposal) -> int:
        """One token drawn from a distribution."""
        place = np.searchsorted(proposal.probabilities.cumsum(), self._noise.random(), side="right")
        return int(proposal.ids[min(int(place), len(proposal.ids) - 1)])

    def _count(self) -> None:
        for model in self.models:
            self._passes += model.passes
            model.passes = 0


class DraftModelDrafter(SmallerDrafter):
    """Drafts the first smaller model's continuation."""

    def __init__(self, smaller: Smaller, parameters: DraftModelParameters | None = None) -> None:
        super().__init__(DRAFT_MODEL, smaller)
        self._parameters = parameters or DraftModelParameters()

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """A chain or a tree from the text's end, once the smaller model has read the text."""
        params = self._parameters
        if nodes < 1 or not self.models or not self.models[0].follow(context.tokens):
            return NO_DRAFT
        model = self.models[0]
        by_chance = context.sampler.temperature > 0 and context.sampler.rule == "rejection"
        if by_chance:
            return self._drawn(model, context, model.room(min(nodes, params.length)))
        if params.shape == "tree":
            depth = model.room(params.length)
            return likeliest(model, context.sampler, nodes, depth, params.branch, params.beam, params.least)
        return self._chain(model, context, model.room(min(nodes, params.length)))

    def forecast(self, costs: StepCosts | None) -> Forecast | None:  # noqa: ARG002 the interface
        """Time as many passes as a draft is long, over a short text, in a cache of their own."""
        if not self._lent:
            return None
        engine, params = self._lent[0].of(_TIMED), self._parameters
        rows = min(params.beam if params.shape == "tree" else 1, engine.info.max_nodes)
        tree = DraftTree(tuple(range(rows)), (-1, *(0,) * (rows - 1)))

        def draft() -> None:
            for _ in range(params.length):
                engine.prefill((), lambda: False)
                engine.step(tree, top_k=BEST)

        found = timed(draft, {}, time.perf_counter)  # it computes in several threads
        self._lent[0].forget(_TIMED)
        return found

    def _chain(self, model: SmallModel, context: DraftContext, length: int) -> Draft:
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
        return chain(tokens, FROM_DRAFT_MODEL)

    def _drawn(self, model: SmallModel, context: DraftContext, length: int) -> Draft:
        """Token by token, drawn; the number of draws does not depend on their outcome."""
        tokens: list[int] = []
        draws: list[Draw] = []
        while len(tokens) < length:
            _, ids_K, logits_K = model.say(context.sampler, BEST)
            proposal = Proposal(ids_K.copy(), shares(ids_K, logits_K, context.sampler, model.position()))
            tokens.append(self.draw(proposal))
            draws.append(Draw(len(tokens) - 1, proposal))
            model.take(tokens[-1])
        return replace(chain(tokens, FROM_DRAFT_MODEL), draws=tuple(draws))


def likeliest(
    model: SmallModel, sampler: Sampler, nodes: int, depth: int, branch: int, beam: int, least: float
) -> Draft:
    """The tree of at most `nodes` guesses with the likeliest paths.

    One pass a layer runs all nodes expanded so far: an engine keeps only what it accepts, so the earlier nodes are run
    again, which costs rows and no pass.

    Args:
        model: stands at the text's end, before and after.
        sampler: chooses the model's tokens.
        nodes: guesses at most.
        depth: layers at most.
        branch: children of a node.
        beam: nodes of a layer that are expanded.
        least: less likely paths are left out.
    """
    tokens, parents, likely, depths = list[int](), list[int](), list[float](), list[int]()
    expanded: list[int] = []
    layer = [-1]
    seen = branch if sampler.temperature <= 0 else max(branch, BEST)
    for level in range(depth):
        place = {node: row for row, node in enumerate(expanded)}
        ids_NK, logits_NK = model.look(
            [tokens[node] for node in expanded], [place.get(parents[node], -1) for node in expanded], seen
        )
        first = len(tokens)
        for node in layer:
            row = 0 if node < 0 else place[node] + 1
            chances = shares(ids_NK[row], logits_NK[row], sampler, model.position() + level)
            above = 1.0 if node < 0 else likely[node]
            for rank in np.argsort(-chances, kind="stable")[:branch].tolist():
                token, chance = int(ids_NK[row, rank]), float(chances[rank])
                if above * chance >= least:
                    tokens.append(token)
                    parents.append(node)
                    likely.append(above * chance)
                    depths.append(level)
        fits = max(min(beam, model.rows() - len(expanded)), 0)
        layer = sorted(range(first, len(tokens)), key=lambda node: -likely[node])[:fits]
        # Nodes that cannot be in the draft are not worth a pass.
        edge = sorted(likely, reverse=True)[nodes - 1] if len(likely) >= nodes else 0.0
        layer = sorted(node for node in layer if likely[node] >= edge)
        if not layer:
            break
        expanded += layer
    chosen = sorted(np.argsort(-np.array(likely), kind="stable")[:nodes].tolist())
    place = {node: row for row, node in enumerate(chosen)}
    count = len(chosen)
    return Draft(
        tuple(tokens[node] for node in chosen),
        tuple(place.get(parents[node], -1) for node in chosen),
        (FROM_DRAFT_MODEL.name,) * count,
        (0,) * count,
    )


class SpecInferDrafter(SmallerDrafter):
    """Drafts the union of all smaller models' trees."""

    def __init__(self, smaller: Smaller, parameters: SpecInferParameters | None = None) -> None:
        super().__init__(SPECINFER, smaller)
        self._expansion = tuple(int(wide) for wide in (parameters or SpecInferParameters()).expansion)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """The models' trees, one after the other, each with an equal share of the room."""
        if nodes < 1:
            return NO_DRAFT
        ready = [model for model in self.models if model.follow(context.tokens)]
        tree, draws = Trie(nodes), list[Draw]()
        for place, model in enumerate(ready):
            share = nodes // len(ready) + (place < nodes % len(ready))
            self._expand(model, context, tree, draws, share)
        return tree.draft(draws)

    def _expand(self, model: SmallModel, context: DraftContext, tree: Trie, draws: list[Draw], most: int) -> None:
        """Put one model's tree of at most `most` guesses, or draws, into `tree`.

        The number of draws depends on the draws above alone, so that they are judged rightly (`core.Draft`).
        """
        sampled = context.sampler.temperature > 0  # noise may choose any of many ids
        by_chance = sampled and context.sampler.rule == "rejection"
        own: list[tuple[int, int, int]] = []  # token, parent in this list, and node of `tree`
        layer, guesses = [-1], 0
        for level, wide in enumerate(self._expansion[: model.room(len(self._expansion))]):
            if guesses >= most or len(own) > model.rows():
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
                for rank in range(min(wide, most - guesses)):
                    proposal = Proposal(ids_K, chances_K)
                    if not by_chance and rank >= len(order):
                        break
                    token = self.draw(proposal) if by_chance else int(ids_K[order[rank]])
                    guesses += 1
                    child = tree.hang(node, token, FROM_SPECINFER)
                    assert child is not None
                    if by_chance:
                        draws.append(Draw(child, proposal))
                    if token not in seen:
                        seen.add(token)
                        fresh.append(len(own))
                        own.append((token, above, child))
            layer = fresh
            if not layer:
                break


SPECIFICATIONS = (DRAFT_MODEL, DRAFT_MODEL_TREE, SPECINFER, DRAFT_DISTILLED)


def for_auto(parts: DrafterParts, _weights: str) -> DraftModelDrafter:
    """The source of `auto` (`draft.auto.sources.Offer`)."""
    return DraftModelDrafter(parts.smaller, DRAFT_MODEL_TREE.parameters)
