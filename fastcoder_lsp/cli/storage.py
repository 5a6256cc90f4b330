"""What commands say where the cache's disk does not take, or give, what they want of it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastcoder_lsp.errors import ResourceError

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))


@contextmanager
def on_disk(what: str, folder: Path) -> Iterator[None]:
    """Turn what the system says of a folder's disk into words for a person.

    Raises:
        ResourceError: instead of an OSError.
    """
    try:
        yield
    except BrokenPipeError:  # that is no disk, but who read what we print
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        hint = (
            "Free some space on that disk. No partial files were left there."
            if error.errno in _FULL
            else "Make it writable for you, or set FASTCODER_CACHE to another folder."
        )
        raise ResourceError(f"cannot store {what} in {folder}: {reason}", hint) from error
