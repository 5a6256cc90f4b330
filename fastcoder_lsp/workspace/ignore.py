"""Ignore files: `.gitignore` on every level, git's exclude files, and `.fastcoderignore`, by git's rules.

Decides which files apply to an entry, and in which order; `patterns` matches them. The rules of a folder are cached
until an ignore file on the way to it changes, so that changes take effect at once; a lookup costs the `stat` of these
files. A repository writes them, so their cost is bounded: if a file exceeds a limit or cannot be read, its whole folder
is ignored. As with git, anything but a regular file of the work tree has no rules.

In a linked work tree or a submodule, `.git` is a file that names the repository. Git's configuration names the user's
exclude file; it is read and never executed. A repository writes its own `.git`, so the path in it is never looked up on
another machine, and its content is used as patterns only.

Source: gitignore(5), gitrepository-layout(5), git-config(1) (`core.excludesFile`).
"""

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastcoder_lsp.workspace.patterns import Patterns
from fastcoder_lsp.workspace.regular import NotRegularError, read_regular

IGNORE_FILES = (".gitignore", ".fastcoderignore")
OWN_IGNORE_FILE = ".fastcoderignore"
MAX_BYTES: Final = 250_000
"""Of an ignore file."""
MAX_LEVELS: Final = 100
"""Folders below the root. No project has more, but a path of 4,096 characters may have 2,000."""
MAX_ELEMENTS: Final = 400_000
"""Of all ignore files together that apply to one folder."""
_MAX_CACHED_FOLDERS: Final = 512

logger = logging.getLogger(__name__)

_Stamp = tuple[int, int, int] | None
"""Modification time, size and inode of an ignore file; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns of one file, and their automaton's state in some folder."""

    patterns: Patterns
    state: int


@dataclass(frozen=True, slots=True)
class _FolderRules:
    """A folder: whether everything in it is ignored, and the rules for its entries, the innermost first.

    `files`: the ignore files that apply from here on; `stamps`: their stamps when they were read.
    """

    above: "_FolderRules | None"
    files: tuple[str, ...]
    stamps: tuple[_Stamp, ...]
    by_git: bool
    by_us: bool
    git: tuple[IgnoreRules, ...]
    own: tuple[IgnoreRules, ...]
    setting: tuple[IgnoreRules, ...]


class IgnoreFiles:
    """The ignore files of one folder and everything below it.

    Args:
        root: the workspace folder, absolute, links followed.
        patterns: from the settings, relative to `root`; no file can negate them.
    """

    def __init__(self, root: Path, patterns: Sequence[str] = ()) -> None:
        self._root = root
        self._setting = Patterns(patterns)
        self._top = _repository(root) or root
        self._folders: dict[Path, _FolderRules] = {}

    def ignores(self, path: Path, *, is_folder: bool, own_only: bool = False) -> bool:
        """Whether `path`, below the root, or one of its folders is ignored.

        Args:
            path: absolute.
            is_folder: whether `path` is a folder.
            own_only: by the settings and `.fastcoderignore` only, not by git's files.
        """
        if path == self._root:
            return False
        folder = self._folder(path.parent)
        by_git, by_us = _ignored_by(folder, path.name, is_folder=is_folder)
        return by_us or (by_git and not own_only)

    def names_ignored(self, folder: Path) -> Callable[[str], bool]:
        """Whether the file of a given name in `folder` is ignored, as a predicate by the present ignore files.

        For listing a folder: the ignore files on the way to it are checked once, not for each name.
        """
        known = self._folder(folder)
        return lambda name: any(_ignored_by(known, name, is_folder=False))

    def _folder(self, path: Path) -> _FolderRules:
        """The rules of a folder, computed from the first level whose ignore files have changed."""
        known: _FolderRules | None = None
        if len(self._folders) > _MAX_CACHED_FOLDERS:
            self._folders = {}  # not one by one: several threads ask
        for level in (*reversed(path.parents), path)[len(self._top.parts) - 1 :]:
            cached = self._folders.get(level)
            files = self._files(level) if cached is None else cached.files
            stamps = tuple(map(_stamp, files))
            if cached is None or cached.above is not known or cached.stamps != stamps:
                cached = self._load(level, known, files, stamps)
                self._folders[level] = cached
            known = cached
        assert known is not None
        return known

    def _load(
        self, folder: Path, above: _FolderRules | None, files: tuple[str, ...], stamps: tuple[_Stamp, ...]
    ) -> _FolderRules:
        below_root = self._root in folder.parents
        by_git, by_us = _ignored_by(above, folder.name, is_folder=True) if above and below_root else (False, False)
        git, own, setting = (
            (_states_inside(rules, folder.name) for rules in (above.git, above.own, above.setting))
            if above
            else ((), (), ())
        )
        if folder == self._root and self._setting:
            setting = (IgnoreRules(self._setting, self._setting.start),)
        too_deep = len(folder.parts) - len(self._root.parts) >= MAX_LEVELS
        by_git, by_us = by_git or too_deep, by_us or too_deep or not self._setting.complete
        for file in (file for file, stamp in zip(files, stamps, strict=True) if stamp is not None):
            room = MAX_ELEMENTS - sum(len(one.patterns) for one in (*git, *own))
            patterns, is_own = self._read(Path(file)), file.endswith(OWN_IGNORE_FILE)
            if patterns is None or len(patterns) > room:
                logger.warning("cannot read all of %s: ignoring everything in %s", file, folder)
                by_git, by_us = by_git or not is_own, by_us or is_own
            elif patterns and is_own:
                own = (IgnoreRules(patterns, patterns.start), *own)
            elif patterns:
                git = (IgnoreRules(patterns, patterns.start), *git)
        return _FolderRules(above, files, stamps, by_git, by_us, git, own, setting)

    def _files(self, folder: Path) -> tuple[str, ...]:
        """The ignore files that apply from `folder` on, the weakest first."""
        if len(folder.parts) - len(self._root.parts) >= MAX_LEVELS:
            return ()
        users = user_exclude() if folder == self._top else None
        excludes = (str(file) for file in (users, repository_exclude(folder)) if file is not None)
        own = (OWN_IGNORE_FILE,) if folder.is_relative_to(self._root) else ()
        return (*excludes, *(str(folder / name) for name in (".gitignore", *own)))

    def _read(self, file: Path) -> Patterns | None:
        """The patterns of a file, none if a link leaves the work tree; None if unreadable or over a limit."""
        within = self._top if file.is_relative_to(self._top) else Path(file.anchor)
        try:
            content = read_regular(file, MAX_BYTES + 1, inside=within)
        except (NotRegularError, FileNotFoundError, NotADirectoryError):
            return Patterns(())
        except OSError:
            return None
        if len(content) > MAX_BYTES:
            return None
        patterns = Patterns(content.decode("utf-8-sig", "surrogateescape").split("\n"))
        return patterns if patterns.complete else None


def _ignored_by(folder: _FolderRules, name: str, *, is_folder: bool) -> tuple[bool, bool]:
    """Whether git's files, and whether ours or the settings, ignore an entry of `folder`."""
    by_git = folder.by_git or _is_ignored(folder.git, name, is_folder=is_folder)
    by_us = folder.by_us or _is_ignored(folder.own, name, is_folder=is_folder)
    return by_git, by_us or _is_ignored(folder.setting, name, is_folder=is_folder)


def _is_ignored(rules: Iterable[IgnoreRules], name: str, *, is_folder: bool) -> bool:
    """The verdict of the innermost file whose patterns match the entry."""
    verdicts = (one.patterns.match(one.state, name, is_folder=is_folder).ignored for one in rules)
    return next((ignored for ignored in verdicts if ignored is not None), False)


def _states_inside(rules: Iterable[IgnoreRules], name: str) -> tuple[IgnoreRules, ...]:
    """The same rules with their states inside the folder `name`."""
    return tuple(IgnoreRules(one.patterns, one.patterns.match(one.state, name, is_folder=True).below) for one in rules)


def _stamp(file: str) -> _Stamp:
    try:
        status = os.stat(file)  # noqa: PTH116 a few for every key
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _repository(folder: Path) -> Path | None:
    """The git work tree of `folder`: its ignore files above `folder` apply inside it."""
    return next((above for above in (folder, *folder.parents) if os.path.lexists(above / ".git")), None)


_MAX_BYTES: Final = 100_000
_EXCLUDE: Final = Path("info", "exclude")
_SECTION: Final = re.compile(r"\s*\[([^\]]*)\]\s*")
_VALUE: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")
_CHARACTER: Final = re.compile(r"\\.|.")
_ESCAPED: Final = {"n": "\n", "t": "\t", "b": "\b"}
_MAX_DEPTH: Final = 5
"""Of included configurations; git allows ten."""


def repository_exclude(folder: Path) -> Path | None:
    """The exclude file of the repository whose work tree begins in `folder`; None if none begins there."""
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
    # All work trees of a repository share this folder.
    shared = _local(_first_line(own / "commondir", inside=Path(own.anchor)) or ".", own)
    return None if shared is None else shared / _EXCLUDE


def user_exclude() -> Path | None:
    """The user's exclude file, which applies in all repositories; None if the user has no home folder."""
    home = _home()
    if home is None:
        return None
    # The XDG specification ignores relative paths.
    configured = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    git = (configured if configured.is_absolute() else home / ".config") / "git"
    for config in (home / ".gitconfig", git / "config"):  # the first one takes precedence
        named = [value for key, value in _values(config, home) if key == "core.excludesfile"]
        if named:  # an empty value: git reads no file
            return _user_path(named[-1], home, None)
    return git / "ignore"


def _values(config: Path, home: Path, depth: int = 0) -> Iterator[tuple[str, str]]:
    """(section.key in lower case, value) of a git configuration, and of those that it includes unconditionally."""
    section = ""
    # A backslash at the end of a line continues it.
    for line in _text(config, inside=Path(config.anchor)).removeprefix("\ufeff").replace("\\\n", "").split("\n"):
        header = _SECTION.match(line)
        section = section if header is None else header[1].strip().lower()
        value = _VALUE.match(line, 0 if header is None else header.end())
        if value is None:
            continue
        key, verdicts = f"{section}.{value[1].lower()}", _unquoted(value[2])
        if key != "include.path":
            yield key, verdicts
        elif depth < _MAX_DEPTH and (included := _user_path(verdicts, home, config.parent)) is not None:
            yield from _values(included, home, depth + 1)


def _unquoted(value: str) -> str:
    """A value without its quotes, escapes and comment."""
    found, cached, quoted = "", 0, False
    for char in _CHARACTER.findall(value):
        if char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            break
        else:
            found += _ESCAPED.get(char[1:], char[1:]) if len(char) > 1 else char
        if quoted or not char.isspace():
            cached = len(found)
    return found[:cached]


def _user_path(named: str, home: Path, base: Path | None) -> Path | None:
    """A path in the user's configuration; None if empty, in another user's home, or relative without `base`."""
    if "\0" in named or not named or (named.startswith("~") and not named.startswith("~/")):
        return None
    path = home / named.removeprefix("~/") if named.startswith("~/") else Path(named)
    return path if path.is_absolute() else base / path if base is not None else None


def _local(named: str, base: Path) -> Path | None:
    """The named folder; None if it is on another machine."""
    if not named or named.startswith(("//", "\\\\")) or "\0" in named:
        return None
    return Path(os.path.normpath(base / named))


def _first_line(path: Path, *, inside: Path) -> str:
    return _text(path, inside=inside).split("\n", 1)[0].rstrip("\r")


def _text(path: Path, *, inside: Path) -> str:
    """The content of a file; "" if it cannot be read."""
    try:
        return read_regular(path, _MAX_BYTES, inside=inside).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _home() -> Path | None:
    if os.environ.get("HOME"):  # git's first choice on Windows too
        return Path(os.environ["HOME"])
    try:
        return Path.home()
    except RuntimeError:  # the user has none
        return None
