"""Which drafters that run a model, and which tuned guesses, are sources of `auto`; and what they ask of the loop.

Owns the choice: a smaller model where one is named, the model itself with parts left out where such were found, weights
of a drafter's own where their folder is named, CLLM's state on a model that was tuned for it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from fastcoder_lsp.draft.auto.drafters import DrafterSource
from fastcoder_lsp.draft.auto.sources import ContinuationSource
from fastcoder_lsp.draft.auto.trained_sources import JacobiSource
from fastcoder_lsp.draft.base import BaseDrafter, DrafterParts, MakeLinear
from fastcoder_lsp.draft.dflash import DflashDrafter
from fastcoder_lsp.draft.draft_model import DRAFT_MODEL_TREE, DraftModelDrafter
from fastcoder_lsp.draft.eagle import EagleDrafter
from fastcoder_lsp.draft.medusa import MedusaDrafter
from fastcoder_lsp.draft.self_model import SelfDrafter
from fastcoder_lsp.draft.smaller import no_models
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model.drafter_files import DrafterFiles, open_drafter

_OWN: dict[str, Callable[[DrafterFiles, MakeLinear], BaseDrafter]] = {
    "medusa": lambda files, linear: MedusaDrafter(files, linear=linear),
    "eagle": lambda files, linear: EagleDrafter(files, linear=linear),
    "dflash": lambda files, linear: DflashDrafter(files, linear=linear),
}


def model_sources(parts: DrafterParts, weights: str, *, priced: bool = True) -> list[ContinuationSource]:
    """The sources that these parts and weights allow.

    Args:
        parts: what drafters are made of.
        weights: the folder of a drafter's own weights, or "".
        priced: whether they are left out where they do not pay.

    Raises:
        UsageError: there is no such folder, or its drafter is of a kind that `auto` does not ask.
        ModelInvalidError: it drafts for another model.
    """
    block = parts.trained.block
    found: list[ContinuationSource] = [JacobiSource(block)] if block else []
    drafters: list[BaseDrafter] = []
    if parts.smaller is not no_models:
        drafters.append(DraftModelDrafter(parts.smaller, DRAFT_MODEL_TREE.parameters))
    if parts.skipped:
        drafters.append(SelfDrafter(found=parts.skipped, speed=parts.skipped_speed))
    if weights:
        files = open_drafter(Path(weights), "", parts.trained.digest)
        make = _OWN.get(files.record.method)
        if make is None:
            raise UsageError(f"auto cannot use the drafter {files.record.method}", f"It can use: {', '.join(_OWN)}.")
        drafters.append(make(files, parts.linear))
    return [*found, *(DrafterSource(drafter, costs=parts.costs, priced=priced) for drafter in drafters)]


def skims(sources: Sequence[ContinuationSource]) -> bool:
    """Whether one of them drafts by a part of the model itself."""
    return any(isinstance(source, DrafterSource) and source.drafter.traits.skims for source in sources)


def layers_read(sources: Sequence[ContinuationSource]) -> tuple[int, ...]:
    """Whose hidden states the next decode must keep for them."""
    read = (source.layers for source in sources if isinstance(source, DrafterSource))
    return tuple(sorted({layer for layers in read for layer in layers}))
