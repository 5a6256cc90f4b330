"""Where is asked: lines of a tree, each cut behind a word near its middle. Pure; the same for the same seed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.languages import language_of

SUFFIXES = (".py", ".ts", ".rs")
FILE_CHARACTERS = range(2001, 60_000)
LINE_CHARACTERS = range(26, 90)
"""Without the blanks around it."""
TOP, BOTTOM = 20, 5
"""Lines of a file that are left out, at its beginning and its end."""
_COMMENTS = ("#", "//", '"')


@dataclass(frozen=True, slots=True)
class Place:
    """`text` of the file at `path` without `rest`, the end of a line that belongs to character `offset`."""

    path: str
    text: str
    offset: int
    rest: str

    @property
    def language(self) -> str:
        """The language id of the file."""
        return language_of(Path(self.path))


def choose(files: Mapping[str, str], count: int, seed: int) -> list[Place]:
    """`count` places in `files` (path → text).

    Raises:
        UsageError: there is no file to ask in.
    """
    lines_of = {
        path: lines
        for path, text in sorted(files.items())
        if path.endswith(SUFFIXES) and len(text) in FILE_CHARACTERS and _candidates(lines := text.split("\n"))
    }
    if not lines_of:
        raise UsageError("no file of this tree has a line to ask in", f"Name a tree with {', '.join(SUFFIXES)} files.")
    chance, paths = random.Random(seed), list(lines_of)  # noqa: S311 a sample, no secret
    places = []
    for _ in range(count):
        path = chance.choice(paths)
        places.append(_cut(path, lines_of[path], chance.choice(_candidates(lines_of[path]))))
    return places


def _candidates(lines: list[str]) -> list[int]:
    said = [line.strip() for line in lines]
    inside = range(TOP, len(lines) - BOTTOM)
    return [at for at in inside if len(said[at]) in LINE_CHARACTERS and not said[at].startswith(_COMMENTS)]


def _cut(path: str, lines: list[str], at: int) -> Place:
    line = lines[at]
    middle = len(line) // 2
    cut = line.find(" ", middle) + 1 or middle
    text = "\n".join([*lines[:at], line[:cut], *lines[at + 1 :]])
    return Place(path, text, sum(map(len, lines[:at])) + at + cut, line[cut:])
