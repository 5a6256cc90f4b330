"""Where machine code is kept: a folder that nobody but the user can write to, or none.

Owns that decision. What is read from the folder is run, so it is taken only if it is ours, closed to all others, and
no folder above it can be exchanged by somebody else. Where the wanted one is not to be had (a home that cannot be
written, or that a group shares), one among the system's temporary files; where that is not either, none.
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
"""Kept beside the one in use, the latest; a version takes about 2 MB."""


@dataclass(frozen=True, slots=True)
class TrustedFolder:
    """The folder, None where there is none that can be trusted; `note`: why it is not the one that was wanted."""

    folder: Path | None
    note: str = ""


@cache
def trusted_folder(wanted: Path) -> TrustedFolder:
    """The folder to keep machine code in: made where it is missing."""
    reason = _unfit(wanted)
    if reason is None:
        return TrustedFolder(wanted)
    temporary = Path(tempfile.gettempdir())
    instead = temporary / f"fastcoder-lsp-{_user()}" / "kernels"
    # Where nothing else can be written, Python takes the folder that it was started in: no place for code that is run.
    if temporary != Path.cwd() and _unfit(instead) is None:
        return TrustedFolder(instead, f"compiled kernels are kept in {instead}: {reason}")
    return TrustedFolder(None, f"kernels are compiled at every start: {reason}")


def mine(facts: os.stat_result) -> bool:
    """Whether a file or folder is the user's own, and nobody else can write to it."""
    return sys.platform == "win32" or (facts.st_uid == os.geteuid() and not facts.st_mode & 0o022)


def tidy(used: Path) -> None:
    """Delete what versions before left beside the folder of this one: all but the latest few."""
    with suppress(OSError):
        versions = sorted(
            (entry for entry in used.parent.iterdir() if entry != used and entry.is_dir() and not entry.is_symlink()),
            key=lambda entry: entry.stat().st_mtime,
        )
        for version in versions[:-_VERSIONS]:
            shutil.rmtree(version, ignore_errors=True)
        outdated = [file for file in used.parent.iterdir() if file.suffix in (".kernel", ".partial")]
        for file in outdated:  # as the first version laid them out
            file.unlink()
        if outdated:
            logger.warning("deleted %d compiled kernels of an earlier version in %s", len(outdated), used.parent)


def _unfit(folder: Path) -> str | None:
    """Why machine code cannot be kept in `folder`; None where it can."""
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
    """See that only the user can enter; what others could write until now is thrown away.

    Raises:
        OSError: it is not ours.
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
    """Whether somebody else than the user and the system can put something else in the place of what is in `folder`."""
    facts = folder.lstat()
    if facts.st_uid not in (0, os.geteuid()):
        return True
    if stat.S_ISLNK(facts.st_mode) or facts.st_mode & stat.S_ISVTX:
        return False
    return bool(facts.st_mode & 0o002) or (bool(facts.st_mode & 0o020) and not _private_group(facts.st_gid))


def _private_group(group: int) -> bool:
    """Whether a group has no other member than the user, as every user of many systems has one; or is the system's."""
    import grp  # noqa: PLC0415 not there on Windows
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
