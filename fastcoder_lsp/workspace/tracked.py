"""The files that git tracks, asked of git itself where it is installed."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

_TIMEOUT_S = 20.0


def tracked_files(root: Path) -> Iterator[Path]:
    """The tracked files below `root`, absolute; none where there is no git, or no repository.

    A repository's own configuration can name programs for git to run (`core.fsmonitor`); they are switched off.
    """
    command = [
        "git",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "safe.bareRepository=explicit",
        "-c",
        "core.hooksPath=/dev/null",
    ]
    try:
        done = subprocess.run(
            [*command, "-C", str(root), "ls-files", "-z", "--cached"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    if done.returncode == 0:
        yield from (root / os.fsdecode(name) for name in done.stdout.split(b"\0") if name)
