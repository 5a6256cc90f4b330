"""Medusa: heads on the target's last hidden state, each predicting the token of one place further ahead.

Cai et al. 2024, *Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads*: sections 2.1 (head
k is a residual block and a linear layer over the vocabulary) and 2.3.3 (the tree is built greedily from the accuracies
of each head's candidates by their rank, measured on held-out text). The target's own head predicts the next token; that
is decided and pending here, so the heads' candidates hang below it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import NORMED, Draft, DraftContext, DrafterTraits, KeepingEngine
from fastcoder_lsp.core.arrays import Float64s, Floats, Int64s
from fastcoder_lsp.draft.base import DrafterParts, MakeLinear, Source, Specification, exact
from fastcoder_lsp.model.drafter_files import DrafterFiles, DrafterRecord, open_drafter, require_ids, require_sizes
from fastcoder_lsp.papers.trees import tree_of_places
from fastcoder_lsp.papers.weights import WeightedDrafter, best_of, opened, silu

FROM_MEDUSA = Source("medusa", "other")


@dataclass(frozen=True, slots=True)
class MedusaParameters:
    """Parameters of `medusa`."""

    weights: str = ""  # the folder of the heads, as `train medusa` writes it
    branch: int = 10  # candidates of a head (paper: 10)
    ranks: bool = True
    """Whether a candidate's chance is the measured accuracy of its rank, if there is one, or its head's probability."""


MEDUSA = Specification(
    "medusa",
    "heads on the model's last hidden state",
    MedusaParameters(),
    lambda parameters, parts: MedusaDrafter(opened("medusa", parameters.weights, parts), parameters, parts.linear),
    paper="Cai et al. 2024, sections 2.1 and 2.3.3",
    sources=(FROM_MEDUSA,),
    traits=DrafterTraits(layers=(NORMED,)),
    own_weights=True,
)


class Heads:
    """The heads' weights. Legend: K heads, B residual blocks, E width, D tokens of their vocabulary.

    Args:
        tensors: `blocks.weight` [K, B, E, E], `blocks.bias` [K, B, E], `head` [D, E] for all heads or [K, D, E] for
            each its own, `ids` [D] if D is a part of the vocabulary.
        width: E, of the target.
        make: makes products of the matrices.

    Raises:
        ModelInvalidError: a tensor is missing, or has another size.
    """

    def __init__(self, tensors: dict[str, Floats], width: int, make: MakeLinear = exact) -> None:
        require_sizes(tensors, {"blocks.weight": (None, None, width, width)})
        heads, blocks = tensors["blocks.weight"].shape[:2]
        own = "head" in tensors and tensors["head"].ndim == 3
        require_sizes(
            tensors, {"blocks.bias": (heads, blocks, width), "head": (*((heads,) if own else ()), None, width)}
        )
        require_ids(tensors, tensors["head"].shape[-2])
        self._blocks_KB = [[make(block_EE) for block_EE in head_BEE] for head_BEE in tensors["blocks.weight"]]
        self._bias_KBE = tensors["blocks.bias"]
        self._heads = [make(head_DE) for head_DE in (tensors["head"] if own else tensors["head"][None])]
        self._ids_D = tensors.get("ids")

    def candidates(self, state_E: Floats, count: int) -> tuple[Int64s, Float64s]:
        """The best tokens of each head, best first, and their probabilities; [K, count] each."""
        rows = []
        for blocks_B, bias_BE in zip(self._blocks_KB, self._bias_KBE, strict=True):
            x_1E = state_E[None]
            for block, bias_E in zip(blocks_B, bias_BE, strict=True):
                x_1E = x_1E + silu(block(x_1E) + bias_E)
            rows.append(x_1E)
        shared = len(self._heads) == 1
        logits_KD = (
            self._heads[0](np.concatenate(rows))
            if shared
            else np.concatenate([head(x_1E) for head, x_1E in zip(self._heads, rows, strict=True)])
        )
        columns_KC, likely_KC = best_of(logits_KD, count)
        tokens_KC = columns_KC if self._ids_D is None else self._ids_D.astype(np.int64)[columns_KC]
        return tokens_KC, np.exp(likely_KC.astype(np.float64))


class MedusaDrafter(WeightedDrafter[Heads]):
    """Drafts a tree of the heads' candidates."""

    def __init__(
        self, files: DrafterFiles | None, parameters: MedusaParameters | None = None, linear: MakeLinear = exact
    ) -> None:
        super().__init__(MEDUSA, files, linear)
        self.traits = MEDUSA.traits
        self._parameters = parameters or MedusaParameters()

    @override
    def make(self, files: DrafterFiles) -> Heads:
        return Heads(files.tensors(), files.record.width, self._linear)

    @override
    def draft(self, weights: Heads, engine: KeepingEngine, context: DraftContext, nodes: int) -> Draft:
        state_E = engine.states((NORMED,), context.cached - 1, context.cached)[0, 0]
        tokens_KC, likely_KC = weights.candidates(state_E, self._parameters.branch)
        assert self._files is not None
        measured = self._files.record.lists.get("ranks", ()) if self._parameters.ranks else ()
        return tree_of_places(tokens_KC, measured or likely_KC, nodes, FROM_MEDUSA.name)

    @override
    def arithmetic(self, weights: Heads, record: DrafterRecord) -> Callable[[], object]:
        state_E = np.ones(record.width, np.float32)
        return lambda: weights.candidates(state_E, self._parameters.branch)


SPECIFICATIONS = (MEDUSA,)


def for_auto(parts: DrafterParts, weights: str) -> MedusaDrafter:
    """The source of `auto` (`draft.auto.sources.Offer`); ModelInvalidError if the weights are another model's."""
    return MedusaDrafter(open_drafter(Path(weights), "", parts.trained.digest), linear=parts.linear)
