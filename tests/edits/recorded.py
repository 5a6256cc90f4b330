"""The development cases of next edits with their recorded prompts and answers, and the published templates.

They lie in ../shared/data/next_edit, or where FASTCODER_NEXT_EDIT says; tests that need them are skipped elsewhere.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.core import Change
from fastcoder_lsp.edits.values import EditQuestion

FOLDER = Path(os.environ.get("FASTCODER_NEXT_EDIT") or Path(__file__).parents[3] / "shared" / "data" / "next_edit")
FORMATS = {"zeta-2": "zeta-2-cursortab"}
"""The form in which cursortab asked a model; Sweep's models have one in common."""
_CURSORS = ("<|user_cursor|>", "<|cursor|>")


@dataclass(frozen=True)
class Recorded:
    """A recorded request: its format, the question that it was built from, the prompt, and the answer.

    `wanted` is the text that the case wants, None for one that wants quiet, or after an accepted edit.
    """

    case: str
    format: str
    question: EditQuestion
    prompt: str
    answer: str
    complete: bool
    wanted: str | None


def templates() -> Mapping[str, Any]:
    """`templates.json`."""
    found: Mapping[str, Any] = json.loads(_path("templates.json").read_text(encoding="utf-8"))
    return found


def recorded() -> Iterator[Recorded]:
    """Every recorded request to Sweep's models and Zeta 2."""
    for line in _path("cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        for output in case["outputs"]:
            name = "sweep-cursortab" if "sweep-next" in output["model"] else FORMATS.get(output["model"])
            if name:
                yield _recorded(case, output, name)


def _path(name: str) -> Path:
    if not (FOLDER / name).exists():
        pytest.skip(f"{name} is not in ../shared/data/next_edit, or where FASTCODER_NEXT_EDIT says")
    return FOLDER / name


def _recorded(case: Mapping[str, Any], output: Mapping[str, Any], name: str) -> Recorded:
    path, prompt, text = case["path"], output["prompt"], case["before"]
    cursor = output.get("prompt_cursor") or case["cursor"]
    offset = sum(len(line) + 1 for line in text.split("\n")[: cursor["line"]]) + cursor["col"]
    history = [Change(path, 0, change["old"], change["new"]) for change in case["history"]]
    if output["interaction"]:  # an edit of one line was accepted before
        text, offset = _window(prompt, name)
        pairs = zip(case["before"].split("\n"), text.split("\n"), strict=True)
        shown = [
            (old, new) for old, new in pairs if old != new and re.search(rf"^-?{re.escape(old)}$", prompt, re.MULTILINE)
        ]
        history += [Change(path, 0, old, new, accepted=True) for old, new in shown]
    if name == "zeta-2-cursortab":  # ordered by times that are not recorded
        history.sort(key=lambda change: prompt.find(f"\n-{change.old}\n".partition("\n+")[0]))
    return Recorded(
        case["id"],
        name,
        EditQuestion(1, "file:///f", path, case["language"], 1, text, offset, tuple(history)),
        prompt,
        output["output"],
        output["finish"] == "stop",
        None if output["interaction"] else case["after"],
    )


def _window(prompt: str, name: str) -> tuple[str, int]:
    """The current text of a prompt that shows the whole file, and its cursor."""
    if name == "sweep-cursortab":
        shown = prompt.rpartition("<|file_sep|>current/")[2].partition("\n<|file_sep|>")[0].partition("\n")[2]
    else:
        shown = prompt.partition("<<<<<<< CURRENT\n")[2].rpartition("\n=======\n")[0]
    mark = next(mark for mark in _CURSORS if mark in shown)
    return shown.replace(mark, ""), shown.index(mark)
