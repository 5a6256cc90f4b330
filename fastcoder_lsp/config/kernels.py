"""Where compiled functions are kept."""

import os
from pathlib import Path

from fastcoder_lsp.config.folders import cache_folder
from fastcoder_lsp.errors import UsageError


def kernels_folder() -> Path:
    """The folder for machine code that we compiled; it may not exist yet.

    The environment variable FASTCODER_KERNELS overrides the one in the cache folder: for an image that comes with
    compiled code, and for tests that empty the cache.

    Raises:
        UsageError: the environment names it by a relative path; what is in it is run.
    """
    override = os.environ.get("FASTCODER_KERNELS")
    if not override:
        return cache_folder() / "kernels"
    folder = Path(override).expanduser()
    if not folder.is_absolute():
        raise UsageError(f"FASTCODER_KERNELS is a relative path: {folder}", "Set it to an absolute path.")
    return folder
