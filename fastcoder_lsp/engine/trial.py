"""A trial that compares a GPU with the CPU once for each model, and decides the next start: the GPU may be slower.

The first start serves at once, with the CPU's engine. The comparison runs in a process of its own while this one is
idle, with a time limit, and stops when the user types: a GPU fault costs the comparison, not the server. Keeps the
record of results. In doubt the CPU's engine stays.
"""

import hashlib
import json
import logging
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fastcoder_lsp import __version__
from fastcoder_lsp.core import DraftTree, Engine
from fastcoder_lsp.core.files import private_folder, read_json, replace_file
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.options import EngineOptions
from fastcoder_lsp.model.files import ModelFiles

logger = logging.getLogger(__name__)
SECONDS = 420.0
"""Time limit of the whole trial: two loads, and kernels that compile for the first time."""
ATTEMPTS = 2
"""How many trials may end without an outcome, by a crash or by being killed, before no more begin."""
IDLE_S = 60.0
"""How long the process must be idle before a trial begins."""
LOOK_S = 1.0
BUSY = 0.2
"""Share of a core that an idle process uses at most."""
THREAD = "fastcoder-trial"
PROMPT, ROWS, TIMED = 200, 8, 20
"""Tokens of the prompt, rows of the larger step, and steps to time."""
STEPS = 10
"""Steps of each width that a suggestion takes after its prompt: what is weighed."""


Times = tuple[float, float, float]
"""Milliseconds of a prompt, of a step of one row, and of a step of several."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The chosen kind, the reason for the user, and milliseconds by kind and work."""

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
    """The recorded kind for this model on this machine; else the first one, and a trial begins once idle.

    Args:
        job: the model to load.
        machine: names the GPU and the versions of its driver and libraries.
        kinds: the default, and the one on trial.
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
    """A trial that waits for an idle process. `record`: of its result; `command`: of its process."""

    job: LoadJob
    kinds: tuple[str, str]
    record: Path
    command: Callable[[Path], list[str]]

    def run(self) -> None:
        """Wait until this process is idle, and try; start over if the user types meanwhile."""
        try:
            while not self._tried():
                pass
        except OSError as why:
            logger.warning("the trial of %s cannot begin: %s", self.kinds[1], why)

    def _tried(self) -> bool:
        """One trial, once the process has been idle for a while; returns False if it was stopped."""
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
                stdout=subprocess.DEVNULL,  # stdout is reserved for the server's protocol
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
    """Whether this process works, sampled for a moment: an idle server uses no CPU."""
    used, began = time.process_time(), time.monotonic()
    time.sleep(LOOK_S)
    return time.process_time() - used > BUSY * (time.monotonic() - began)


def _attempts(record: Path) -> int:
    """Trials that began and reached no verdict."""
    found = read_json(record).get("attempts")
    return found if isinstance(found, int) else 0


def _command(folder: Path) -> list[str]:
    """The command of the trial's process; -P keeps it from importing modules of the current folder, a workspace."""
    program = "import pathlib, sys; from fastcoder_lsp.engine.trial import main; main(pathlib.Path(sys.argv[1]))"
    return [sys.executable, "-P", "-c", program, str(folder)]


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write atomically; a failure to write only costs a trial at the next start."""
    try:
        private_folder(path.parent)
        replace_file(path, json.dumps(value, indent=1).encode() + b"\n")
    except OSError as error:
        logger.warning("%s cannot be kept: %s", path, error)


def main(folder: Path) -> None:
    """Load both kinds of engine, one after the other, and time them: the trial's process."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    request: Mapping[str, Any] = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    files = ModelFiles(request["name"], Path(request["folder"]), request["source"], "", request["digest"])
    options, cache, kernels = EngineOptions(**request["options"]), Path(request["cache"]), Path(request["kernels"])
    job = LoadJob.of(files, options, cache, kernels, lambda _share, _what: None)
    first, second = request["kinds"]
    write_json(folder / "outcome.json", asdict(compare(job, (first, second))))


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def compare(job: LoadJob, kinds: tuple[str, str]) -> TrialResult:
    """Time both engines, one after the other."""
    from fastcoder_lsp.engine.loader import load_engine  # noqa: PLC0415 it begins trials

    found: list[Times] = []
    for kind in kinds:
        options = replace(job.options, kind=kind)  # type: ignore[arg-type]  # a key of `Kind`
        engine = load_engine(replace(job, options=options))
        if engine.info.name.split()[0] != kind:
            return TrialResult(kinds[0], f"{kinds[1]} is not used: {kind} fell back to {engine.info.name}", {})
        found.append(_listen(engine))
        engine.close()
        del engine
    return judge(kinds, found[0], found[1])


def judge(kinds: tuple[str, str], first: Times, second: Times) -> TrialResult:
    """The second kind, if a suggestion takes less time: a prompt, and steps of one row and of several.

    Only time decides: their weights are rounded differently, so that their texts may differ.
    """
    ms = {
        f"{kind}, {work}": each
        for kind, taken in zip(kinds, (first, second), strict=True)
        for work, each in zip((f"{PROMPT} tokens of a prompt", "1 row", f"{ROWS} rows"), taken, strict=True)
    }
    times = ", ".join(f"{name} {each:.2f} ms" for name, each in ms.items())
    whole = [prompt + STEPS * (one + several) for prompt, one, several in (first, second)]
    if whole[1] >= whole[0]:
        return TrialResult(kinds[0], f"{kinds[1]} is not faster here: {times}", ms)
    return TrialResult(kinds[1], f"{kinds[1]} is faster here: {times}", ms)


def _listen(engine: Engine) -> Times:
    vocabulary = engine.info.vocabulary
    prompt = [(31 * place + 7) % min(vocabulary, 997) for place in range(min(PROMPT, engine.info.context // 2))]
    one, several = _step_ms(engine, prompt, 1), _step_ms(engine, prompt, ROWS)
    return _prompt_ms(engine, prompt), one, several


def _prompt_ms(engine: Engine, prompt: list[int]) -> float:
    """Milliseconds of reading the prompt into an empty cache: the less of two."""
    taken = []
    for _ in range(2):
        engine.prefill([], lambda: False)
        started = time.perf_counter()
        engine.prefill(prompt[:-1], lambda: False)
        engine.step(DraftTree.chain(prompt[-1:]))  # a device may still be reading when the prefill returns
        taken.append((time.perf_counter() - started) * 1e3)
    return min(taken)


def _step_ms(engine: Engine, prompt: list[int], rows: int) -> float:
    """Median milliseconds of a step, whatever it accepts."""
    tree = DraftTree((prompt[-1], *range(rows - 1)), (-1, *[0] * (rows - 1)))
    taken = []
    for _ in range(TIMED):
        engine.prefill(prompt[:-1], lambda: False)
        started = time.perf_counter()
        engine.step(tree)
        taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken)
