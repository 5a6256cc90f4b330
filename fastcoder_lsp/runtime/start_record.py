"""Records the stages of the last start and their times in `starts/last.json` of the cache folder.

Owns the file and makes no decisions. It is written when a stage begins and when one ends, so that it shows where a
start hung or was killed. If the cache folder cannot be written, there is no record, and the start goes on.

The file is one JSON object, private to the user, and replaced as a whole:

    format       1
    version      of this program
    process      its id
    began        seconds since 1970
    model        what was asked for ("auto", a name, a folder)
    engine       what runs, "" until it is known ("cpu-int8")
    state        "starting", "ready" or "failed"
    stage        what is under way, "" where the start has ended
    stages       [{"name", "seconds", "cpu_seconds", "what"}]: those that have ended, in order. Names: "find model",
                 "convert", "tokenizer", "weights", "kernels", "timing", "drafter", "datastore"; `what`: the last words
                 of its progress. CPU seconds are the process's with all threads and the children that it waited for,
                 so a stage that made use of two cores has more of them than seconds.
    seconds, cpu_seconds    of the whole start until now
    compiled     functions that had to be compiled (0 at a later start)
    reason, hint why it failed and what to do, "" otherwise
    notes        what is worth knowing ("kernels are kept in /tmp/…: … cannot be written")
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from fastcoder_lsp import __version__
from fastcoder_lsp.core import Progress
from fastcoder_lsp.core.files import private_folder, read_cached, replace_file
from fastcoder_lsp.errors import FastcoderError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that has ended."""

    name: str
    seconds: float
    cpu_seconds: float
    what: str = ""


@dataclass(slots=True)
class ModelStart:
    """The contents of the file, as the module's docstring describes them."""

    model: str
    began: float
    process: int
    version: str = __version__
    format: int = FORMAT
    engine: str = ""
    state: str = "starting"
    stage: str = ""
    stages: list[Stage] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    compiled: int = 0
    reason: str = ""
    hint: str = ""
    notes: list[str] = field(default_factory=list)


class StartRecord:
    """Keeps the record while a model is loaded."""

    def __init__(self, cache: Path, model: str, *, written: bool = True) -> None:
        self.start = ModelStart(model, time.time(), os.getpid())
        self._path, self._written = start_path(cache), written
        self._began, self._began_cpu = time.perf_counter(), _cpu_seconds()
        self._entered = self._began, self._began_cpu
        self._what = ""

    @classmethod
    @contextmanager
    def kept(cls, cache: Path, model: str, *, written: bool = True) -> Iterator["StartRecord"]:
        """Record a start in a `with` block: "ready" at its end, "failed" if it raises; in memory unless `written`."""
        record = cls(cache, model, written=written)
        try:
            yield record
        except FastcoderError as error:
            record.end("failed", error.message, error.hint)
            raise
        except BaseException as error:  # records interrupts and panics of Rust libraries, too
            record.end("failed", f"{type(error).__name__}: {error}")
            raise
        record.end("ready")

    def enter(self, stage: str) -> None:
        """End the current stage and begin another."""
        self._leave()
        self.start.stage = stage
        self._write()

    def telling(self, progress: Progress) -> Progress:
        """Wrap `progress` to keep the last words of each stage."""

        def tell(share: float, what: str) -> None:
            self._what = what
            progress(share, what)

        return tell

    def end(self, state: str, reason: str = "", hint: str = "") -> None:
        """End the record with its final state."""
        self._leave()
        self.start.state, self.start.reason, self.start.hint = state, reason, hint
        self._write()

    def _leave(self) -> None:
        now, cpu = time.perf_counter(), _cpu_seconds()
        start = self.start
        if start.stage:
            wall_s, cpu_s = now - self._entered[0], cpu - self._entered[1]
            start.stages.append(Stage(start.stage, round(wall_s, 3), round(cpu_s, 3), self._what))
        self._entered, self._what, start.stage = (now, cpu), "", ""

    def _write(self) -> None:
        self.start.seconds = round(time.perf_counter() - self._began, 3)
        self.start.cpu_seconds = round(_cpu_seconds() - self._began_cpu, 3)
        if not self._written:
            return
        with suppress(OSError):
            private_folder(self._path.parent)
            replace_file(self._path, json.dumps(asdict(self.start), indent=1).encode())


def start_path(cache: Path) -> Path:
    """The path of the last start's record."""
    return cache / "starts" / "last.json"


def read_start(cache: Path) -> ModelStart | None:
    """The record of the last start; None if there is no readable one."""
    return read_cached(start_path(cache), _parsed)


def _parsed(data: bytes) -> ModelStart:
    found = msgspec.json.decode(data, type=ModelStart)
    if found.format != FORMAT:
        raise ValueError(f"format {found.format}")
    time.localtime(found.began)  # no time is further from now than the system can show
    return found


def _cpu_seconds() -> float:
    """CPU seconds of this process and of the children that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
