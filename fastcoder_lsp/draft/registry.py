"""Every drafter by its name, and the reading of parameters from text."""

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

import numpy as np

from fastcoder_lsp.core import DraftContext, DraftTree, Verified
from fastcoder_lsp.draft import auto, lookup, rewrite, suffix
from fastcoder_lsp.draft.base import NONE, Drafter, DrafterParts, Group, Specification, Trained
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.extensions import DRAFTERS

__all__ = [
    "NAMES",
    "DrafterParts",
    "change",
    "find",
    "group_of",
    "make",
    "read_name",
    "reads_datastore",
    "require_smaller",
    "require_tuned",
    "specifications",
    "warm_up",
]

Parameters = TypeVar("Parameters")

_OWN: Mapping[str, Specification[Any]] = {
    one.name: one for one in (NONE, lookup.LOOKUP, suffix.SUFFIX, rewrite.REWRITE, auto.AUTO)
}
NAMES = (*_OWN, *DRAFTERS)
"""The names of all drafters."""


def find(name: str) -> Specification[Any] | None:
    """The specification of the drafter `name`, whose module is imported now; None if there is none."""
    if name in _OWN or name not in DRAFTERS:
        return _OWN.get(name)
    found: tuple[Specification[Any], ...] = DRAFTERS[name].load(f"the drafter {name}").SPECIFICATIONS
    return next(one for one in found if one.name == name)


@cache
def specifications() -> Mapping[str, Specification[Any]]:
    """name → specification, of all drafters."""
    return {name: one for name in NAMES if (one := find(name)) is not None}


@cache
def _groups() -> Mapping[str, Group]:
    return {source.name: source.group for one in specifications().values() for source in one.sources}


def group_of(source: str) -> Group:
    """The colour group of a source in pictures: "model" for "", a token without a guess, and "other" if unknown."""
    return _groups().get(source, "other") if source else "model"


def reads_datastore(name: str) -> bool:
    """Whether the drafter `name`, with or without parameters, reads the datastore; an unknown one does not."""
    known = find(name.partition(":")[0])
    return known is not None and bool(known.reads)


def make(name: str, parts: DrafterParts | None = None) -> Drafter:
    """Make a drafter; by default it has no datastore.

    `name`: one of `NAMES`, and after a colon values of its parameters, as in `cacheback:follower_length=4` or
    `fastcoder-paper:cache=false,n_max=8`; several numbers for one parameter are separated by `/`.

    Raises:
        UsageError: no such drafter or parameter, or an invalid value.
    """
    known, parameters = read_name(name)
    drafter = known.make(parameters, parts or DrafterParts())
    drafter.name = name
    return drafter


def read_name(name: str) -> tuple[Specification[Any], Any]:
    """The specification and the parameters that a drafter's name stands for; raises as `make`."""
    plain, _, settings = name.partition(":")
    known = find(plain)
    if known is None:
        near = "".join(f"Did you mean {one}? " for one in get_close_matches(plain, NAMES, n=1))
        raise UsageError(f"there is no drafter '{plain}'", f"{near}Choose one of: {', '.join(NAMES)}.")
    pairs = (part.partition("=") for part in settings.split(",") if part)
    changes = {key.strip(): value.strip() for key, _, value in pairs}
    return known, change(known.parameters, plain, changes)


def require_tuned(name: str, trained: Trained) -> None:
    """Raise UsageError if the drafter `name` needs a tuned model that this is not, or weights that `name` lacks."""
    plain, _, settings = name.partition(":")
    known = find(plain)
    if (
        known is not None
        and known.own_weights
        and not any(part.strip().startswith("weights=") for part in settings.split(","))
    ):
        raise UsageError(
            f"the drafter {plain} needs weights",
            f"Train them: fastcoder-lsp train {plain} --data FOLDER --out FOLDER. "
            f"Then use: {plain}:weights=FOLDER/drafter",
        )
    if known is not None and not trained.suits(known.tuned_by):
        raise UsageError(
            f"the drafter {known.name} needs a model that was tuned for it",
            f"Tune one: fastcoder-lsp train {known.tuned_by} --data FOLDER --out FOLDER. "
            "Then use: --model FOLDER/model",
        )


def require_smaller(name: str, models: int) -> None:
    """Raise UsageError if the drafter `name` needs smaller models and there are none."""
    known = find(name.partition(":")[0])
    if known is not None and known.smaller and not models:
        raise UsageError(
            f"the drafter {known.name} needs a smaller model with the same tokenizer",
            "Name one with the setting draft.models, or with --draft-model NAME.",
        )


def warm_up(drafter: Drafter) -> None:
    """Compile the drafter's kernels before a user waits for them; takes seconds, once on each machine."""
    context = DraftContext((1, 2, 3, 1, 2), 3)
    drafter.begin(context)
    drafter.propose(context, 8)
    rows_NK = np.zeros((1, max(drafter.traits.top_k, 1)), np.int64)
    # Nothing is emitted, so nothing is learnt about the quality of drafts.
    drafter.observe(DraftTree.chain((2,)), Verified((), (), rows_NK, rows_NK.astype(np.float32)))
    drafter.warm_up()


def change(parameters: Parameters, name: str, changes: Mapping[str, str]) -> Parameters:
    """`parameters` with values read from text, each with the type of its default; UsageError for an invalid one."""
    entries = () if parameters is None else fields(parameters)  # type: ignore[arg-type]
    known: dict[str, Any] = {entry.name: getattr(parameters, entry.name) for entry in entries}
    limits = {entry.name: entry.metadata.get("limits", (0, math.inf)) for entry in entries}
    values: dict[str, Any] = {}
    for key, text in changes.items():
        if key not in known:
            raise UsageError(f"the drafter {name} has no parameter '{key}'", f"It has: {', '.join(known) or 'none'}.")
        try:
            values[key] = _read(text, known[key], *limits[key])
        except ValueError as failure:
            raise UsageError(
                f"'{text}' is not a valid {key} for {name}", f"The default is {known[key]!r}."
            ) from failure
    return replace(parameters, **values) if values else parameters  # type: ignore[type-var]


def _read(text: str, like: object, least: float, most: float) -> object:
    if isinstance(like, bool):
        if text.lower() not in {"true", "false"}:
            raise ValueError(text)
        return text.lower() == "true"
    if isinstance(like, int):
        value = int(text)
        if not least <= value <= most:
            raise ValueError(text)
        return value
    if isinstance(like, float | tuple):
        numbers = tuple(float(part) for part in text.split("/"))
        if not all(0 <= number < math.inf for number in numbers) or (isinstance(like, float) and len(numbers) > 1):
            raise ValueError(text)
        return numbers if isinstance(like, tuple) else numbers[0]
    return text
