"""Git's ignore files that lie in no folder of the work tree: a repository's own exclude file, and the user's.

Owns where they are: for a linked work tree or a submodule `.git` is a file that names the place; the user's is named by
git's configuration, which is read and never run. A repository writes its own `.git`: of a place that it names nothing
is asked of another machine, and what is there is taken for patterns only.

Source: gitignore(5), gitrepository-layout(5), git-config(1) (`core.excludesFile`).
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fastcoder_lsp.workspace.regular import read_regular

_MAX_BYTES: Final = 100_000
_EXCLUDE: Final = Path("info", "exclude")
_SECTION: Final = re.compile(r"\s*\[([^\]]*)\]\s*")
_VALUE: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")
_SIGN: Final = re.compile(r"\\.|.")
_ESCAPED: Final = {"n": "\n", "t": "\t", "b": "\b"}
_DEEPEST: Final = 5
"""Configurations that are included in one another; git allows ten."""


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
        named = [value for key, value in _values(config, home) if key == "core.excludesfile"]
        if named:  # where it is none, git reads nothing
            return _user_path(named[-1], home, None)
    return git / "ignore"


def _values(config: Path, home: Path, depth: int = 0) -> Iterator[tuple[str, str]]:
    """(section.key in small letters, value) of a configuration of git's, and of those that it includes in any case."""
    section = ""
    # A line that ends in a backslash goes on in the next one.
    for line in _text(config, inside=Path(config.anchor)).removeprefix("\ufeff").replace("\\\n", "").split("\n"):
        header = _SECTION.match(line)
        section = section if header is None else header[1].strip().lower()
        value = _VALUE.match(line, 0 if header is None else header.end())
        if value is None:
            continue
        key, said = f"{section}.{value[1].lower()}", _unquoted(value[2])
        if key != "include.path":
            yield key, said
        elif depth < _DEEPEST and (included := _user_path(said, home, config.parent)) is not None:
            yield from _values(included, home, depth + 1)


def _unquoted(value: str) -> str:
    """A value without its quotes, escapes and the comment that follows it."""
    found, kept, quoted = "", 0, False
    for sign in _SIGN.findall(value):
        if sign == '"':
            quoted = not quoted
        elif sign in "#;" and not quoted:
            break
        else:
            found += _ESCAPED.get(sign[1:], sign[1:]) if len(sign) > 1 else sign
        if quoted or not sign.isspace():
            kept = len(found)
    return found[:kept]


def _user_path(named: str, home: Path, base: Path | None) -> Path | None:
    """A path of the user's; None for what means none: nothing, another user's folder, a relative one without `base`."""
    if "\0" in named or not named or (named.startswith("~") and not named.startswith("~/")):
        return None
    path = home / named.removeprefix("~/") if named.startswith("~/") else Path(named)
    return path if path.is_absolute() else base / path if base is not None else None


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
    if os.environ.get("HOME"):  # git's first choice on Windows too
        return Path(os.environ["HOME"])
    try:
        return Path.home()
    except RuntimeError:  # nobody's
        return None
