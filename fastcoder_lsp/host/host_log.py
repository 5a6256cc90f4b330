"""The host's log: a private file in the cache folder, and its predecessor.

The host's standard output and error are redirected to it, so that it also keeps what a library or the system prints at
the end.
"""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from fastcoder_lsp.config import cache_folder

MOST_BYTES: Final = 2_000_000  # largest size of the file; older lines are in its predecessor


def log_path() -> Path:
    """The log file's path; the file may not exist. Raises UsageError if the cache folder is unknown."""
    return cache_folder() / "host" / "host.log"


def older(path: Path) -> Path:
    """The path of the predecessor."""
    return path.with_suffix(".old.log")


def open_log() -> BinaryIO:
    """Open the log for appending; a long file, and one that another user has made, becomes the predecessor first.

    Raises OSError if it cannot be written, UsageError if the cache folder is unknown.
    """
    path = log_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):
        if path.stat().st_size > MOST_BYTES:
            path.replace(older(path))
    try:
        return _opened(path)
    except PermissionError:
        path.replace(older(path))
        return _opened(path)


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


def rotate() -> None:
    """Start a new file if this process's own has become long; keeps the old one on errors."""
    with suppress(OSError):
        if log_path().stat().st_size > MOST_BYTES:
            with open_log() as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)


def log_to_stderr() -> None:
    """Log this package's messages to stderr from level "info"; they never quote the user's code."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    log = logging.getLogger("fastcoder_lsp")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
