"""Listing what lies below a folder of a workspace: regular files only, no link followed, bounded in depth and number.

Owns the order, which is breadth first, so that what is nearest to the top comes first and a tree that is a trap costs
what its bounds say. Knows no rule; who calls says which folders are entered.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from fastcoder_lsp.workspace.paths import openable

MAX_ENTRIES: Final = 1_000_000
"""Entries that are looked at, whatever they are."""
MAX_DEPTH: Final = 200
"""Folders within folders; deeper ones are a trap, and soon have no path that can be opened."""


def walk(top: Path, enters: Callable[[Path], bool], most: int = MAX_ENTRIES) -> Iterator[Path]:
    """The regular files below `top`, folder by folder.

    Args:
        top: a folder.
        enters: whether a folder below it is looked into.
        most: entries that are looked at.
    """
    for base, names in walk_folders(top, enters, most):
        yield from (base / name for name in names)


def walk_folders(
    top: Path, enters: Callable[[Path], bool], most: int = MAX_ENTRIES
) -> Iterator[tuple[Path, list[str]]]:
    """Each folder with the names of its regular files, for who asks less of each file than of its folder.

    Args:
        top: as of `walk`.
        enters: as of `walk`.
        most: as of `walk`.
    """
    folders = deque([(top, 0)])
    while folders and most > 0:
        base, depth = folders.popleft()
        entries = list_folder(base, most)
        most -= len(entries)
        yield base, [name for name, is_folder in entries if not is_folder]
        if depth < MAX_DEPTH:
            inner = (base / name for name, is_folder in entries if is_folder)
            folders.extend((path, depth + 1) for path in inner if enters(path))


def list_folder(folder: Path, most: int = MAX_ENTRIES) -> list[tuple[str, bool]]:
    """(name, whether it is a folder) of the regular files and folders in `folder`, by name.

    Nothing where it cannot be looked into; of a folder with more than `most` entries those that the system names first.
    """
    try:
        with os.scandir(openable(folder)) as listed:
            kinds = ((entry.name, _is_folder(entry)) for entry in islice(listed, most))
            return sorted((name, is_folder) for name, is_folder in kinds if is_folder is not None)
    except OSError:
        return []


def _is_folder(entry: "os.DirEntry[str]") -> bool | None:
    """Whether it is a folder; None for what is neither a folder nor a regular file."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return True
        return False if entry.is_file(follow_symlinks=False) else None
    except OSError:
        return None
