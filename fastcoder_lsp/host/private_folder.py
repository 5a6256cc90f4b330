"""A folder that is the user's alone, for the socket, the lock and the token of a host.

Owns the look at who may write there. Others may have made it before us, or a link in its place: such a folder is not
taken, and nothing in it is touched.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from fastcoder_lsp.errors import UsageError

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


def is_own(path: Path, kind: int) -> bool:
    """Whether `path` is of this kind (`stat.S_IFSOCK`, …), no link to one, and the user's."""
    try:
        facts = path.lstat()
    except OSError:
        return False
    return stat.S_IFMT(facts.st_mode) == kind and (os.name == "nt" or facts.st_uid == os.geteuid())


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
