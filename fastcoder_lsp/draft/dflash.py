"""DFlash: a small model that sees the target's features says the next block in one pass, all places at once.

DFlash: Block Diffusion for Flash Speculative Decoding, 2026, section 4. As published the block is a chain of each
place's best token (`branch=1`); here rows that are left over take the second and third ones, by the product of their
chances. Owns the tree, and how much of the text the model has read; its arithmetic is `dflash_model`'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fastcoder_lsp.core import NO_DRAFT, NORMED, Draft, DraftContext, DrafterTraits, StepCosts
from fastcoder_lsp.draft.base import BaseDrafter, MakeLinear, Source, Specification, exact
from fastcoder_lsp.draft.dflash_model import BlockModel, Pair
from fastcoder_lsp.draft.places import tree_of_places
from fastcoder_lsp.draft.pricing import TYPICAL, Forecast, timed
from fastcoder_lsp.draft.weights import agreed, best_of
from fastcoder_lsp.model.drafter_files import DrafterFiles, open_drafter

FROM_DFLASH = Source("dflash", "other")


@dataclass(frozen=True, slots=True)
class DflashParameters:
    """Which model, and how many candidates of a place.

    Attributes:
        weights: the folder of the model, as `train dflash` writes it.
        branch: candidates of a place (published: 1).
        window: tokens at the end of the text that are read (published: all).
    """

    weights: str = ""
    branch: int = 4
    window: int = 1024


DFLASH = Specification(
    "dflash",
    "a small model that says a block from the model's own features",
    DflashParameters(),
    lambda parameters, parts: DflashDrafter(_opened(parameters, parts.trained.digest), parameters, parts.linear),
    paper="DFlash 2026, section 4",
    sources=(FROM_DFLASH,),
    traits=DrafterTraits(layers=(NORMED,)),
    own_weights=True,
)


def _opened(parameters: DflashParameters, target: str) -> DrafterFiles | None:
    return open_drafter(Path(parameters.weights), "dflash", target) if parameters.weights else None


class DflashDrafter(BaseDrafter):
    """Drafts by a model that was trained for the target; without any it drafts nothing."""

    def __init__(
        self, files: DrafterFiles | None, parameters: DflashParameters | None = None, linear: MakeLinear = exact
    ) -> None:
        super().__init__(DFLASH)
        self._linear = linear
        self._parameters, self._files = parameters or DflashParameters(), files
        if files is not None:
            self.traits = DrafterTraits(layers=files.record.layers)
        self._model: BlockModel | None = None
        self._start = 0
        self._tokens: Sequence[int] = ()
        """The text that was read, from `_start` on."""
        self._read: list[Pair] | None = None

    def warm_up(self) -> None:
        """Have the weights in memory."""
        self._weights()

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """The likeliest nodes of the block below the pending token."""
        model, engine = self._weights(), context.engine
        if model is None or engine is None or nodes < 1 or not 0 < context.cached == len(context.tokens) - 1:
            return NO_DRAFT
        read = self._caught_up(model, context)
        logits_BD = model.say(engine.embed(context.tokens[-1:])[0], context.cached, read)
        columns_BC, likely_BC = best_of(logits_BD, self._parameters.branch)
        chances_BC = np.exp(likely_BC.astype(np.float64))
        return tree_of_places(model.tokens_of(columns_BC), chances_BC, nodes, FROM_DFLASH.name)

    def forecast(self, costs: StepCosts | None) -> Forecast | None:  # noqa: ARG002 the interface
        """A row that is read, and a block over a text of usual length."""
        model = self._weights()
        if model is None or self._files is None:
            return None
        record, past = self._files.record, max(min(self._parameters.window // 2, TYPICAL), 1)
        features, first_E = (
            np.ones((1, len(record.layers) * record.width), np.float32),
            np.ones(record.width, np.float32),
        )

        def draft() -> None:
            read = model.read(features, np.zeros(1, np.int64))
            text = [(keys.repeat(past, 0), values.repeat(past, 0)) for keys, values in read]
            best_of(model.say(first_E, past, text), self._parameters.branch)

        return timed(draft, record.figures)

    def _weights(self) -> BlockModel | None:
        if self._model is None and self._files is not None:
            self._model = BlockModel(self._files.record, self._files.tensors(), self._linear)
        return self._model

    def _caught_up(self, model: BlockModel, context: DraftContext) -> list[Pair]:
        """The keys and values of the text before the pending token, from those that are there already."""
        assert context.engine is not None
        count, window = context.cached, self._parameters.window
        known, read = min(agreed(self._tokens, context.tokens), count), self._read
        if read is None or known <= self._start or count - self._start > 2 * window:
            self._start = known = max(0, count - window)
            read = None
        if read is not None:
            read = [(keys[: known - self._start], values[: known - self._start]) for keys, values in read]
        if known < count:
            features = context.engine.states(self.traits.layers, known, count).reshape(count - known, -1)
            more = model.read(features, np.arange(known, count))
            read = more if read is None else [_joined(*pair) for pair in zip(read, more, strict=True)]
        assert read is not None
        self._tokens, self._read = tuple(context.tokens[:count]), read
        return read


def _joined(old: Pair, new: Pair) -> Pair:
    return np.concatenate([old[0], new[0]]), np.concatenate([old[1], new[1]])
