"""Reads a file of the cache folder, which an earlier version or a failing disk may have left."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

logger = logging.getLogger(__name__)

Content = TypeVar("Content")


def read_cached(path: Path, parse: Callable[[bytes], Content]) -> Content | None:
    """The content of a cache file; None if there is none, or if it is unusable, which is logged.

    Args:
        path: the file.
        parse: makes the content of the file's bytes; any exception means that they are unusable.
    """
    try:
        return parse(path.read_bytes())
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001  zipfile and numpy raise zlib.error, struct.error, TokenError and more
        logger.warning("%s is not used, because it is damaged or of another version: %s", path, error)
        return None
