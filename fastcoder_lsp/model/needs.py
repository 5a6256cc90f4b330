"""Packages that only some commands need, with the command that installs them."""

import re
import sys
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from fastcoder_lsp.errors import InstallationError
from fastcoder_lsp.model.machine import gpu_memory_bytes

_CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own index of builds a tenth of the size; pip prefers them, for their version is the same with a suffix."""


def require_packages(purpose: str, *names: str) -> None:
    """Check that the packages `names` are installed; imports none of them.

    Raises:
        InstallationError: some are missing.
    """
    if lacking := missing_packages(*names):
        raise InstallationError(
            f"{purpose} needs {' and '.join(lacking)}, which this installation lacks", f"Run: {install_line(*lacking)}"
        )


def missing_packages(*names: str) -> list[str]:
    """The missing ones of the packages; imports none of them."""
    return [name for name in names if not _installed(name)]


def install_line(*names: str) -> str:
    """A command that installs packages beside this program, in usable versions, torch in its smallest build."""
    small = "torch" in names and sys.platform == "linux" and not gpu_memory_bytes()
    options = [f"--extra-index-url {_CPU_BUILDS}"] if small else []
    return " ".join([f"{sys.executable} -m pip install", *options, *(_bounded(name) for name in names)])


def _bounded(name: str) -> str:
    """`name` with the versions that this package requires, quoted for a shell."""
    try:
        ours = requires("fastcoder-lsp") or []
    except PackageNotFoundError:  # a bare checkout
        ours = []
    found = next((one for one in ours if re.match(rf"{re.escape(name)}(?![\w.-])", one)), name).partition(";")[0]
    return found if found == name else f'"{found.strip()}"'


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
