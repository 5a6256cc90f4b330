"""Recorded edit histories: the last commits of real projects as steps that a person could have made.

Owns reading them and applying their steps; measures nothing.
"""

import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("structlog", "svcs", "llama.vscode")
_LANGUAGES = {
    ".py": "python",
    ".ts": "typescript",
    ".tsx": "typescriptreact",
    ".js": "javascript",
    ".json": "json",
    ".css": "css",
    ".html": "html",
    ".md": "markdown",
}


@dataclass(frozen=True, slots=True)
class Typed:
    """A run of whole lines that a person typed: `text` (it ends with a newline) goes to `offset` of `document`.

    What it replaced is deleted from `document` already.
    """

    path: str
    language: str
    document: str
    offset: int
    text: str


def typed_runs(folder: Path, name: str) -> Iterator[Typed]:
    """The typed runs of history `name`, in order, each with the document it was typed into."""
    files = _base(folder / f"{name}.base.tar.gz")
    for line in (folder / f"{name}.steps.jsonl").read_text(encoding="utf-8").splitlines():
        step: Mapping[str, Any] = json.loads(line)
        path = step["path"]
        if step["kind"] == "create":
            files[path] = step["text"]
        elif step["kind"] == "remove":
            files.pop(path, None)
        elif step["kind"] == "edit":
            at = step["offset"]
            text = files[path]
            rest = text[:at] + text[at + step["delete"] :]
            if step["typed"]:
                yield Typed(path, _LANGUAGES.get(Path(path).suffix, "plaintext"), rest, at, step["text"])
            files[path] = rest[:at] + step["text"] + rest[at:]


def _base(path: Path) -> dict[str, str]:
    """path → text of the tree before the first step."""
    files = {}
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                files[member.name.partition("/")[2]] = content.read().decode("utf-8", errors="replace")
    return files
