"""Answers of models to prompts, kept in a file so that a long run can be stopped and taken up again.

Owns the file: lines are only appended; a half-written last line is ignored.
"""

import hashlib
import json
from pathlib import Path

from fastcoder_lsp.prompt import Prompt


def key(identity: str, prompt: Prompt, limit: str) -> str:
    """Names one answer: by whom, to what, up to which end."""
    asked = [identity, list(prompt.tokens), prompt.healing.hex(), limit]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]


class Answers:
    """key → the text that was generated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._texts: dict[str, str] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                except json.JSONDecodeError:
                    continue
                self._texts[row["key"]] = row["text"]

    def get(self, name: str) -> str | None:
        """The answer kept under `name`."""
        return self._texts.get(name)

    def put(self, name: str, text: str) -> None:
        """Keep an answer; on disk when this returns."""
        self._texts[name] = text
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": name, "text": text}) + "\n")
