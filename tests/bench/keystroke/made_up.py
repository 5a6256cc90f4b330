"""A made-up history, small enough for a test."""

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NAME = "small"
BASE = {
    "shapes.py": "import math\n\n\nclass Square:\n    def __init__(self, side):\n        self.side = side\n",
    "notes.md": "# Shapes\n",
}
STEPS: tuple[dict[str, Any], ...] = (
    {"kind": "edit", "path": "notes.md", "offset": 9, "delete": 0, "text": "Squares only.\n", "typed": False},
    {"kind": "save", "path": "notes.md"},
    {"kind": "edit", "path": "shapes.py", "offset": 24, "delete": 0, "text": "suggested = 1\nx = 2\n", "typed": True},
    {"kind": "save", "path": "shapes.py"},
)


def write_history(
    folder: Path, name: str = NAME, base: Mapping[str, str] = BASE, steps: Iterable[Mapping[str, Any]] = STEPS
) -> Path:
    """DIR/NAME of the history, written into `folder`."""
    with tarfile.open(folder / f"{name}.base.tar.gz", "w:gz") as archive:
        for path, text in base.items():
            member = tarfile.TarInfo(f"top/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    (folder / f"{name}.steps.jsonl").write_text("".join(json.dumps({"commit": "0", **step}) + "\n" for step in steps))
    return folder / name
