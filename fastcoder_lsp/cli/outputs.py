"""Files that commands write: looked at before the work that ends in them."""

import os
from pathlib import Path

from fastcoder_lsp.errors import UsageError


def require_writable(path: Path | None) -> None:
    """See that a file can be written to `path`; None names no file.

    Raises:
        UsageError: it cannot.
    """
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{path} is a directory", "Name a file.")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder", "Make the folder first, or name a file in another one.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path} is not writable", "Name a file in a folder that is.")
