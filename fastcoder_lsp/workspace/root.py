"""Which workspace a file is in, for a command that no editor tells.

Owns that rule: the nearest folder above that is under version control or holds our settings file; never the home folder
or a whole disk, which an index must not be made of by accident.
"""

import os
from pathlib import Path
from typing import Final

from fastcoder_lsp.workspace.folders import SETTINGS_FILE

_MARKS: Final = (".git", ".hg", ".svn", ".jj", SETTINGS_FILE)


def workspace_of(path: Path, home: Path) -> Path | None:
    """The workspace folder that holds the file at `path`; None where it is in none."""
    for folder in path.absolute().parents:
        if folder in (home, *home.parents):
            return None
        if any(os.path.lexists(folder / mark) for mark in _MARKS):
            return folder
    return None
