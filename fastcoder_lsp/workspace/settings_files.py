"""Reads the settings files: a folder's `fastcoder.toml`, which a repository may have written, and the user's own."""

import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from fastcoder_lsp.config import Problem, SettingsLayer
from fastcoder_lsp.config.environment import own_settings_file
from fastcoder_lsp.config.resolve import MAX_ENTRIES, MAX_PROBLEMS, named_languages, shown
from fastcoder_lsp.config.settings_text import MAX_BYTES, parse_settings
from fastcoder_lsp.workspace.languages import misspelt
from fastcoder_lsp.workspace.regular import read_regular
from fastcoder_lsp.workspace.rules import resolved

SETTINGS_FILE: Final = "fastcoder.toml"
_MAX_NAME = 1_000


def settings_paths(folders: Iterable[Path]) -> list[Path]:
    """The user's own file and those of folders; they need not exist."""
    own = own_settings_file()
    return [*([own] if own is not None else []), *(folder / SETTINGS_FILE for folder in folders)]


def read_own_settings() -> SettingsLayer | Problem | None:
    """The layer of the user's own file, why it has none, or None if there is no such file."""
    path = own_settings_file()
    if path is None:
        return None
    read = partial(read_regular, path, MAX_BYTES + 1, inside=Path(resolved(path).anchor))  # wherever links lead
    return _not_yours(path) or _read(path, read, repository=False)


def read_settings_file(folder: Path) -> SettingsLayer | Problem | None:
    """The same for a folder's file, which is not trusted; None too if the folder holds the user's own file."""
    path = folder / SETTINGS_FILE
    own = own_settings_file()
    if own is not None and resolved(own) == resolved(path):
        return None
    read = partial(read_regular, path, MAX_BYTES + 1, inside=resolved(folder))
    return _read(path, read, repository=True)


def layers_of_files(folder: Path | None = None) -> tuple[list[SettingsLayer], list[Problem]]:
    """The layers of the user's own file and of a folder's, weakest first, and why a file has none."""
    found = [read_own_settings(), *([read_settings_file(folder)] if folder is not None else [])]
    return (
        [one for one in found if isinstance(one, SettingsLayer)],
        [one for one in found if isinstance(one, Problem)],
    )


def misspelt_languages(layers: Iterable[SettingsLayer]) -> Iterator[Problem]:
    """Language ids that no editor sends, and the ones that they are probably meant to be."""
    for layer in layers:
        named = dict.fromkeys(islice(named_languages(layer), MAX_ENTRIES))
        near = ((name, language, misspelt(language)) for name, language in named)
        for name, language, meant in islice((one for one in near if one[2]), MAX_PROBLEMS):
            message = f"no known language is called {shown(language)}; did you mean {meant}?"
            yield Problem(layer.place(name), shown(name), message)


def _read(path: Path, read: Callable[[], bytes], *, repository: bool) -> SettingsLayer | Problem | None:
    origin = shown(str(path), _MAX_NAME)
    try:
        return parse_settings(origin, read(), repository=repository)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Problem(origin, "", f"The file cannot be read: {error.strerror}. Replace it, or make it readable.")


def _not_yours(path: Path) -> Problem | None:
    """Why the user's own file is refused: others can write it, and it may name a server."""
    try:
        facts = path.stat()
    except OSError:
        return None
    origin = shown(str(path), _MAX_NAME)
    if os.name != "nt" and facts.st_uid not in (0, os.geteuid()):
        return Problem(origin, "", "The file belongs to another user. Save a copy of your own in its place.")
    if os.name != "nt" and facts.st_mode & stat.S_IWOTH:
        return Problem(origin, "", f"Other users can write the file. Run: chmod o-w {shlex.quote(origin)}.")
    return None
