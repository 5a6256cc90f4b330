"""Packages that only some commands need, asked for by those alone, with the line that installs them."""

import sys
from importlib.util import find_spec

from fastcoder_lsp.errors import InstallationError


def require_packages(purpose: str, *names: str) -> None:
    """See that the packages `names` are installed; imports none of them.

    Raises:
        InstallationError: some are not.
    """
    if lacking := [name for name in names if not _installed(name)]:
        raise InstallationError(
            f"{purpose} needs {' and '.join(lacking)}, which this installation lacks",
            f"Run: {sys.executable} -m pip install {' '.join(lacking)}",
        )


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
