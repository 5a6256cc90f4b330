"""Every drafter by its name: the one place where names become objects.

Owns the names, the presets behind them, and the reading of parameters from text. A drafter gets its parts handed in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fastcoder_lsp.core import DraftContext, Drafter, DraftTree, StepCosts, Verified
from fastcoder_lsp.draft.auto import AutoDrafter, AutoParameters
from fastcoder_lsp.draft.cacheback import CachebackDrafter, CachebackParameters
from fastcoder_lsp.draft.fastcoder import PRODUCT, FastcoderDrafter, FastcoderParameters
from fastcoder_lsp.draft.jacobi import JacobiDrafter, JacobiParameters
from fastcoder_lsp.draft.lookahead import LookaheadDrafter, LookaheadParameters
from fastcoder_lsp.draft.lookup import LookupDrafter, LookupParameters
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.draft.recycling import RecyclingDrafter, RecyclingParameters
from fastcoder_lsp.draft.rest import RestDrafter, RestParameters
from fastcoder_lsp.draft.sdsat import SdsatDrafter, SdsatParameters
from fastcoder_lsp.draft.store import Pin, nothing
from fastcoder_lsp.draft.suffix import SuffixDrafter, SuffixParameters
from fastcoder_lsp.draft.trained import UNTRAINED, JacobiSource, SdsatSource, Trained
from fastcoder_lsp.errors import UsageError

Parameters = TypeVar("Parameters")


def _no_piece(token: int) -> bytes:  # noqa: ARG001 the interface
    return b""


@dataclass(frozen=True, slots=True)
class DrafterParts:
    """What drafters are made of: the datastore, and the tokens' bytes.

    `costs`: of the engine's steps, for drafters that choose a width by them. `kept`: the file in which a drafter may
    keep what it learns; None: nothing is kept. `trained`: what the model was tuned for.
    """

    pin: Pin = nothing
    piece: Callable[[int], bytes] = _no_piece
    costs: StepCosts | None = None
    kept: Path | None = None
    trained: Trained = UNTRAINED


@dataclass(frozen=True, slots=True)
class Preset:
    """One name: its parameters (None where there are none) and how it is made of them and the parts."""

    parameters: Any
    make: Callable[[Any, DrafterParts], Drafter]


def _fastcoder(parameters: FastcoderParameters, parts: DrafterParts) -> Drafter:
    return FastcoderDrafter(parts.pin, parts.piece, parameters)


def _auto(parameters: AutoParameters, parts: DrafterParts) -> Drafter:
    trained = parts.trained
    guesses = [JacobiSource(trained.block)] if trained.block else []
    adaptive = SdsatSource(SdsatDrafter(trained.adaptive)) if trained.adaptive else None
    return AutoDrafter(parts.pin, parameters, costs=parts.costs, kept=parts.kept, more=guesses, adaptive=adaptive)


def _sdsat(parameters: SdsatParameters, parts: DrafterParts) -> Drafter:
    return SdsatDrafter(parts.trained.adaptive, parameters)


def _cacheback(parameters: CachebackParameters, parts: DrafterParts) -> Drafter:
    return CachebackDrafter(parameters, parts.pin)


PRESETS: Mapping[str, Preset] = {
    "none": Preset(None, lambda _parameters, _parts: NoDrafter()),
    "lookup": Preset(LookupParameters(), lambda parameters, _parts: LookupDrafter(parameters)),
    "suffix": Preset(SuffixParameters(), lambda parameters, _parts: SuffixDrafter(parameters)),
    "rest": Preset(RestParameters(), lambda parameters, parts: RestDrafter(parts.pin, parameters)),
    "fastcoder": Preset(PRODUCT, _fastcoder),
    "fastcoder-paper": Preset(FastcoderParameters(), _fastcoder),
    "cacheback": Preset(CachebackParameters(), _cacheback),
    "cacheback-dynamic": Preset(CachebackParameters(frozen=False), _cacheback),
    "cacheback-frozen": Preset(CachebackParameters(dynamic=False), _cacheback),
    "recycling": Preset(RecyclingParameters(prompt=True), lambda parameters, _parts: RecyclingDrafter(parameters)),
    "recycling-paper": Preset(RecyclingParameters(), lambda parameters, _parts: RecyclingDrafter(parameters)),
    "jacobi": Preset(JacobiParameters(), lambda parameters, _parts: JacobiDrafter(parameters)),
    "auto": Preset(AutoParameters(), _auto),
    "sdsat": Preset(SdsatParameters(), _sdsat),
    "lookahead": Preset(LookaheadParameters(prompt=True), lambda parameters, _parts: LookaheadDrafter(parameters)),
    "lookahead-paper": Preset(LookaheadParameters(), lambda parameters, _parts: LookaheadDrafter(parameters)),
}
"""name → what it means, plainest first."""

NEED_ROWS = frozenset({"recycling", "recycling-paper", "jacobi", "lookahead", "lookahead-paper", "auto", "sdsat"})
"""Drafters that live on the model's outputs at rejected positions, and so cannot be replayed from recorded text."""

NEED_TUNING = frozenset({"sdsat"})
"""Drafters that draft on no model but one that was tuned for them: see `require_tuned`."""


def make(name: str, parts: DrafterParts | None = None) -> Drafter:
    """The drafter that `name` says.

    Args:
        name: one of `PRESETS`, and after a colon values for its parameters, as in `cacheback:follower_length=4` or
            `fastcoder-paper:cache=false,n_max=8`; several numbers for one parameter are parted by `/`.
        parts: what it is made of; without, it has no datastore.

    Raises:
        UsageError: no such drafter or parameter, or a value that is none.
    """
    plain, _, settings = name.partition(":")
    preset = PRESETS.get(plain)
    if preset is None:
        raise UsageError(f"there is no drafter '{plain}'", f"Choose one of: {', '.join(PRESETS)}.")
    pairs = (part.partition("=") for part in settings.split(",") if part)
    changes = {key.strip(): value.strip() for key, _, value in pairs}
    drafter = preset.make(change(preset.parameters, plain, changes), parts or DrafterParts())
    drafter.name = name
    return drafter


def require_tuned(name: str, trained: Trained) -> None:
    """See that the model was tuned for the drafter `name`, where that one drafts on no other.

    Raises:
        UsageError: it was not.
    """
    if name.partition(":")[0] in NEED_TUNING and not trained.adaptive:
        raise UsageError(
            "the drafter sdsat needs a model that was tuned for it",
            "Tune one: fastcoder-lsp train sdsat --data FOLDER --out FOLDER; then name it with --model FOLDER/model.",
        )


def warm_up(drafter: Drafter) -> None:
    """Have the drafter's compiled parts ready before the first user waits for them; seconds once a machine."""
    context = DraftContext((1, 2, 3, 1, 2), 3)
    drafter.begin(context)
    drafter.propose(context, 8)
    rows_NK = np.zeros((1, max(drafter.top_k, 1)), np.int64)
    # Nothing was emitted, so nothing is learnt of how good drafts are.
    drafter.observe(DraftTree.chain((2,)), Verified((), (), rows_NK, rows_NK.astype(np.float32)))
    if isinstance(drafter, AutoDrafter):
        drafter.warm_up()


def change(parameters: Parameters, name: str, changes: Mapping[str, str]) -> Parameters:
    """`parameters` with some values read from text, each as the kind of value that it replaces.

    Raises:
        UsageError: no such parameter, or a value that is none.
    """
    known: dict[str, Any] = (
        {} if parameters is None else {entry.name: getattr(parameters, entry.name) for entry in fields(parameters)}  # type: ignore[arg-type]
    )
    values: dict[str, Any] = {}
    for key, text in changes.items():
        if key not in known:
            raise UsageError(f"the drafter {name} has no parameter '{key}'", f"It has: {', '.join(known) or 'none'}.")
        try:
            values[key] = _read(text, known[key])
        except ValueError as failure:
            raise UsageError(f"'{text}' is no value for {name}'s {key}", f"It is {known[key]!r} now.") from failure
    return replace(parameters, **values) if values else parameters  # type: ignore[type-var]


def _read(text: str, like: object) -> object:
    if isinstance(like, bool):
        if text.lower() not in {"true", "false"}:
            raise ValueError(text)
        return text.lower() == "true"
    if isinstance(like, int):
        return int(text)
    if isinstance(like, float):
        return float(text)
    if isinstance(like, tuple):
        return tuple(float(part) for part in text.split("/"))
    return text
