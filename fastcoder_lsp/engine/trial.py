"""A GPU that may be slower than the CPU, compared with it once for each model: which engine takes the next start?

The first start serves at once, with the CPU's engine. The comparison runs in a process of its own while this one is
idle, with a time limit, and is given up when somebody types: a fault of the GPU costs the comparison, not the server.
Owns the record of what was found; `trial_process` finds it. Where anything is in doubt the CPU's engine stays.
"""

import hashlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastcoder_lsp import __version__
from fastcoder_lsp.core.replacing import put_in_place
from fastcoder_lsp.engine.job import LoadJob

logger = logging.getLogger(__name__)
SECONDS = 420.0
"""The whole trial at most: two loads, and kernels that are compiled for the first time."""
ATTEMPTS = 2
"""Trials that may end without an outcome, by a crash or by being killed, before none is begun any more."""
IDLE_S = 60.0
"""The process must have done nothing for so long before a trial begins."""
LOOK_S = 1.0
BUSY = 0.2
"""Share of a core that a process uses at most while it is idle."""
THREAD = "fastcoder-trial"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Which kind is taken, why, in the user's words, and milliseconds of a step by kind and rows."""

    chosen: str
    reason: str
    ms: Mapping[str, float]


def choose_engine(
    job: LoadJob,
    machine: str,
    *,
    kinds: tuple[str, str],
    command: Callable[[Path], list[str]] | None = None,
) -> TrialResult:
    """The kind for this model on this machine, as remembered; else the first, and a trial begins when nobody types.

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
        return TrialResult(known["chosen"], known.get("reason", ""), known.get("ms", {}))
    if _attempts(record) >= ATTEMPTS:
        return TrialResult(kinds[0], f"{kinds[1]} is not used: its trial failed {ATTEMPTS} times (see the log)", {})
    trial = _PendingTrial(job, kinds, record, command or _command)
    if not any(thread.name == THREAD for thread in threading.enumerate()):
        threading.Thread(target=trial.run, name=THREAD, daemon=True).start()
    return TrialResult(kinds[0], f"{kinds[1]} is compared with {kinds[0]} while nobody types, for the next start", {})


@dataclass(frozen=True, slots=True)
class _PendingTrial:
    """A trial that waits for its time. `record`: where what it finds is kept; `command`: of its process."""

    job: LoadJob
    kinds: tuple[str, str]
    record: Path
    command: Callable[[Path], list[str]]

    def run(self) -> None:
        """Wait until this process is idle, and try; from the beginning where somebody types meanwhile."""
        try:
            while not self._tried():
                pass
        except OSError as why:
            logger.warning("the trial of %s cannot begin: %s", self.kinds[1], why)

    def _tried(self) -> bool:
        """One trial, once nothing has been done for a while; False where it was given up."""
        quiet_s = 0.0
        while quiet_s < IDLE_S:
            quiet_s = 0.0 if _busy() else quiet_s + LOOK_S
        folder = self.record.with_suffix(".trial")
        folder.mkdir(parents=True, exist_ok=True)
        outcome = folder / "outcome.json"
        outcome.unlink(missing_ok=True)
        job = self.job
        request = {
            **{name: str(getattr(job, name)) for name in ("folder", "name", "source", "digest", "cache", "kernels")},
            "options": asdict(job.options),
            "kinds": list(self.kinds),
        }
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        attempts = _attempts(self.record)
        write_json(self.record, {"attempts": attempts + 1})
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                self.command(folder),
                cwd=folder,
                stdin=subprocess.PIPE,  # ends with this process, and the trial with it
                stdout=subprocess.DEVNULL,  # a server's own belongs to its protocol
                stderr=log,
            )
            began, given_up = time.monotonic(), False
            while process.poll() is None and not given_up and time.monotonic() - began < SECONDS:
                given_up = _busy()
            process.kill()
            process.wait()
        if given_up:
            write_json(self.record, {"attempts": attempts})
            return False
        found = read_json(outcome)
        if found.get("chosen") in self.kinds:
            write_json(self.record, found)
        else:
            words = (folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
            logger.warning("the trial of %s ended with %s: %s", self.kinds[1], process.returncode, words)
        return True


def _busy() -> bool:
    """Whether this process works, watched for a moment: an idle server uses no CPU."""
    used, began = time.process_time(), time.monotonic()
    time.sleep(LOOK_S)
    return time.process_time() - used > BUSY * (time.monotonic() - began)


def _attempts(record: Path) -> int:
    """Trials that were begun and came to no verdict."""
    found = read_json(record).get("attempts")
    return found if isinstance(found, int) else 0


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
