"""Where a host is found: a name made of the user's folder, the build and what the model is made from."""

import contextlib
import hashlib
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fastcoder_lsp import __version__
from fastcoder_lsp.config import Settings, cache_folder, kernels_folder, runtime_folders
from fastcoder_lsp.config.surroundings import computing_environment
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host.listening import Address
from fastcoder_lsp.host.loopback import LoopbackAddress
from fastcoder_lsp.host.made_from import model_part
from fastcoder_lsp.host.private_folder import private_folder
from fastcoder_lsp.host.unix import UnixAddress

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
