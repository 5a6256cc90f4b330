"""Document URIs and the paths that they name."""

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

_ON_DISK = ("file", "vscode-notebook-cell", "vscode-notebook")
MAX_LETTERS = 32_768
"""No system knows longer paths, and looking for one would take long."""
_DRIVE = re.compile(r"/[A-Za-z]:")


def path_of(uri: str) -> Path | None:
    """The absolute path behind `uri` (of a notebook's cell: the notebook's); None for what is on no disk.

    Escaped bytes that are no UTF-8 are those of a name that is none; what no system could open names nothing.
    """
    try:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="surrogateescape")
        os.fsencode(path)
    except ValueError:
        return None
    on_disk = parts.scheme.lower() in _ON_DISK and path.startswith("/")
    if not on_disk or "\0" in path or len(path) > MAX_LETTERS:
        return None
    if os.name == "nt":
        return Path(f"//{parts.netloc}{path}" if parts.netloc else path[1:] if _DRIVE.match(path) else path)
    return Path(path)


def uri_of(path: Path) -> str:
    """The `file:` URI of an absolute path."""
    return path.as_uri()
