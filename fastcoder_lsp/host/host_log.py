"""Where a host's words go: one file of the user's own in the cache folder, and the one before it.

Owns the file's place and size. The host's standard output and error lead there, so that what a library or the system
says at the end is kept too.
"""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from fastcoder_lsp.config import cache_folder

MOST_BYTES: Final = 2_000_000
"""Of the file; older lines are in the file before it."""


def log_path() -> Path:
    """The file, which may not exist.

    Raises:
        UsageError: nobody knows where the cache folder is.
    """
    return cache_folder() / "host" / "host.log"


def older(path: Path) -> Path:
    """The file before."""
    return path.with_suffix(".old.log")


def open_log() -> BinaryIO:
    """The file, to append to; a long one becomes the one before, and so does one that another user has made.

    Raises:
        OSError: it cannot be written.
        UsageError: nobody knows where the cache folder is.
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


def turn_over() -> None:
    """Start a new file where this process' own has become long; on errors the old one is kept."""
    with suppress(OSError):
        if log_path().stat().st_size > MOST_BYTES:
            with open_log() as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)


def log_to_stderr() -> None:
    """Log this package's messages there, from the level "info" on; they never quote the user's code."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    log = logging.getLogger("fastcoder_lsp")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
