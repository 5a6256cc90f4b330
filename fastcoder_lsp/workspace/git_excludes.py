"""Git's ignore files that lie in no folder of the work tree: a repository's own exclude file, and the user's.

Owns where they are: for a linked work tree or a submodule `.git` is a file that names the place; the user's is named by
git's configuration, which is read and never run. A repository writes its own `.git`: of a place that it names nothing
is asked of another machine, and what is there is taken for patterns only.

Source: gitignore(5), gitrepository-layout(5), git-config(1) (`core.excludesFile`).
"""

import os
import re
from pathlib import Path
from typing import Final

from fastcoder_lsp.workspace.regular import read_regular

_MAX_BYTES: Final = 100_000
_EXCLUDE: Final = Path("info", "exclude")
_SECTION: Final = re.compile(r"\s*\[([^\]]*)\]\s*")
_VALUE: Final = re.compile(r"\s*excludesfile\s*=\s*(.*)", re.IGNORECASE)


def repository_exclude(folder: Path) -> Path | None:
    """The exclude file of the repository whose work tree begins in `folder`; None where none begins there."""
    git = folder / ".git"
    # `Path.is_dir` raises where a folder may not be entered, or a path is too long.
    if os.path.isdir(git):  # noqa: PTH112
        return git / _EXCLUDE
    named = _first_line(git, inside=folder)
    if not named.startswith("gitdir:"):
        return None
    own = _local(named.removeprefix("gitdir:").strip(), folder)
    if own is None:
        return None
    # What the work trees of one repository share.
    shared = _local(_first_line(own / "commondir", inside=Path(own.anchor)) or ".", own)
    return None if shared is None else shared / _EXCLUDE


def user_exclude() -> Path | None:
    """The file of the user's that holds in all repositories; None where there can be none."""
    home = _home()
    if home is None:
        return None
    # Made absolute by the specification of these folders, or not heeded.
    configured = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    git = (configured if configured.is_absolute() else home / ".config") / "git"
    for config in (home / ".gitconfig", git / "config"):  # the first one outweighs the second
        named = _excludes_file(_text(config, inside=Path(config.anchor)))
        if named is not None:
            return home / named.removeprefix("~/")
    return git / "ignore"


def _excludes_file(config: str) -> str | None:
    """What a configuration of git's names last; a relative path has no meaning there."""
    section, found = "", None
    for line in config.split("\n"):
        header = _SECTION.match(line)
        section = section if header is None else header[1].strip().lower()
        value = _VALUE.match(line, 0 if header is None else header.end())
        if section == "core" and value is not None:
            path = re.split(r"\s[#;]", value[1])[0].strip().strip('"')
            found = path if path.startswith("~/") or Path(path).is_absolute() else None
    return found


def _local(named: str, base: Path) -> Path | None:
    """The folder that is named, if its name does not lead to another machine."""
    if not named or named.startswith(("//", "\\\\")) or "\0" in named:
        return None
    return Path(os.path.normpath(base / named))


def _first_line(path: Path, *, inside: Path) -> str:
    return _text(path, inside=inside).split("\n", 1)[0].rstrip("\r")


def _text(path: Path, *, inside: Path) -> str:
    """What a file says; nothing where there is none."""
    try:
        return read_regular(path, _MAX_BYTES, inside=inside).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # nobody's
        return None
