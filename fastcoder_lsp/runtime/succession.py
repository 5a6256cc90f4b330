"""A smaller model answers while the wanted one is fetched, converted and compiled; then the wanted one takes over.

Owns when that is so, which model answers meanwhile, and how the wanted one is made ready: a second process at low
priority fills the cache folder (machine code, packed weights, times), so that this process only has to map the weights.
Downloads nothing: it waits for a download that the user has begun.
"""

import json
import logging
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import psutil
from typing_extensions import override

from fastcoder_lsp import errors
from fastcoder_lsp.config import Settings, SettingsLayer, cache_folder, resolve, specs
from fastcoder_lsp.config.processes import neutral_folder, python_command
from fastcoder_lsp.core import Progress
from fastcoder_lsp.errors import FastcoderError, ModelMissingError, ResourceError, UsageError, understood
from fastcoder_lsp.model.catalogue import FAMILY, Size
from fastcoder_lsp.model.choice import current_choice
from fastcoder_lsp.model.files import ModelFiles
from fastcoder_lsp.model.find import AUTO, download_of, find, understand
from fastcoder_lsp.model.inventory import engine_conversions
from fastcoder_lsp.model.machine import usable_gpu_bytes
from fastcoder_lsp.model.store import folder_bytes
from fastcoder_lsp.model.tuned import RECORD
from fastcoder_lsp.runtime.compile_ahead import BITS, shape_of
from fastcoder_lsp.runtime.load import corrected, load_model, needs_own_weights
from fastcoder_lsp.runtime.model_choice import first_hour_of
from fastcoder_lsp.runtime.parts import Model

logger = logging.getLogger(__name__)

LOOK_S, SELDOM_S = 1.0, 5.0
"""Time between two looks at a download, and at one that has not begun."""
SILENT_S = 900.0
"""The process that prepares a model reports far more often; after so long without a report it hangs, and is ended."""
_NICENESS = 10
_FINISH = "To continue, run: fastcoder-lsp model pull"

Tell = Callable[[str, int | None], None]
"""Receives the stage of the wanted model, in words, and its percentage where it is known."""


@dataclass(frozen=True, slots=True)
class SuccessionPlan:
    """Which model answers first, and which one follows.

    Attributes:
        first: settings that load the model which answers meanwhile.
        wanted: settings that load the model which follows.
        name: the name of that model, for the user.
        here: whether its files are all on this disk.
        on_gpu: a GPU may run it; it holds no two models at once, and nothing is prepared for it.
        automatic: whether `auto` chose it.
    """

    first: Settings
    wanted: Settings
    name: str
    here: bool
    on_gpu: bool
    automatic: bool


def load_first(settings: Settings, progress: Progress) -> Model:
    """The model that the settings name, or one that answers until it is ready, which knows its `successor`.

    Where a GPU is there and cannot run the model, a smaller one answers instead.

    Raises:
        FastcoderError: as `load_model`.
    """
    cache = cache_folder()
    plan = plan_for(settings, cache)
    if plan is not None:
        try:
            return replace(load_model(plan.first, progress), successor=Successor(plan))
        except FastcoderError as error:
            logger.warning("%s cannot answer meanwhile: %s", plan.first.model, error)
    try:
        return load_model(settings, progress)
    except (UsageError, ModelMissingError):
        raise
    except Exception as error:
        found = _instead(settings, cache)
        if found is None:
            raise
        # Kept as text: a stored exception would keep its frames alive, and the tensors in them.
        logger.warning("%s", traceback.format_exc())
        why, hint = understood(error).message, understood(error).hint
    name, instead = found
    model = load_model(instead, progress)
    news = f"{name} cannot be loaded: {why}. {model.info.model} answers instead. {hint}"
    return replace(model, news=news.strip())


def plan_for(settings: Settings, cache: Path) -> SuccessionPlan | None:
    """The plan for a start; None where the wanted model is ready, or no smaller one is here."""
    if needs_own_weights(settings.drafter):
        return None
    gpu = _gpu_bytes(settings)
    wanted, automatic = settings, settings.model == AUTO
    if automatic:
        chosen = current_choice(cache, gpu).chosen
        if chosen.against:
            return None
        engine = chosen.engine if settings.engine == "auto" and not (chosen.gpu and chosen.bits == 16) else None
        wanted = replace(settings, model=chosen.size.hub_id, engine=engine or settings.engine)
    try:
        reference = understand(wanted.model)
        begun = download_of(reference, cache, 0)
    except FastcoderError:
        return None  # loading reports it
    files = _found(wanted.model, cache)
    if files is None and begun is None and not automatic:
        return None
    if files is not None and (gpu or _is_prepared(files, wanted, cache)):
        return None
    if files is not None and (files.folder / RECORD).is_file():
        return None  # a front's drafter may need its tuning: a shared process learns of drafters only after loading
    most = folder_bytes(files.folder) if files is not None else begun.total if begun is not None else 0
    smaller = _smaller(wanted.model, most, cache)
    if smaller is None:
        return None
    name = files.name if files is not None else wanted.model
    first = settings if automatic and files is None else _settings_of(smaller, settings, cache, gpu)
    return SuccessionPlan(first, wanted, name, files is not None, bool(gpu), automatic)


def _gpu_bytes(settings: Settings) -> int:
    """Memory of the GPU that may run the model."""
    return usable_gpu_bytes() if settings.engine == "auto" or settings.engine.startswith("cuda-") else 0


def _instead(settings: Settings, cache: Path) -> tuple[str, Settings] | None:
    """The model that a GPU could not run, and the settings of a smaller one on this disk; None where there is none."""
    gpu = _gpu_bytes(settings)
    if not gpu or needs_own_weights(settings.drafter):
        return None
    with suppress(FastcoderError, OSError):
        files = find(settings.model, cache, gpu_bytes=gpu)
        smaller = _smaller(files.hub_id, folder_bytes(files.folder), cache)
        return (files.name, _settings_of(smaller, settings, cache, gpu)) if smaller is not None else None
    return None


def _found(name: str, cache: Path) -> ModelFiles | None:
    """The very model of this name, whole; None where it, or a part of it, is missing."""
    with suppress(FastcoderError, OSError):
        files = find(name, cache, gpu_bytes=0)
        return None if files.variant else files
    return None


def _is_prepared(files: ModelFiles, settings: Settings, cache: Path) -> bool:
    """Whether a start would read packed weights; models that only transformers runs have none."""
    shape = shape_of(files.folder)
    if settings.engine not in BITS or shape is None:
        return True
    return any(path.suffix == ".safetensors" for path in engine_conversions(files.digest, cache))


def _smaller(name: str, most: int, cache: Path) -> Size | None:
    """The largest model of the family on this disk that is smaller than `name`, a model of so many bytes."""
    sizes = [size for size in FAMILY if size.commercial]
    named = next((size for size in FAMILY if size.hub_id == name), None)
    smaller = [
        size
        for size in sizes
        if (FAMILY.index(size) < FAMILY.index(named) if named is not None else size.download_bytes < most)
    ]
    for size in reversed(smaller):
        with suppress(FastcoderError, OSError):
            find(size.hub_id, cache, gpu_bytes=0)
            return size
    return None


def _settings_of(size: Size, settings: Settings, cache: Path, gpu: int) -> Settings:
    """The settings that load a smaller model, in the precision that `auto` takes for it."""
    best = current_choice(cache, gpu).best(size.hub_id)
    four = best is not None and not best.gpu and best.bits == 4 and settings.engine == "auto"
    return replace(settings, model=size.hub_id, engine="cpu-int4" if four else settings.engine)


class Successor:
    """Makes the wanted model ready while another one answers.

    Attributes:
        name: the wanted model's.
        stopped: set from any thread where the model is no longer wanted; closing the one that answers sets it.

    Args:
        plan: which model is wanted.
    """

    def __init__(self, plan: SuccessionPlan) -> None:
        self.name, self._plan, self.stopped = plan.name, plan, threading.Event()

    def make(self, tell: Tell) -> Model | None:
        """Wait for the files, and prepare the model; takes as long as that takes.

        Args:
            tell: receives the stages.

        Returns:
            The model; None if stopped, and where it cannot be loaded beside the one that answers: unload that first.

        Raises:
            FastcoderError: it cannot be made ready.
        """
        plan, stopped = self._plan, self.stopped
        if (not plan.here and not self._awaited(tell)) or plan.on_gpu:
            return None

        def progress(share: float, what: str) -> None:
            tell(what, int(share * 100))

        tell("preparing", 0)
        _prepare(plan.wanted, progress, stopped)
        return None if stopped.is_set() else load_model(plan.wanted, progress, alone=False)

    def settled(self, model: Model) -> Model:
        """The model as it takes over, in the thread that runs it: its costs corrected, and its first hour watched.

        Its costs were measured at low priority, and beside the model that answered.
        """
        try:
            model = corrected(model)
            if self._plan.automatic:
                hub_id, engine = self._plan.wanted.model, model.info.name
                model = replace(model, first_hour=first_hour_of(cache_folder(), hub_id, engine, model.costs))
        except Exception:
            logger.exception("%s cannot be timed", self.name)
        return model

    def _awaited(self, tell: Tell) -> bool:
        """Wait until all files are here; returns False if stopped."""
        stopped, cache, name = self.stopped, cache_folder(), self._plan.wanted.model
        reference = understand(name)
        while (files := _found(name, cache)) is None:
            begun = download_of(reference, cache, 0)
            if begun is not None and begun.under_way:
                tell(f"downloading: {begun.told}", begun.percent)
            elif begun is not None:
                tell(f"its download broke off at {begun.told}. {_FINISH} {begun.name}", begun.percent)
            if stopped.wait(LOOK_S if begun is not None else SELDOM_S):
                return False
        self.name = files.name
        return not stopped.is_set()


def _prepare(settings: Settings, progress: Progress, stopped: threading.Event) -> None:
    """Load the model once in a second process, which fills the cache folder, and ends with this one.

    Raises:
        FastcoderError: the model cannot be loaded, or the process was killed, or hung.
    """
    values = {spec.name: getattr(settings, spec.attribute) for spec in specs().values()}
    with (
        suppress(BrokenPipeError),  # it has ended, and closing its stdin fails, too: its exit code says why
        subprocess.Popen(
            python_command(__name__),
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
        "Close other programs, then reload the model, or name a smaller one in `model`.",
    )


class _HangWatch(threading.Thread):
    """Kills a process once it is not wanted, or has reported nothing for too long, which is then `hung`."""

    def __init__(self, process: "subprocess.Popen[bytes]", stopped: threading.Event) -> None:
        super().__init__(name="fastcoder-prepare", daemon=True)
        self._process, self._stopped, self.hung = process, stopped, False
        self.heard()

    def heard(self) -> None:
        """The process has reported something."""
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
    """Take one line of the process: progress, or an error."""
    if "error" in event:
        kind: type[FastcoderError] = getattr(errors, str(event["error"]), FastcoderError)
        raise kind(str(event["message"]), str(event["hint"]))
    progress(float(str(event["share"])), str(event["what"]))


def main() -> NoReturn:
    """Load the model of the settings on stdin, and print progress or the error; runs in the second process."""
    settings, _ = resolve([SettingsLayer("parent", json.loads(sys.stdin.buffer.readline()), trusted=True)])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if sys.platform == "win32":
        psutil.Process().nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
    else:
        os.nice(_NICENESS)
    try:
        load_model(settings, lambda share, what: _say(share=share, what=what), recorded=False).close()
    except BaseException as error:  # noqa: BLE001 Rust extensions raise BaseExceptions
        known = errors.understood(error)
        _say(error=type(known).__name__, message=known.message, hint=known.hint)
    os._exit(0)  # a thread still reads stdin, which the interpreter's own end cannot lock


def _say(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    """End this process once stdin does."""
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
