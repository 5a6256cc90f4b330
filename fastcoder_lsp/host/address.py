"""Where a host is found: a name made of the user's folder, the build and what the model is made from.

The folder is the user's alone. Others may have made it before us, or a link in its place: such a folder is not taken,
and nothing in it is touched.
"""

import contextlib
import hashlib
import os
import socket
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from fastcoder_lsp import __version__
from fastcoder_lsp.config import Settings, cache_folder, kernels_folder, runtime_folders
from fastcoder_lsp.config.surroundings import computing_environment
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host.listening import Address, LoopbackAddress, UnixAddress
from fastcoder_lsp.host.made_from import model_part

LONGEST_PATH: Final = 103
"""Bytes of a Unix socket's path that every system knows."""
_UNIX: Final = hasattr(socket, "AF_UNIX")


def address_of(settings: Settings, version: str, folders: Sequence[Path] | None = None) -> Address:
    """The address of the host for these settings, in this user's own folder.

    Args:
        settings: of the model.
        version: of the front (`build`).
        folders: where it may lie, the best first; None: where `config.runtime_folders` says.

    Raises:
        UsageError: there is no folder that only this user may write to.
    """
    return named_address(runtime_folder(folders), key_of(settings, version))


def named_address(folder: Path, key: str) -> Address:
    """The address of that name in a private folder."""
    return UnixAddress(folder, key) if _UNIX else LoopbackAddress(folder, key)


def runtime_folder(folders: Sequence[Path] | None = None) -> Path:
    """The first folder that only this user may write to, and where a socket's name is not too long.

    Raises:
        UsageError: there is none.
    """
    among = runtime_folders() if folders is None else folders
    short = [folder for folder in among if len(os.fsencode(folder / f"{'k' * 16}.sock")) <= LONGEST_PATH or not _UNIX]
    if not short:
        raise UsageError(
            "the path of every possible socket folder is too long", "Set XDG_RUNTIME_DIR to a shorter one."
        )
    return private_folder(short)


def key_of(settings: Settings, version: str) -> str:
    """The name of a host: build, folders of ours, what its model is made from, and what of the environment decides.

    It begins with `cache_part`.
    """
    parts = [version, str(kernels_folder()), *map(repr, model_part(settings)), *computing_environment()]
    return cache_part() + _hash("\n".join(parts), 10)


def cache_part() -> str:
    """How the names of all hosts begin that use this cache folder.

    The folder of their sockets may hold those of other cache folders, too: in the system's folder for temporary files
    it is the same one for all of a user's homes.
    """
    return _hash(str(cache_folder()), 6)


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def build() -> str:
    """The version of what is installed: its number, and a hash of its files' sizes and times."""
    root = Path(__file__).parents[1]
    facts = hashlib.sha256(sys.version.encode())
    for path in sorted(root.rglob("*.py")):
        with contextlib.suppress(OSError):
            found = path.stat()
            facts.update(f"{path.relative_to(root)} {found.st_size} {found.st_mtime_ns}\n".encode())
    return f"{__version__}+{facts.hexdigest()[:16]}"


def keep_known(address: Address) -> None:
    """Have the system see that a host's files are used.

    macOS deletes from its folder for passing files what nobody touched for three days, some Linux systems for ten: the
    name of a socket that is listened to, and of a lock that is held, with it the knowledge that there is a host.
    """
    with contextlib.suppress(OSError):  # no more files may be open, which passes
        for path in address.folder.glob(f"{address.key}.*"):
            with contextlib.suppress(OSError):
                os.utime(path)


def lock_path(address: Address, what: str) -> Path:
    """The file of a lock on an address: of "spawn", held by who starts a host, or "host", held by the host.

    It stays, empty, when the lock is given back: if its name were taken away while somebody waits for the lock, the
    next one would make another file, and two would hold it. There are two for each kind of host; systems empty the
    folder when the user logs out.
    """
    return address.folder / f"{address.key}.{what}.lock"


_NOBODY_ELSE = 0o077
_OTHERS_WRITE = 0o022


def private_folder(candidates: Iterable[Path]) -> Path:
    """The first of `candidates` that is the user's alone, made where there is none.

    Raises:
        UsageError: none is; the text says why.
    """
    refused = []
    for folder in candidates:
        why = _refusal(folder)
        if why is None:
            return folder
        refused.append(f"{folder}: {why}")
    raise UsageError(
        f"no folder is private to this user ({'; '.join(refused)})",
        "Fix or remove one of them, or set XDG_RUNTIME_DIR.",
    )


def _refusal(folder: Path) -> str | None:
    """Why it is not taken; None where it is."""
    try:
        if not folder.parent.exists():
            folder.parent.mkdir(mode=0o700, parents=True)
        if os.name == "nt":  # below the user's profile, which nobody else may write to
            folder.mkdir(exist_ok=True)
            return None
        above = folder.parent.stat()
        if above.st_uid not in (0, os.geteuid()) or (
            above.st_mode & _OTHERS_WRITE and not above.st_mode & stat.S_ISVTX
        ):
            return "other users can replace it"
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError as error:
        return error.strerror or type(error).__name__
    if not stat.S_ISDIR(facts.st_mode):
        return "it is a link, or not a folder"
    if facts.st_uid != os.geteuid():
        return "it belongs to another user"
    if facts.st_mode & _OTHERS_WRITE:
        return "other users can write to it"
    try:
        if facts.st_mode & _NOBODY_ELSE:
            folder.chmod(0o700)
    except OSError as error:
        return error.strerror or type(error).__name__
    return None if os.access(folder, os.W_OK | os.X_OK) else "you cannot write to it"
