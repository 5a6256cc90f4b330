"""Chooses the folder for machine code: one that only the user can write to.

Machine code read from the folder is executed. Therefore the user must own the folder, other users must have no access,
and they must not be able to replace a folder above it. If the configured folder does not qualify (a read-only home, or
one that a group can write to), a folder in the system's temporary folder is used; if that fails too, none.
"""

import logging
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

logger = logging.getLogger(__name__)

_VERSIONS = 3
"""Earlier versions to keep, the latest ones; each takes about 2 MB."""


@dataclass(frozen=True, slots=True)
class TrustedFolder:
    """The folder, or None if no folder is safe; `note`: why it is not the configured one."""

    folder: Path | None
    note: str = ""


@cache
def trusted_folder(wanted: Path) -> TrustedFolder:
    """The folder for machine code, created if it is missing."""
    reason = _unfit(wanted)
    if reason is None:
        return TrustedFolder(wanted)
    temporary = Path(tempfile.gettempdir())
    instead = temporary / f"fastcoder-lsp-{_user()}" / "kernels"
    # If no temporary folder is writable, Python falls back to the current folder, which is no place for machine code.
    if temporary != Path.cwd() and _unfit(instead) is None:
        return TrustedFolder(instead, f"compiled kernels are kept in {instead}: {reason}")
    return TrustedFolder(None, f"kernels are compiled at every start: {reason}")


def mine(facts: os.stat_result) -> bool:
    """Whether the user owns a file or folder, and other users cannot write to it."""
    return sys.platform == "win32" or (facts.st_uid == os.geteuid() and not facts.st_mode & 0o022)


def tidy(used: Path) -> None:
    """Delete the folders of earlier versions beside `used`, except the latest few."""
    with suppress(OSError):
        versions = sorted(
            (entry for entry in used.parent.iterdir() if entry != used and entry.is_dir() and not entry.is_symlink()),
            key=lambda entry: entry.stat().st_mtime,
        )
        for version in versions[:-_VERSIONS]:
            shutil.rmtree(version, ignore_errors=True)
        outdated = [file for file in used.parent.iterdir() if file.suffix in (".kernel", ".partial")]
        for file in outdated:  # the first version kept its files here
            file.unlink()
        if outdated:
            logger.warning("deleted %d compiled kernels of an earlier version in %s", len(outdated), used.parent)


def _unfit(folder: Path) -> str | None:
    """The reason why machine code cannot be kept in `folder`, or None."""
    try:
        for above in (*reversed(folder.parents), folder):
            if not above.is_dir():
                above.mkdir(mode=0o700, exist_ok=True)
        if sys.platform != "win32":
            _close(folder)
            for above in {*folder.parents, *Path(os.path.realpath(folder)).parents}:
                if _exchangeable(above):
                    return f"other users can change {above}"
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"{folder}: {error.strerror or error}"


def _close(folder: Path) -> None:
    """Make a folder private; delete its content if other users could write to it.

    Raises:
        OSError: the folder belongs to another user.
    """
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise PermissionError(0, "it belongs to another user")
    if facts.st_mode & 0o077:
        folder.chmod(0o700)
    if facts.st_mode & 0o022:
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def _exchangeable(folder: Path) -> bool:
    """Whether a user other than root and this one can replace an entry of `folder`."""
    facts = folder.lstat()
    if facts.st_uid not in (0, os.geteuid()):
        return True
    if stat.S_ISLNK(facts.st_mode) or facts.st_mode & stat.S_ISVTX:
        return False
    return bool(facts.st_mode & 0o002) or (bool(facts.st_mode & 0o020) and not _private_group(facts.st_gid))


def _private_group(group: int) -> bool:
    """Whether a group is root's, or the user's own group, which many systems create for each user."""
    import grp  # noqa: PLC0415 missing on Windows
    import pwd  # noqa: PLC0415

    if group == 0:
        return True
    try:
        entry, name = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return entry.gr_name == name and set(entry.gr_mem) <= {name}


def _user() -> str:
    return str(os.geteuid()) if sys.platform != "win32" else "user"
