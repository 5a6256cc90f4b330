"""Where this program keeps its own files."""

import os
from pathlib import Path

from fastcoder_lsp.errors import UsageError


def cache_folder() -> Path:
    """The folder for everything that can be made again (models, conversions, indexes); it may not exist yet.

    The environment variable FASTCODER_CACHE overrides the platform's own cache folder.

    Raises:
        UsageError: the environment names it by a relative path. It holds compiled code, and may not lie in whatever
            folder the program is started in.
    """
    import platformdirs  # noqa: PLC0415 absent where a bare checkout is timed on a GPU

    override = os.environ.get("FASTCODER_CACHE")
    try:
        folder = Path(override).expanduser() if override else platformdirs.user_cache_path("fastcoder-lsp")
    except RuntimeError as error:  # a user whom the system does not know, without HOME
        raise UsageError(
            "nobody knows where the cache folder is: there is no home folder", "Set FASTCODER_CACHE to a whole path."
        ) from error
    if not folder.is_absolute():
        raise UsageError(
            f"the cache folder is named by a relative path: {folder}",
            "Set FASTCODER_CACHE (or XDG_CACHE_HOME) to a whole path.",
        )
    return folder
