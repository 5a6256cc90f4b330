r"""Paths of more letters than Windows takes by default, written so that it takes them.

Owns the form: `\\?\` before a path by a drive's letter, `\\?\UNC\` before a share's; what follows is taken as it
stands, and may have 32,767 letters. Only what opens, lists or looks at a file writes a path so; everything else keeps
and compares it as people do. (Microsoft: Naming Files, Paths, and Namespaces; Maximum Path Length Limitation.)
"""

import os
from pathlib import Path, PureWindowsPath
from typing import Final

SHORT: Final = 247
"""Letters of a folder's path that every Windows takes; a file in it may have twelve more."""
_PREFIX, _SHARE = "\\\\?\\", "\\\\"


def long_form(path: PureWindowsPath) -> str:
    """An absolute path as Windows opens it, however long it is."""
    text = str(path)
    if len(text) <= SHORT or text.startswith(_PREFIX) or not path.is_absolute():
        return text
    return f"{_PREFIX}UNC\\{text[len(_SHARE) :]}" if text.startswith(_SHARE) else _PREFIX + text


def openable(path: Path) -> Path:
    """`path` as this system opens it."""
    return Path(long_form(PureWindowsPath(path))) if os.name == "nt" else path
