"""How much memory this process can still have: the machine's, its container's, its own limit, whichever is least.

Owns that sum. Inside a container the machine's free memory is told, which the container may not use: who relied on it
would be ended by the system without a word.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from fastcoder_lsp.errors import ResourceError

_CGROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60


def available_bytes() -> int:
    """Bytes that can be taken now."""
    return max(0, min((psutil.virtual_memory().available, *_own_limit(), *_container())))


def require_memory(needed: int) -> None:
    """See that a model that takes `needed` bytes fits.

    Raises:
        ResourceError: it does not.
    """
    available = available_bytes()
    if needed > available:
        raise ResourceError(
            f"the model needs {needed / 1e9:.1f} GB of memory; {available / 1e9:.1f} GB are free",
            "Close other programs, or use a smaller model or context.",
        )


def _own_limit() -> Iterator[int]:
    """What the limit on this process's address space leaves (`ulimit -v`)."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 not there on Windows

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        yield limit - psutil.Process().memory_info().vms


def _container(root: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """What each control group above this process leaves, in both versions of Linux's way."""
    with suppress(OSError):
        for line in own.read_text(encoding="utf-8", errors="replace").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                yield from _left(root, path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                yield from _left(root / "memory", path, *names)


def _left(root: Path, path: str, limit: str, used: str, cached: str) -> Iterator[int]:
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        if folder.is_relative_to(root) or folder == root:
            with suppress(OSError, ValueError):
                most = int((folder / limit).read_text())
                if most < _UNLIMITED:
                    rows = dict(row.split() for row in (folder / "memory.stat").read_text().splitlines())
                    yield most - int((folder / used).read_text()) + int(rows.get(cached, 0))
