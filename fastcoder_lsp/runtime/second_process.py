"""Loads a model once in a second process at low priority, so that this process only has to map its weights.

The second process fills the cache folder: machine code, packed weights, times. It ends with its parent, and where it
hangs.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from typing_extensions import override

from fastcoder_lsp import errors
from fastcoder_lsp.config import Settings, SettingsLayer, resolve, specs
from fastcoder_lsp.config.environment import neutral_folder, python_command
from fastcoder_lsp.core import Progress
from fastcoder_lsp.errors import FastcoderError, ResourceError
from fastcoder_lsp.model.files import ModelFiles
from fastcoder_lsp.model.inventory import engine_conversions
from fastcoder_lsp.runtime.compile_ahead import BITS, shape_of, step_aside

LOOK_S = 1.0  # time between two looks at whether the process is still wanted
SILENT_S = 900.0  # the process reports far more often; after so long without a report it hangs, and is ended


def prepare(module: str, settings: Settings, progress: Progress, stopped: threading.Event, setting: str) -> None:
    """Run `python -m module`, which calls `serve_parent`, until it ends or `stopped` is set.

    `setting` names the model, for the user. Raises FastcoderError if it cannot be loaded, or the process fails or
    hangs.
    """
    values = {spec.name: getattr(settings, spec.attribute) for spec in specs().values()}
    with (
        suppress(BrokenPipeError),  # it has ended, and closing its stdin fails, too: its exit code says why
        subprocess.Popen(
            python_command(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=neutral_folder(),
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        watch = _HangWatch(process, stopped)
        watch.start()
        try:
            process.stdin.write(json.dumps(values).encode() + b"\n")
            process.stdin.flush()
            for line in process.stdout:
                watch.heard()
                if line.startswith(b"{"):  # a library may print, too
                    _take(json.loads(line), progress)
        finally:
            process.kill()
    if process.returncode == 0 or stopped.is_set():
        return
    if watch.hung:
        raise ResourceError(
            f"the process that prepares the model hung: it reported nothing for {SILENT_S / 60:.0f} minutes",
            "Reload the model to try again. If it hangs again, run: fastcoder-lsp doctor",
        )
    raise ResourceError(
        f"the process that prepares the model ended (exit code {process.returncode}): the system stopped it, "
        "probably because memory ran out, or it crashed",
        f"Close other programs, then reload the model, or name a smaller one in `{setting}`.",
    )


def is_prepared(files: ModelFiles, settings: Settings, cache: Path) -> bool:
    """Whether a start would read packed weights; models that only transformers runs have none."""
    shape = shape_of(files.folder)
    if settings.engine not in BITS or shape is None:
        return True
    return any(path.suffix == ".safetensors" for path in engine_conversions(files.digest, cache))


def serve_parent(load: Callable[[Settings, Progress], object]) -> NoReturn:
    """Load the model of the settings on stdin, and print progress or the error; runs in the second process."""
    settings, _ = resolve([SettingsLayer("parent", json.loads(sys.stdin.buffer.readline()), trusted=True)])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    step_aside()
    try:
        load(settings, lambda share, what: _say(share=share, what=what))
    except BaseException as error:  # noqa: BLE001 Rust extensions raise BaseExceptions
        known = errors.understood(error)
        _say(error=type(known).__name__, message=known.message, hint=known.hint)
    os._exit(0)  # a thread still reads stdin, which the interpreter's own end cannot lock


class _HangWatch(threading.Thread):
    """Kills a process once it is not wanted, or has reported nothing for too long, which is then `hung`."""

    def __init__(self, process: "subprocess.Popen[bytes]", stopped: threading.Event) -> None:
        super().__init__(name="fastcoder-prepare", daemon=True)
        self._process, self._stopped, self.hung = process, stopped, False
        self.heard()

    def heard(self) -> None:
        self._heard_s = time.monotonic()

    @override
    def run(self) -> None:
        while self._process.poll() is None:
            self.hung = time.monotonic() - self._heard_s > SILENT_S
            if self._stopped.wait(LOOK_S) or self.hung:
                with suppress(OSError):
                    self._process.kill()
                return


def _take(event: dict[str, object], progress: Progress) -> None:
    if "error" in event:
        kind: type[FastcoderError] = getattr(errors, str(event["error"]), FastcoderError)
        raise kind(str(event["message"]), str(event["hint"]))
    progress(float(str(event["share"])), str(event["what"]))


def _say(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)
