"""The formats of edit models, published ones and our own: by name, by the model's name, and by a prompt in them.

`Instinct` is here, other families have files of their own. Source: continuedev/instinct, utils/datautils.py
(Apache-2.0), the form of its training; `instinct.txt` is its system message. The chat is Qwen2.5's.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files as package_files
from typing import Final

from fastcoder_lsp.core import Change, Extra
from fastcoder_lsp.edits.prompts import (
    EditFormat,
    EditLimits,
    EditPrompt,
    Mark,
    answer_tokens,
    encode_parts,
    encode_raw,
    expand,
    newest,
    settled,
    tokens_of,
    unified,
    unix,
    window_at,
)
from fastcoder_lsp.edits.sweep import FastcoderV1, SweepCursortab, SweepV1, SweepV2
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.edits.zeta import Zeta1, Zeta2, Zeta21

_AROUND, _EDITABLE, _DIFF_CONTEXT = 25, 5, 5
_START, _END, _CURSOR = "<|editable_region_start|>", "<|editable_region_end|>", "<|user_cursor_is_here|>"
_TURN, _TURN_END = Mark("<|im_start|>"), Mark("<|im_end|>")
_TASK = (
    "Reference the user excerpt, user edits, and the snippets to understand the developer's intent. Update the "
    "editable region of the user excerpt by predicting and completing the changes they would have made next. This may "
    "be a deletion, addition, or modification of code.\n\n### Context:\n\n"
)
_MAX_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Instinct:
    """A chat with changes, the latest first, and 25 lines each side of the cursor, 5 of them to be rewritten."""

    name: str = "instinct"

    def prompt(self, question: EditQuestion, limits: EditLimits, files: Sequence[Extra] = ()) -> EditPrompt | None:
        """As of `EditFormat`."""
        window = window_at(question, _EDITABLE, limits.region_tokens, (_START, _END, _CURSOR, _TURN_END))
        if window is None:
            return None
        text, beyond = question.text, _AROUND - _EDITABLE
        system = package_files(__package__).joinpath("instinct.txt").read_text(encoding="utf-8")
        room = limits.prompt_tokens - sum(map(tokens_of, (system, _TASK, window.text)))
        start, end = expand(text, window.start, window.end, beyond, beyond, room)
        before, after = unix(text[start : window.start]).removesuffix("\n"), unix(text[window.end : end])[1:]
        room -= tokens_of(before) + tokens_of(after)
        edits = newest([_edit(change) for change in question.history], room, tokens_of)
        room -= sum(map(tokens_of, edits))
        context = newest([_item(file) for file in files], room, lambda item: sum(map(tokens_of, item)))
        parts = (
            *(_TURN, f"system\n{system}", _TURN_END, "\n", _TURN, f"user\n{_TASK}"),
            *(part for item in context for part in item),
            f'\n\n\n### User Edits:\n\n{"".join(reversed(edits))}### User Excerpt:\n"{question.path}"\n\n{before}\n',
            *(Mark(_START), "\n", *window.with_cursor(_CURSOR), "\n", Mark(_END), f"\n{after}"),
            *(_TURN_END, "\n", _TURN, "assistant\n"),
        )
        return window.prompt(parts, window.text, (_TURN_END,), _MAX_TOKENS)

    def read(self, prompt: EditPrompt, answer: str, *, complete: bool = True) -> str | None:
        """As of `EditFormat`."""
        new = answer.partition(_TURN_END)[0].partition(_END)[0].replace(_CURSOR, "")
        return settled(prompt, new.removeprefix(f"{_START}\n"), complete=complete)

    def recognise(self, prompt: str) -> str | None:
        """As of `EditFormat`."""
        _, found, rest = prompt.rpartition(f"{_START}\n")
        region, ended, _ = rest.partition(f"\n{_END}")
        framed = prompt.startswith(f"{_TURN}system\nYou are Instinct") and prompt.endswith(f"{_TURN}assistant\n")
        return region.replace(_CURSOR, "", 1) if found and ended and framed else None


def _edit(change: Change) -> str:
    hunk = unified(change, _DIFF_CONTEXT).removesuffix("\n")
    return f'User edited file "{change.path}"\n\n```diff\n{hunk}\n```\n\n'


def _item(file: Extra) -> tuple[str, ...]:
    text = unix(file.text).removesuffix("\n")
    return Mark("<|context_file|>"), f" {file.name}\n", Mark("<|snippet|>"), f"\n{text}\n"


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
    SweepV2(),
    SweepCursortab(),
    Zeta1(),
    Zeta1("zeta-1-cursortab", cursortab=True),
    Zeta2(),
    Zeta2("zeta-2-cursortab", cursortab=True),
    Zeta21(),
    Instinct(),
)
"""Every format; of two that recognise the same prompts, the first one is found."""

MODEL_NAMES: Final = ("sweep-next-edit", "sweep-next-edit-v2", "zeta", "zeta-2", "zeta-2.1", "instinct")
"""Parts of models' names that tell their format."""
_MODELS = (
    (r"sweep-next-edit-v2", "sweep-v2"),
    (r"sweep-next-edit", "sweep-v1"),
    (r"zeta[-_.]?2[-_.]1", "zeta-2.1"),
    (r"zeta[-_.]?2", "zeta-2"),
    (r"zeta", "zeta-1"),
    (r"instinct", "instinct"),
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
