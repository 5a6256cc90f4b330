"""Where one plays: a folder, the files that are open, where their cursors stand, and the steps of the scripted session.

Owns reading the files. Nothing is ever written back to them.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.cli.complete import read_text
from fastcoder_lsp.cli.play.sample import FILES, STARTS, STEPS, TourStep, copy_sample
from fastcoder_lsp.cli.play.session import OpenFile
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.workspace.languages import language_of

LEAST_LINE = 12
"""A line with fewer characters is not worth typing again."""
CODE_SIGNS = frozenset("=({[")
"""A line with none of them is more likely prose than code."""


@dataclass(frozen=True, slots=True)
class Playground:
    """The workspace `root`, its open files, and what the scripted session does there."""

    root: Path
    files: list[OpenFile]
    steps: tuple[TourStep, ...]


def sample_playground() -> Playground:
    """The sample workspace, copied into the cache folder."""
    root = copy_sample(cache_folder() / "play")
    return Playground(root, [_open(root / name, name, STARTS.get(name, "")) for name in FILES], STEPS)


def user_playground(path: Path) -> Playground:
    """A file of the user's, in the repository that it belongs to; without one, in its folder."""
    path = path.absolute()
    file = _open(path, path.name, "")
    root = next((folder for folder in path.parents if os.path.lexists(folder / ".git")), path.parent)
    return Playground(root, [file], tuple(_type_again(file)))


def _open(path: Path, name: str, start: str) -> OpenFile:
    text = read_text(path)
    return OpenFile(name, path, language_of(path), text, text.index(start) + len(start))


def _type_again(file: OpenFile) -> Iterator[TourStep]:
    """Two lines of the file, typed again by half; the lower one first, so that the upper one's place stays true."""
    starts = [0, *(index + 1 for index, character in enumerate(file.text) if character == "\n")]
    lines = list(zip(starts, file.text.split("\n"), strict=True))
    long = [(start, line) for start, line in lines if len(line.strip()) >= LEAST_LINE]
    worth = [(start, line) for start, line in long if CODE_SIGNS & set(line)] or long or lines[-1:]
    for start, line in dict.fromkeys([worth[len(worth) * 3 // 4], worth[len(worth) // 2]]):
        indent = len(line) - len(line.lstrip())
        half = indent + (len(line) - indent) // 2
        yield TourStep(file.name, file.text[: start + indent], line[indent:half], drops=len(line) - indent)
