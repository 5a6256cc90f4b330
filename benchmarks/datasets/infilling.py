"""Single-line infilling: one line of a program is missing, or the rest of one, and the model is to say it.

Owns reading the tasks and cutting them inside the line; a cut is the same in every run.
"""

import gzip
import json
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fastcoder_lsp.errors import UsageError

Cut = Literal["start", "boundary", "word"]
"""The cursor: where the line begins, between two words of it, or inside a word."""
CUTS: tuple[Cut, ...] = ("start", "boundary", "word")
FILE = "HumanEval-SingleLineInfilling.jsonl.gz"


@dataclass(frozen=True, slots=True)
class Case:
    """A cursor between `before` and `after`, which begins with the line's end; `expected`: the rest of the line."""

    id: str
    before: str
    after: str
    expected: str


def load(folder: Path, cut: Cut) -> tuple[Case, ...]:
    """The tasks cut as asked; those whose line has no such place are left out.

    Raises:
        UsageError: the folder does not hold them.
    """
    try:
        packed = (folder / FILE).read_bytes()
    except OSError as failure:
        raise UsageError(f"{folder} holds no {FILE}: {failure}", "Name the folder that holds it.") from failure
    rows = [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()]
    cases = []
    for row in rows:
        line = row["canonical_solution"].removesuffix("\n")
        at = _place(line, cut, random.Random(row["task_id"]))  # noqa: S311 - a reproducible draw, no secret
        if at is not None:
            cases.append(Case(row["task_id"], row["prompt"] + line[:at], "\n" + row["suffix"], line[at:].rstrip()))
    return tuple(cases)


def _place(line: str, cut: Cut, draw: random.Random) -> int | None:
    """Where in `line` the cursor stands; None where it has no such place."""
    if cut == "start":
        return 0
    inside = range(len(line) - len(line.lstrip()) + 1, len(line.rstrip()))
    words = re.compile(r"(?<=\w)(?=\w)" if cut == "word" else r"(?<=\w)(?!\w)|(?<!\w)(?=\w)")
    places = [match.start() for match in words.finditer(line) if match.start() in inside]
    return draw.choice(places) if places else None
