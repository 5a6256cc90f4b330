"""The formats of edit models, published ones and our own: by name, by the model's name, and by a prompt in them."""

import re
from typing import Final

from fastcoder_lsp.edits.prompts import (
    EditFormat,
    EditLimits,
    EditPrompt,
    Mark,
    answer_tokens,
    encode_parts,
    encode_raw,
)
from fastcoder_lsp.edits.sweep import FastcoderV1, SweepCursortab, SweepV1
from fastcoder_lsp.edits.zeta import Zeta2, Zeta21

__all__ = [
    "FORMATS",
    "MODEL_NAMES",
    "EditFormat",
    "EditLimits",
    "EditPrompt",
    "Mark",
    "answer_tokens",
    "encode_parts",
    "encode_raw",
    "format_named",
    "format_of_model",
    "recognise",
]

FORMATS: Final[tuple[EditFormat, ...]] = (
    SweepV1(),
    FastcoderV1(),
    SweepCursortab(),
    Zeta2(),
    Zeta2("zeta-2-cursortab", cursortab=True),
    Zeta21(),
)
"""Every format; of two that recognise the same prompts, the first one is found."""

MODEL_NAMES: Final = ("sweep-next-edit", "zeta-2", "zeta-2.1")
"""Parts of models' names that tell their format."""
_MODELS = (
    (r"sweep-next-edit(?!-v2)", "sweep-v1"),
    (r"zeta[-_.]?2[-_.]1", "zeta-2.1"),
    (r"zeta[-_.]?2", "zeta-2"),
)


def format_named(name: str) -> EditFormat:
    """The format by its name; raises KeyError if there is none."""
    return {one.name: one for one in FORMATS}[name]


def format_of_model(model: str) -> EditFormat | None:
    """The format of a model by its hub id, or the name of its folder or file; None if it is no known edit model."""
    name = re.split(r"[/\\]", model.rstrip("/\\"))[-1].lower()
    for pattern, found in _MODELS:
        if re.search(rf"(?<![a-z]){pattern}(?![a-z0-9])", name):
            return format_named(found)
    return None


def recognise(prompt: str) -> tuple[EditFormat, str] | None:
    """The format of a prompt that another program built, and the answer to it that changes nothing."""
    for one in FORMATS:
        old = one.recognise(prompt)
        if old is not None:
            return one, old
    return None
