"""The folders of this program's own files."""

import os
import tempfile
from pathlib import Path

from fastcoder_lsp.errors import UsageError


def cache_folder() -> Path:
    """The folder for files that can be made again (models, conversions, indexes); it may not exist yet.

    The environment variable FASTCODER_CACHE overrides the platform's own cache folder.

    Raises:
        UsageError: the environment names a relative path. The folder holds compiled code, so it must not depend on the
            working directory.
    """
    import platformdirs  # noqa: PLC0415 absent where a bare checkout is timed on a GPU

    override = os.environ.get("FASTCODER_CACHE")
    try:
        folder = Path(override).expanduser() if override else platformdirs.user_cache_path("fastcoder-lsp")
    except RuntimeError as error:  # an unknown user without HOME
        raise UsageError(
            "no cache folder: this user has no home folder", "Set FASTCODER_CACHE to an absolute path."
        ) from error
    if not folder.is_absolute():
        raise UsageError(
            f"the cache folder is a relative path: {folder}",
            "Set FASTCODER_CACHE (or XDG_CACHE_HOME) to an absolute path.",
        )
    return folder


def usage_folder() -> Path:
    """The folder of the counts for `report`; it may not exist yet.

    The environment variable FASTCODER_USAGE overrides it.

    Raises:
        UsageError: as `cache_folder`.
    """
    override = os.environ.get("FASTCODER_USAGE")
    return Path(override).expanduser() if override else cache_folder() / "usage"


def runtime_folders() -> tuple[Path, ...]:
    """Folders for sockets and locks, which a restart of the machine may delete; the best first. None may exist yet.

    The caller must check that the folder belongs to the user, because others may write beside the second one.

    Raises:
        UsageError: the cache folder is a relative path.
    """
    named = os.environ.get("XDG_RUNTIME_DIR")
    own = os.geteuid() if os.name != "nt" else 0
    system = (Path(named) / "fastcoder-lsp",) if named and Path(named).is_absolute() else ()
    shared = () if os.name == "nt" else (Path(tempfile.gettempdir()) / f"fastcoder-lsp-{own}",)
    return (*system, *shared, cache_folder() / "run")


def kernels_folder() -> Path:
    """The folder for compiled machine code; it may not exist yet.

    The environment variable FASTCODER_KERNELS overrides the folder below the cache: for images with compiled code, and
    for tests that empty the cache.

    Raises:
        UsageError: the environment names a relative path, and this program runs the folder's contents.
    """
    override = os.environ.get("FASTCODER_KERNELS")
    if not override:
        return cache_folder() / "kernels"
    folder = Path(override).expanduser()
    if not folder.is_absolute():
        raise UsageError(f"FASTCODER_KERNELS is a relative path: {folder}", "Set it to an absolute path.")
    return folder
