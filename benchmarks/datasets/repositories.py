"""Whole repositories, to ask for single lines of: those of RepoEval, and public packages.

Owns which of them something may be fitted on (`development`) and which are kept aside (`held-out`); the packages are
fetched by scripts/fetch_repositories.py, and any other repository that lies beside them is one, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.datasets import repoeval
from fastcoder_lsp.errors import UsageError

SPLITS = ("development", "held-out")
PACKAGES = "repositories"
"""The folder of the packages, in the folder of the benchmarks' data."""
REPOEVAL = "repoeval"
_DEVELOPMENT = ("zod-", "msw-", "scrapy-")
"""Packages that belong to the development repositories, beside RepoEval's."""
_SUFFIXES = frozenset((".py", ".ts", ".tsx", ".rs"))
_LARGEST = 300_000


@dataclass(frozen=True, slots=True)
class Repository:
    """`files`: path from the repository's folder → text with line feeds."""

    name: str
    files: Mapping[str, str]


def load(folder: Path, split: str) -> Iterator[Repository]:
    """The repositories of a split, by name.

    Raises:
        UsageError: there is no such split, or none of its repositories is in the folder.
    """
    if split not in SPLITS:
        raise UsageError(f"there is no split '{split}'", f"Take one of {', '.join(SPLITS)}.")
    found = False
    if split == "development" and (folder / REPOEVAL).is_dir():
        for name, files in sorted(repoeval.load(folder / REPOEVAL).files.items()):
            found = True
            yield Repository(name, {path: _lines(text) for path, text in sorted(files.items())})
    packages = folder / PACKAGES
    for place in sorted(packages.iterdir()) if packages.is_dir() else ():
        if place.is_dir() and place.name.startswith(_DEVELOPMENT) == (split == "development"):
            found = True
            yield Repository(place.name, dict(_read(place)))
    if not found:
        raise UsageError(
            f"there are no {split} repositories in {folder}",
            "Run scripts/fetch_repositories.py, or name the folder that holds them: FASTCODER_DATA=FOLDER",
        )


def _read(place: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(place.rglob("*")):
        if path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size <= _LARGEST:
            yield path.relative_to(place).as_posix(), _lines(path.read_text(encoding="utf-8", errors="replace"))


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
