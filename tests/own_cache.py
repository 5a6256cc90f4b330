"""Cache folders of tests' own, with the models of the machine."""

import shutil
from pathlib import Path

from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.core.files import private_folder

_SHARED = ("models", "int8", "int4", "tokenizers", "costs", "tables")
"""Take long to make, and are the same for every test."""


def own_cache(folder: Path) -> Path:
    """Make `folder` a cache folder that shares models, conversions and times of steps with the one in use.

    Texts for the index and times of use that tests send to a server stay in it.
    """
    private_folder(folder)
    for name in _SHARED:
        (folder / name).symlink_to(private_folder(cache_folder() / name))
    if (cache_folder() / "tuning").is_dir():
        shutil.copytree(cache_folder() / "tuning", folder / "tuning", ignore=shutil.ignore_patterns("*.tmp"))
    return folder
