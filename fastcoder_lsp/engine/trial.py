"""The graph engine beside the eager one, once on each GPU and model: do they say the same, and which is quicker?

Owns the record of what was found, and the process that finds it (`trial_process`): one of its own with a time limit, so
that a fault in a program of the GPU costs the trial and not the server. Where anything is in doubt the eager engine is
taken.
"""

import hashlib
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastcoder_lsp import __version__
from fastcoder_lsp.core.replacing import put_in_place
from fastcoder_lsp.engine.job import Job

logger = logging.getLogger(__name__)
PLAIN, GRAPHS = "cuda-bf16", "cuda-graphs"
SECONDS = 420.0
"""The whole trial at most: two loads, and kernels that are compiled for the first time."""
ATTEMPTS = 2
"""Trials that may end without an outcome, by a crash or by being killed, before none is begun any more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which kind is taken, why, in the user's words, and milliseconds of a step by kind and rows."""

    chosen: str
    reason: str
    ms: Mapping[str, float]


def choose_engine(
    job: Job,
    machine: str,
    *,
    kinds: tuple[str, str] = (PLAIN, GRAPHS),
    command: Callable[[Path], list[str]] | None = None,
) -> Verdict:
    """The kind for this model on this machine: remembered, or found out now.

    Args:
        job: what is to be loaded.
        machine: names the GPU and the versions of what drives it.
        kinds: the one that is taken in doubt, and the one that is tried.
        command: of the trial's process, given the folder of its request; a test brings its own.
    """
    key = f"{__version__} {machine} {job.digest} {job.context} {kinds}"
    record = job.cache / "tuning" / f"engine-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    known = read_json(record)
    if known.get("chosen") in kinds:
        return Verdict(known["chosen"], known.get("reason", ""), known.get("ms", {}))
    attempts = known["attempts"] if isinstance(known.get("attempts"), int) else 0
    if attempts >= ATTEMPTS:
        return Verdict(kinds[0], f"{kinds[1]} is not used: its trial crashed or hung {attempts} times", {})
    write_json(record, {"attempts": attempts + 1})
    job.progress(0.0, "comparing engines on this GPU (first start only)")
    verdict = _tried(job, kinds, record.with_suffix(".trial"), command or _command)
    if verdict is None:
        return Verdict(kinds[0], f"{kinds[1]} is not used: its trial failed (see the log)", {})
    write_json(record, asdict(verdict))
    return verdict


def _tried(job: Job, kinds: tuple[str, str], folder: Path, command: Callable[[Path], list[str]]) -> Verdict | None:
    """Run the trial in its own process; None where it came to no verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    outcome = folder / "outcome.json"
    outcome.unlink(missing_ok=True)
    request = {
        **{name: str(getattr(job, name)) for name in ("folder", "name", "source", "digest", "cache", "kernels")},
        "options": asdict(job.options),
        "kinds": list(kinds),
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    try:
        done = subprocess.run(
            command(folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # a server's own belongs to its protocol
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        logger.warning("the trial of %s ended without an outcome: %s", kinds[1], why)
        return None
    found = read_json(outcome)
    if found.get("chosen") not in kinds:
        logger.warning("the trial of %s ended with %s: %s", kinds[1], done.returncode, done.stderr[-2000:])
        return None
    return Verdict(found["chosen"], found["reason"], found["ms"])


def _command(folder: Path) -> list[str]:
    """Not from the folder that it is started in: a workspace is no place to take programs from."""
    return [sys.executable, "-P", "-m", "fastcoder_lsp.engine.trial_process", str(folder)]


def read_json(path: Path) -> dict[str, Any]:
    """What a file holds; nothing where it is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write it whole or not at all; a folder that cannot be written costs a trial at the next start, no more."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        put_in_place(new, path)
    except OSError as error:
        logger.warning("%s cannot be kept: %s", path, error)
