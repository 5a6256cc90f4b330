"""Recorded edit sessions: the last commits of real repositories as edits, saves, new and removed files.

Owns reading them and what the texts are after each step; applies them to nothing.
"""

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.datasets import require

HISTORIES = ("structlog", "svcs", "llama.vscode")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: `kind` is "edit", "save", "create" or "remove"; `text` is the file's whole text after it."""

    kind: str
    path: str
    text: str
    typed: bool = False


def base(name: str) -> dict[str, str]:
    """path → text of a history's files before its first step."""
    files: dict[str, str] = {}
    with tarfile.open(require("replay") / f"{name}.base.tar.gz") as archive:
        for member in archive:
            opened = archive.extractfile(member)
            if opened is not None:
                # The archive holds one folder of the history's name.
                path = member.name.removeprefix("./").split("/", 1)[1]
                files[path] = opened.read().decode()
    return files


def steps(name: str, files: dict[str, str]) -> Iterator[Step]:
    """The steps of a history; `files` (see `base`) is brought up to date before each is given."""
    with Path(require("replay") / f"{name}.steps.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            kind, path = row["kind"], row["path"]
            if kind == "edit":
                text, at = files[path], row["offset"]
                files[path] = text[:at] + row["text"] + text[at + row["delete"] :]
            elif kind == "create":
                files[path] = row["text"]
            elif kind == "remove":
                del files[path]
            yield Step(kind, path, files.get(path, ""), bool(row.get("typed")))
