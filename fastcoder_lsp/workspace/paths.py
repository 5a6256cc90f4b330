r"""Document URIs, and paths in the system's spelling: long paths on Windows, the disk's spelling on macOS.

Windows opens a path of any length if it begins with `\\?\` before a drive's letter, or `\\?\UNC\` before a share. The
rest is literal and may have 32,767 characters. Only code that opens, lists or inspects a file uses this form.
(Microsoft: Naming Files, Paths, and Namespaces; Maximum Path Length Limitation.)

On macOS' default disks `Foo.py` opens `foo.py`, and an accented letter may be one character or two. Editors, command
lines and the watcher spell paths differently, so files are stored under the disk's spelling, which `Path.resolve`
returns on Windows, but not on macOS.
"""

import os
import re
import stat
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from typing import Final
from urllib.parse import unquote, urlsplit

MAX_SHORT_PATH: Final = 247  # characters of a folder's path that every Windows takes; a file in it may have twelve more
_PREFIX, _SHARE = "\\\\?\\", "\\\\"
_ON_DISK = ("file", "vscode-notebook-cell", "vscode-notebook")
MAX_PATH_CHARACTERS = 32_768  # no system has longer paths, and looking one up would take long
_DRIVE = re.compile(r"/[A-Za-z]:")


def long_form(path: PureWindowsPath) -> str:
    """An absolute path as Windows opens it, whatever its length."""
    text = str(path)
    if len(text) <= MAX_SHORT_PATH or text.startswith(_PREFIX) or not path.is_absolute():
        return text
    return f"{_PREFIX}UNC\\{text[len(_SHARE) :]}" if text.startswith(_SHARE) else _PREFIX + text


def openable(path: Path) -> Path:
    """`path` as this system opens it."""
    return Path(long_form(PureWindowsPath(path))) if os.name == "nt" else path


HAS_DISK_SPELLING: Final = sys.platform == "darwin"
_F_GETPATH, _MAX_PATH = 50, 1024  # fcntl's command, and the bytes that it may write (macOS: sys/fcntl.h, MAXPATHLEN)
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_EVTONLY", 0)
"""For reading the name only: opening does not block, and the disk can still be ejected."""


def as_on_disk(path: Path) -> Path:
    """An absolute path without links in the disk's spelling, on systems that accept several spellings."""
    return disk_spelling(path) if HAS_DISK_SPELLING else path


def ask_system(descriptor: int) -> bytes:
    """The path of an open file in macOS' spelling, padded with zeros."""
    import fcntl  # noqa: PLC0415 not there on Windows

    return fcntl.fcntl(descriptor, _F_GETPATH, bytes(_MAX_PATH))


def disk_spelling(path: Path, ask: Callable[[int], bytes] = ask_system) -> Path:
    """`path`, absolute and without links, in the disk's spelling; parts that do not exist stay as they are."""
    for here in (path, *path.parents):
        found = _query_disk(here, ask)
        if found is not None:
            return found / path.relative_to(here)
    return path


def _query_disk(path: Path, ask: Callable[[int], bytes]) -> Path | None:
    """The disk's name of a file or folder; None if it is neither, cannot be opened, or has an unrelated name."""
    try:
        if stat.S_IFMT(path.lstat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            return None
        descriptor = os.open(path, _FLAGS)
        try:
            found = Path(os.fsdecode(ask(descriptor).partition(b"\0")[0]))
        finally:
            os.close(descriptor)
    except OSError:
        return None
    # For a file with two names (a hard link) the system may return the other one.
    return found if _folded(found) == _folded(path) else None


def _folded(path: Path) -> str:
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", str(path)).casefold())


def path_of(uri: str) -> Path | None:
    """The path of `uri` (of a cell, its notebook's), bytes that are not UTF-8 as surrogates; None if unusable."""
    text = path_text(uri, windows=os.name == "nt")
    return None if text is None else Path(text)


def path_text(uri: str, *, windows: bool) -> str | None:
    """The same as text, for either family of systems.

    On Windows a slash precedes the drive's letter, whose colon may be escaped, and a host other than this one is a
    share's (RFC 8089, appendix E).
    """
    try:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="surrogateescape")
        os.fsencode(path)
    except ValueError:
        return None
    on_disk = parts.scheme.lower() in _ON_DISK and path.startswith("/")
    if not on_disk or "\0" in path or len(path) > MAX_PATH_CHARACTERS:
        return None
    if not windows:
        return path
    if parts.netloc and parts.netloc.lower() != "localhost":
        return f"//{unquote(parts.netloc)}{path}"
    return path[1:] if _DRIVE.match(path) else path


def uri_key(uri: str) -> tuple[str, ...]:
    """Equal for all spellings of a URI: escaped or not, with a drive's letter in either case, with `localhost`."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return (uri,)
    host, path = unquote(parts.netloc).lower(), unquote(parts.path, errors="surrogateescape")
    if _DRIVE.match(path):
        path = path[:2].lower() + path[2:]
    return parts.scheme, "" if host == "localhost" else host, path, unquote(parts.query), unquote(parts.fragment)


def uri_of(path: Path) -> str:
    """The `file:` URI of an absolute path."""
    return path.as_uri()
