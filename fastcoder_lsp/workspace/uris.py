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
    text = path_text(uri, windows=os.name == "nt")
    return None if text is None else Path(text)


def path_text(uri: str, *, windows: bool) -> str | None:
    """The same as text, for either family of systems.

    On Windows a drive's letter stands behind a slash that is none of the path's, its colon escaped or not, and a host
    that is not this one is a share's (RFC 8089, appendix E).
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
    if not windows:
        return path
    if parts.netloc and parts.netloc.lower() != "localhost":
        return f"//{unquote(parts.netloc)}{path}"
    return path[1:] if _DRIVE.match(path) else path


def uri_of(path: Path) -> str:
    """The `file:` URI of an absolute path."""
    return path.as_uri()
