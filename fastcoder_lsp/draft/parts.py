"""What drafters are made of, handed in by whoever makes one.

Owns the record of the parts and what stands in for those that are not there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.draft.linear import MakeLinear, exact
from fastcoder_lsp.draft.smaller import Smaller, no_models
from fastcoder_lsp.draft.store import Pin, nothing
from fastcoder_lsp.draft.trained import UNTRAINED, Trained


def _no_piece(token: int) -> bytes:  # noqa: ARG001 the interface
    return b""


@dataclass(frozen=True, slots=True)
class DrafterParts:
    """What drafters are made of.

    Attributes:
        pin: gives the datastore.
        piece: gives the bytes of a token.
        costs: of the engine's steps, for drafters that choose a width by them.
        kept: the file in which a drafter may keep what it learns; None: nothing is kept.
        trained: what the model was tuned for.
        smaller: gives smaller models that draft.
        skipped: parts of the model that it may leave out where it drafts for itself; none: nobody has searched.
        linear: makes products with a drafter's own weights.
        skipped_speed: how many times as fast as plain decoding a search promised it to be without the parts in
            `skipped`; 0: nobody knows.
    """

    pin: Pin = nothing
    piece: Callable[[int], bytes] = _no_piece
    costs: StepCosts | None = None
    kept: Path | None = None
    trained: Trained = UNTRAINED
    smaller: Smaller = no_models
    skipped: frozenset[int] = frozenset()
    linear: MakeLinear = exact
    skipped_speed: float = 0.0
