"""The address of a host: a name in a private folder, made of the build and the settings that the model depends on.

If another user has made the folder first, or put a link in its place, it is refused, and nothing in it is touched.
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
from fastcoder_lsp.config.environment import computing_environment, missing_packages
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host.listening import Address, LoopbackAddress, UnixAddress

LONGEST_PATH: Final = 103  # longest path of a Unix socket, in bytes, that every system allows
_UNIX: Final = hasattr(socket, "AF_UNIX")
_HEAVY: Final = ("torch", "transformers", "llama_cpp")
_LIMITS: Final = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_FSIZE")
MODEL: Final = (
    *("model", "engine", "threads", "context_tokens", "gpu_memory_percent", "gpu_strict", "memory_kv_mb"),
    *("llama_strict", "draft_models", "draft_memory_mb"),
)
"""Settings of the shared model: fronts that differ in one of them have separate hosts."""
FRONT: Final = ("drafter", "index_enabled", "context_enabled", "edits_model")  # settings of a front's runtime
REMOTE: Final = (
    *("remote_url", "remote_allow", "remote_kind", "remote_model", "remote_template", "remote_key_file"),
    *("remote_key_env", "remote_fallback"),
)
"""Settings of a remote server in the model's place."""


def address_of(settings: Settings, version: str, folders: Sequence[Path] | None = None) -> Address:
    """The address of the host for these settings, in this user's own folder.

    `version`: the front's (`build`). `folders`: candidates for the folder, the best first; None: those of
    `config.runtime_folders`. Raises UsageError if none is writable by this user alone.
    """
    return named_address(runtime_folder(folders), key_of(settings, version))


def named_address(folder: Path, key: str) -> Address:
    """The address with the name `key` in a private folder."""
    return UnixAddress(folder, key) if _UNIX else LoopbackAddress(folder, key)


def runtime_folder(folders: Sequence[Path] | None = None) -> Path:
    """The first folder that only this user may write to, and short enough for a socket's path; else UsageError."""
    among = runtime_folders() if folders is None else folders
    short = [folder for folder in among if len(os.fsencode(folder / f"{'k' * 16}.sock")) <= LONGEST_PATH or not _UNIX]
    if not short:
        raise UsageError(
            "the path of every possible socket folder is too long", "Set XDG_RUNTIME_DIR to a shorter one."
        )
    return private_folder(short)


def key_of(settings: Settings, version: str) -> str:
    """The name of a host: `cache_part`, and a hash of build, folders, the model's settings, environment and limits."""
    parts = [version, str(kernels_folder()), *map(repr, model_part(settings)), *computing_environment(), *_limits()]
    return cache_part() + _hash("\n".join(parts), 10)


def cache_part() -> str:
    """The prefix of the names of all hosts that use this cache folder.

    Below the system's folder for temporary files, all homes of a user share the folder of sockets.
    """
    return _hash(str(cache_folder()), 6)


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def build(root: Path = Path(__file__).parents[1]) -> str:
    """The installed version: its number, and a hash of its code and of the packages that some engines need.

    Two installations of one version share a process, whenever they were installed and with which Python.
    """
    facts = hashlib.sha256(repr(missing_packages(*_HEAVY)).encode())
    for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()):
        with contextlib.suppress(OSError):
            facts.update(f"{path.relative_to(root).as_posix()} ".encode())
            facts.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{__version__}+{facts.hexdigest()[:16]}"


def _limits() -> list[str]:
    """The limits of this process that a host inherits for good, as lines; none where they are as usual.

    A process under such a limit may be unable to serve. Only those have it who are under the same limit.
    """
    if sys.platform == "win32":
        return []
    import resource  # noqa: PLC0415 not on Windows

    hard = {name: resource.getrlimit(getattr(resource, name))[1] for name in _LIMITS if hasattr(resource, name)}
    return [f"{name}={most}" for name, most in hard.items() if most != resource.RLIM_INFINITY]


def keep_known(address: Address) -> None:
    """Touch a host's files, so that the system does not clean them up.

    macOS deletes temporary files that were not touched for three days, some Linux systems after ten. Without the names
    of its socket and its lock, a running host could not be found.
    """
    with contextlib.suppress(OSError):  # too many open files, which passes
        for path in address.folder.glob(f"{address.key}.*"):
            with contextlib.suppress(OSError):
                os.utime(path)


def lock_path(address: Address, what: str) -> Path:
    """The file of a lock on an address: "spawn", held while a process starts a host, or "host", held by the host.

    The empty file stays when the lock is released: if it were deleted while a process waits for the lock, a third
    process would make another file, and two would hold the lock.
    """
    return address.folder / f"{address.key}.{what}.lock"


_NOBODY_ELSE = 0o077
_OTHERS_WRITE = 0o022


def private_folder(candidates: Iterable[Path]) -> Path:
    """The first of `candidates` that belongs to the user alone; created if missing; UsageError says why none does."""
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
    try:
        if not folder.parent.exists():
            folder.parent.mkdir(mode=0o700, parents=True)
        if os.name == "nt":  # below the user's profile, which others cannot write to
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


def model_part(settings: Settings) -> tuple[object, ...]:
    """The settings that a loaded model depends on."""
    return tuple(getattr(settings, name) for name in MODEL)


def front_part(settings: Settings) -> tuple[object, ...]:
    """The settings that a front's runtime depends on."""
    return tuple(getattr(settings, name) for name in FRONT)


def place_part(settings: Settings) -> tuple[object, ...]:
    """The settings that place the model: in this process, in the shared one, or on a remote server."""
    remote = tuple(getattr(settings, name) for name in REMOTE) if settings.remote_url else ()
    return (settings.host_enabled, *remote)


def made_from(settings: Settings) -> tuple[object, ...]:
    """All settings that determine a front's model and its place."""
    return (*model_part(settings), *front_part(settings), *place_part(settings))
