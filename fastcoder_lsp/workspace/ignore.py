"""Ignore files: `.gitignore` on every level, git's exclude files, and `.fastcoderignore`, by git's rules.

The rules of a folder are cached until an ignore file on the way to it changes; a lookup costs the `stat` of these
files. A repository writes them, so their cost is bounded: if a file exceeds a limit or cannot be read, its whole folder
is ignored. As with git, anything but a regular file of the work tree has no rules.

A repository also writes its own `.git`, so the path in it is never looked up on another machine, and its content is
used as patterns only. Only the user's configuration names exclude files; the place of a repository and its branch
choose among them, as in git.

Source: gitignore(5), gitrepository-layout(5), git-config(1) (`core.excludesFile`, "Conditional includes").
"""

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastcoder_lsp.workspace.patterns import Patterns
from fastcoder_lsp.workspace.regular import FileStamp, NotRegularError, file_stamp, read_regular

IGNORE_FILES = (".gitignore", ".fastcoderignore")
OWN_IGNORE_FILE = ".fastcoderignore"
MAX_BYTES: Final = 250_000  # of an ignore file
MAX_LEVELS: Final = 100  # Folders below the root. No project has more, but a path of 4,096 characters may have 2,000.
MAX_ELEMENTS: Final = 400_000  # of all ignore files together that apply to one folder
_MAX_CACHED_FOLDERS: Final = 512

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns of one file, and their automaton's state in some folder."""

    patterns: Patterns
    state: int


@dataclass(frozen=True, slots=True)
class _FolderRules:
    """A folder: whether everything in it is ignored, and the rules for its entries, the innermost first.

    `stamps` of the `files` that apply from here on: from when they were read.
    """

    above: "_FolderRules | None"
    files: tuple[str, ...]
    stamps: tuple[FileStamp | None, ...]
    by_git: bool
    by_us: bool
    git: tuple[IgnoreRules, ...]
    own: tuple[IgnoreRules, ...]
    setting: tuple[IgnoreRules, ...]
    unread: tuple[str, ...]
    """Ignore files on the way that could not be read as a whole, so that their folders are ignored."""


class IgnoreFiles:
    """The ignore files of `root` (absolute, links followed) and everything below it.

    `patterns` come from the settings, relative to `root`; no file can negate them.
    """

    def __init__(self, root: Path, patterns: Sequence[str] = ()) -> None:
        self._root = root
        self._setting = Patterns(patterns)
        self._top = _repository(root) or root
        self._users = _NO_EXCLUDES
        self._folders: dict[Path, _FolderRules] = {}

    def ignores(self, path: Path, *, is_folder: bool, own_only: bool = False) -> bool:
        """Whether `path` or a folder of it is ignored; `own_only`: by the settings and `.fastcoderignore` alone."""
        if path == self._root:
            return False
        folder = self._folder(path.parent)
        by_git, by_us = _ignored_by(folder, path.name, is_folder=is_folder)
        return by_us or (by_git and not own_only)

    def unread(self, path: Path, *, own_only: bool = False) -> bool:
        """Whether `path` is ignored because an ignore file could not be read as a whole."""
        return any(not own_only or file.endswith(OWN_IGNORE_FILE) for file in self._folder(path.parent).unread)

    def names_ignored(self, folder: Path) -> Callable[[str], bool]:
        """A predicate for listing `folder` by its present ignore files: whether the file of a name is ignored."""
        known = self._folder(folder)
        return lambda name: any(_ignored_by(known, name, is_folder=False))

    def _folder(self, path: Path) -> _FolderRules:
        """The rules of a folder, computed from the first level whose ignore files have changed."""
        known: _FolderRules | None = None
        if len(self._folders) > _MAX_CACHED_FOLDERS:
            self._folders = {}  # not one by one: several threads ask
        for level in (*reversed(path.parents), path)[len(self._top.parts) - 1 :]:
            cached = self._folders.get(level)
            outdated = level == self._top and self._users.outdated()
            files = self._files(level) if cached is None or outdated else cached.files
            stamps = tuple(map(file_stamp, files))
            if cached is None or cached.above is not known or (cached.files, cached.stamps) != (files, stamps):
                cached = self._load(level, known, files, stamps)
                self._folders[level] = cached
            known = cached
        assert known is not None
        return known

    def _load(
        self, folder: Path, above: _FolderRules | None, files: tuple[str, ...], stamps: tuple[FileStamp | None, ...]
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
        unread = above.unread if above else ()
        by_git, by_us = by_git or too_deep, by_us or too_deep or not self._setting.complete
        for file in (file for file, stamp in zip(files, stamps, strict=True) if stamp is not None):
            room = MAX_ELEMENTS - sum(len(one.patterns) for one in (*git, *own))
            patterns, is_own = self._read(Path(file)), file.endswith(OWN_IGNORE_FILE)
            if patterns is None or len(patterns) > room:
                logger.warning("cannot read all of %s: ignoring everything in %s", file, folder)
                by_git, by_us, unread = by_git or not is_own, by_us or is_own, (*unread, file)
            elif patterns and is_own:
                own = (IgnoreRules(patterns, patterns.start), *own)
            elif patterns:
                git = (IgnoreRules(patterns, patterns.start), *git)
        return _FolderRules(above, files, stamps, by_git, by_us, git, own, setting, unread)

    def _files(self, folder: Path) -> tuple[str, ...]:
        if len(folder.parts) - len(self._root.parts) >= MAX_LEVELS:
            return ()
        if folder == self._top:
            self._users = user_excludes(folder)
        users = self._users.files if folder == self._top else ()
        excludes = (str(file) for file in (*users, repository_exclude(folder)) if file is not None)
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
    by_git = folder.by_git or _is_ignored(folder.git, name, is_folder=is_folder)
    by_us = folder.by_us or _is_ignored(folder.own, name, is_folder=is_folder)
    return by_git, by_us or _is_ignored(folder.setting, name, is_folder=is_folder)


def _is_ignored(rules: Iterable[IgnoreRules], name: str, *, is_folder: bool) -> bool:
    verdicts = (one.patterns.match(one.state, name, is_folder=is_folder).ignored for one in rules)
    return next((ignored for ignored in verdicts if ignored is not None), False)


def _states_inside(rules: Iterable[IgnoreRules], name: str) -> tuple[IgnoreRules, ...]:
    return tuple(IgnoreRules(one.patterns, one.patterns.match(one.state, name, is_folder=True).below) for one in rules)


def _repository(folder: Path) -> Path | None:
    return next((above for above in (folder, *folder.parents) if os.path.lexists(above / ".git")), None)


_MAX_BYTES: Final = 100_000
_EXCLUDE: Final = Path("info", "exclude")
_SECTION: Final = re.compile(r"""\s*\[((?:[^\]"]|"(?:\\.|[^"\\])*")*)\]\s*""")
_VALUE: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")
_CHARACTER: Final = re.compile(r"\\.|.")
_ESCAPED: Final = {"n": "\n", "t": "\t", "b": "\b"}
_MAX_DEPTH: Final = 5  # of included configurations; git allows ten
_MAX_CONFIGS: Final = 100
_MAX_EXCLUDES: Final = 8  # of the user, for one repository


def repository_exclude(folder: Path) -> Path | None:
    """The exclude file of the repository whose work tree begins in `folder`; None if none begins there."""
    found = git_folders(folder)
    return None if found is None else found[1] / _EXCLUDE


def git_folders(folder: Path) -> tuple[Path, Path] | None:
    """The work tree's own folder of git and the shared one; None if there is none, or it is on another machine."""
    own = _git_folder(folder)
    if own is None or own == folder / ".git":
        return None if own is None else (own, own)
    shared = _local(_first_line(own / "commondir", inside=Path(own.anchor)) or ".", own)
    return None if shared is None else (own, shared)


def _git_folder(folder: Path) -> Path | None:
    git = folder / ".git"
    # `Path.is_dir` raises where a folder may not be entered, or a path is too long.
    if os.path.isdir(git):  # noqa: PTH112
        return git
    named = _first_line(git, inside=folder)
    return _local(named.removeprefix("gitdir:").strip(), folder) if named.startswith("gitdir:") else None


@dataclass(frozen=True, slots=True)
class UserExcludes:
    """The user's exclude files for a repository, usually one; `sources` has what chose them, and its stamps."""

    files: tuple[Path, ...]
    sources: Mapping[str, FileStamp | None]

    def outdated(self) -> bool:
        """Whether the configuration or the branch has changed."""
        return any(file_stamp(source) != stamp for source, stamp in self.sources.items())


_NO_EXCLUDES: Final = UserExcludes((), {})


def user_excludes(folder: Path) -> UserExcludes:
    """The user's exclude files for the work tree in `folder`; several if an include's condition is not checked."""
    home = _home()
    if home is None:
        return _NO_EXCLUDES
    # The XDG specification ignores relative paths.
    configured = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    git = (configured if configured.is_absolute() else home / ".config") / "git"
    config = _UserConfig(home, _git_folder(folder))
    named: list[Path | None] = [git / "ignore"]
    for file in (git / "config", home / ".gitconfig"):  # the last one takes precedence
        for key, value, certain in config.values(file):
            if key == "core.excludesfile":  # an empty value: git reads no file
                named = [*([] if certain else named), _user_path(value, home, None)]
    files = tuple(dict.fromkeys(file for file in named[-_MAX_EXCLUDES:] if file is not None))
    return UserExcludes(files, dict(config.sources))


class _UserConfig:
    """The user's configuration of git, as it holds in the repository with the git folder `git`; None outside of any."""

    def __init__(self, home: Path, git: Path | None) -> None:
        self._home, self._git = home, git
        self.sources: list[tuple[str, FileStamp | None]] = []
        """The files that decided, the one with the branch too, with their stamps before they were read."""

    def values(self, config: Path, depth: int = 0, *, certain: bool = True) -> Iterator[tuple[str, str, bool]]:
        """(section.key in lower case, value, whether it certainly holds) of a file, and of those that it includes."""
        self.sources.append((str(config), file_stamp(str(config))))
        section = ""
        # A backslash at the end of a line continues it.
        for line in _text(config, inside=Path(config.anchor)).removeprefix("\ufeff").replace("\\\n", "").split("\n"):
            header = _SECTION.match(line)
            section = section if header is None else header[1].strip()
            value = _VALUE.match(line, 0 if header is None else header.end())
            if value is None:
                continue
            name, key, read = section.lower(), value[1].lower(), _unquoted(value[2])
            included = name == "include" or (name.startswith("includeif") and name[9:10] in {" ", "\t", '"'})
            if not included or key != "path":
                yield f"{name}.{key}", read, certain
                continue
            holds = True if name == "include" else self._holds(_unquoted(section[9:].strip()), config.parent)
            path = _user_path(read, self._home, config.parent)
            if holds is not False and path is not None and depth < _MAX_DEPTH and len(self.sources) < _MAX_CONFIGS:
                yield from self.values(path, depth + 1, certain=certain and holds is True)

    def _holds(self, condition: str, base: Path) -> bool | None:
        """Whether a condition of an include holds in the repository; None if it is of an unknown kind."""
        kind, _, pattern = condition.partition(":")
        if kind in {"gitdir", "gitdir/i"}:
            return self._git is not None and _is_at(self._git, pattern, self._home, base, ignores_case=kind[-1] == "i")
        if kind != "onbranch":
            return None
        if self._git is None:
            return False
        head = self._git / "HEAD"
        self.sources.append((str(head), file_stamp(str(head))))
        branch = _first_line(head, inside=Path(head.anchor)).removeprefix("ref:").strip()
        named = branch.removeprefix("refs/heads/")
        return branch != named and _matches(pattern, named, ignores_case=False)


def _is_at(git: Path, pattern: str, home: Path, base: Path, *, ignores_case: bool) -> bool:
    """Whether the place of a git folder, or the one that it links to, matches a pattern of the user's."""
    if pattern.startswith("./"):
        pattern = f"{base.as_posix()}/{pattern[2:]}"
    elif pattern.startswith("~") and (path := _user_path(pattern, home, None)) is not None:
        pattern = path.as_posix() + "/" * pattern.endswith("/")
    elif not Path(pattern).is_absolute():
        pattern = f"**/{pattern}"
    places = {git.as_posix(), os.path.realpath(git).replace(os.sep, "/")}
    return any(_matches(pattern, place, ignores_case=ignores_case) for place in places)


def _matches(pattern: str, text: str, *, ignores_case: bool) -> bool:
    pattern = f"{pattern}**" if pattern.endswith("/") else pattern
    anchored = pattern if pattern.startswith("**/") else f"/{pattern.lstrip('/')}"
    patterns = Patterns([anchored], ignores_case=ignores_case)
    return patterns.match(patterns.start, text.lstrip("/"), is_folder=True).ignored is True


def _unquoted(value: str) -> str:
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
    """A path in the user's configuration; None if empty, of an unknown user, or relative without `base`."""
    if "\0" in named or not named:
        return None
    # `expanduser` takes the user's own home from elsewhere than git.
    path = home / named.removeprefix("~/") if named.startswith("~/") else Path(os.path.expanduser(named))  # noqa: PTH111
    if path.parts[:1] and path.parts[0].startswith("~"):
        return None
    return path if path.is_absolute() else base / path if base is not None else None


def _local(named: str, base: Path) -> Path | None:
    if not named or named.startswith(("//", "\\\\")) or "\0" in named:
        return None
    return Path(os.path.normpath(base / named))


def _first_line(path: Path, *, inside: Path) -> str:
    return _text(path, inside=inside).split("\n", 1)[0].rstrip("\r")


def _text(path: Path, *, inside: Path) -> str:
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
