"""Cases of next edits with recorded answers of published models, and the figures published for all of them.

Source: cursortab.nvim's evaluation, MIT; the README beside `next_edit/cases.jsonl` describes the form.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastcoder_lsp.core import Change
from fastcoder_lsp.edits.values import Edit
from fastcoder_lsp.errors import UsageError

FILE = "cases.jsonl"
_ENDS = ("start", "end")


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """A prompt and its answer: text, or from a service `edits` of the case's text; `finish`: why it ended."""

    prompt: str
    output: str
    edits: tuple[Edit, ...] = ()
    finish: str = "stop"

    @property
    def complete(self) -> bool:
        return self.finish != "length"


@dataclass(frozen=True, slots=True)
class EditCase:
    """A place where a next edit is asked for.

    Attributes:
        text, offset: the document and the cursor.
        history: the earlier changes; those of other texts have line 0.
        modified: whether the user has changed the document.
        steps: `request`, `request manual` and `accept`.
        after: the wanted text; None where no edit is wanted.
        answers: model → its answers, the first request's first.
    """

    id: str
    language: str
    path: str
    text: str
    offset: int
    history: tuple[Change, ...]
    modified: bool
    steps: tuple[str, ...]
    after: str | None
    answers: Mapping[str, Sequence[RecordedAnswer]]


@dataclass(frozen=True, slots=True)
class PublishedScore:
    """A model's figures over all published cases, all in percent."""

    shown: float
    quiet: float
    delta_chrf: float


PUBLISHED = {
    "zeta-2": PublishedScore(88, 96, 61.5),
    "zeta": PublishedScore(88, 92, 60.9),
    "mercuryapi": PublishedScore(100, 80.8, 64.4),
    "sweep-next-edit-7B": PublishedScore(64, 40, 45.2),
    "sweep-next-edit-1.5B": PublishedScore(68, 36, 41.9),
    "sweep-next-edit-0.5B": PublishedScore(52, 40, 23.0),
    "sweepapi": PublishedScore(32, 100, 16.4),
    "copilot": PublishedScore(40, 100, 22.3),
    "qwen3.5-27B": PublishedScore(76, 68, 32.2),
    "qwen3.5-4B": PublishedScore(76, 60, 27.1),
    "qwen3.5-2B": PublishedScore(84, 44, 29.4),
    "qwen3.5-0.8B": PublishedScore(84, 44, 31.4),
}
"""cursortab.nvim's `server/eval/baseline.json`, over its 25 quality and 25 quiet cases."""


def load(path: Path) -> tuple[EditCase, ...]:
    """The cases of a file; raises UsageError where it is not there, or holds none."""
    try:
        return tuple(_case(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{path} holds no cases of next edits: {error}", "Its README describes the form.") from error


def _case(row: Mapping[str, Any]) -> EditCase:
    text = row["before"]
    answers: dict[str, list[RecordedAnswer]] = {}
    for output in sorted(row["outputs"], key=lambda output: int(output["interaction"])):
        answers.setdefault(output["model"], []).append(_answer(output, text))
    return EditCase(
        id=row["id"],
        language=row["language"],
        path=row["path"],
        text=text,
        offset=_offset(text, row["cursor"]["line"], row["cursor"]["col"]),
        history=tuple(_change(change, text) for change in row["history"]),
        modified=row["modified"],
        steps=tuple(row["steps"]),
        after=row["after"] if row["should_show"] else None,
        answers=answers,
    )


def _offset(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    return sum(map(len, lines[:line])) + line + min(column, len(lines[line]))


def _change(row: Mapping[str, str], text: str) -> Change:
    place = f"\n{text}\n".find(f"\n{row['new']}\n")
    line = text.count("\n", 0, place) if place >= 0 else 0
    old, new = (f"{side}\n" if side else "" for side in (row["old"], row["new"]))
    return Change(row["path"], line, old, new)


def _answer(row: Mapping[str, Any], text: str) -> RecordedAnswer:
    edits = tuple(edit for edit in (_edit(edit, text) for edit in row.get("edits") or ()) if edit is not None)
    return RecordedAnswer(row["prompt"] or "", row.get("output") or "", edits, row.get("finish") or "")


def _edit(row: Mapping[str, Any], text: str) -> Edit | None:
    """A service's edit: a range as in LSP, or offsets; None where it changes nothing."""
    if "range" in row:
        start, end = (_offset(text, place["line"], place["character"]) for place in (row["range"][e] for e in _ENDS))
        return Edit(start, end, row["text"])
    edit = Edit(row["start_index"], row["end_index"], row["completion"])
    return edit if text[edit.start : edit.end] != edit.text else None
