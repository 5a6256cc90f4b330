"""Where this program keeps its own files."""

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """The folder for everything that can be made again (models, conversions, indexes); it may not exist yet.

    The environment variable FASTCODER_CACHE overrides the platform's own cache folder.
    """
    override = os.environ.get("FASTCODER_CACHE")
    return Path(override).expanduser().absolute() if override else platformdirs.user_cache_path("fastcoder-lsp")
