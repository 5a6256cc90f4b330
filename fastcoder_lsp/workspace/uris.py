"""Document URIs and the paths that they name."""

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

_ON_DISK = ("file", "vscode-notebook-cell", "vscode-notebook")
_DRIVE = re.compile(r"/[A-Za-z]:")


def path_of(uri: str) -> Path | None:
    """The absolute path behind `uri` (of a notebook's cell: the notebook's); None for what is on no disk."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme.lower() not in _ON_DISK or not path.startswith("/") or "\0" in path:
        return None
    if os.name == "nt":
        return Path(f"//{parts.netloc}{path}" if parts.netloc else path[1:] if _DRIVE.match(path) else path)
    return Path(path)


def uri_of(path: Path) -> str:
    """The `file:` URI of an absolute path."""
    return path.as_uri()
