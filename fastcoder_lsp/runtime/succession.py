"""A smaller model answers while the wanted one is fetched, converted and compiled; then the wanted one takes over.

A second process at low priority fills the cache folder (machine code, packed weights, times), so that this process only
has to map the weights. Downloads nothing: it waits for a download that the user has begun.
"""

import logging
import traceback
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from typing_extensions import override

from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core import Progress
from fastcoder_lsp.errors import FastcoderError, ModelMissingError, UsageError, understood
from fastcoder_lsp.model.catalogue import FAMILY, Size
from fastcoder_lsp.model.choice import current_choice
from fastcoder_lsp.model.files import RECORD, ModelFiles
from fastcoder_lsp.model.find import AUTO, download_of, find, understand
from fastcoder_lsp.model.machine import usable_gpu_bytes
from fastcoder_lsp.model.store import folder_bytes
from fastcoder_lsp.runtime.load import corrected, load_model, needs_own_weights
from fastcoder_lsp.runtime.parts import Model, Successor, Tell
from fastcoder_lsp.runtime.second_process import is_prepared, prepare, serve_parent

logger = logging.getLogger(__name__)

LOOK_S, SELDOM_S = 1.0, 20.0  # time between two looks at a download, and at one that has not begun
_FINISH = "To continue, run: fastcoder-lsp model pull"


@dataclass(frozen=True, slots=True)
class SuccessionPlan:
    """Which model answers first, and which one (called `name`) follows: settings that load them."""

    first: Settings
    wanted: Settings
    name: str
    here: bool  # its files are all on this disk
    on_gpu: bool  # a GPU may run it; it holds no two models at once, and nothing is prepared for it
    automatic: bool  # `auto` chose it


def load_first(settings: Settings, progress: Progress) -> Model:
    """The model that the settings name, or one that answers until it is ready, which knows its `successor`.

    Where a GPU is there and cannot run the model, a smaller one answers instead. Raises as `load_model`.
    """
    cache = cache_folder()
    plan = plan_for(settings, cache)
    if plan is not None:
        try:
            return replace(load_model(plan.first, progress, later=True), successor=PlannedSuccessor(plan))
        except FastcoderError as error:
            logger.warning("%s cannot answer meanwhile: %s", plan.first.model, error)
    try:
        return load_model(settings, progress, later=True)
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
    if files is not None and (gpu or is_prepared(files, wanted, cache)):
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
    with suppress(FastcoderError, OSError):
        files = find(name, cache, gpu_bytes=0)
        return None if files.variant else files
    return None


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


class PlannedSuccessor(Successor):
    """The successor by a plan: a second process prepares the model, this one loads it."""

    def __init__(self, plan: SuccessionPlan) -> None:
        super().__init__(plan.name)
        self._plan = plan

    @override
    def make(self, tell: Tell) -> Model | None:
        plan, stopped = self._plan, self.stopped
        if (not plan.here and not self._awaited(tell)) or plan.on_gpu:
            return None

        def progress(share: float, what: str) -> None:
            tell(what, int(share * 100))

        tell("preparing", 0)
        prepare(__name__, plan.wanted, progress, stopped, "model")
        return None if stopped.is_set() else load_model(plan.wanted, progress, alone=False)

    @override
    def settled(self, model: Model) -> Model:
        # Its costs were measured at low priority, and beside the model that answered.
        try:
            model = corrected(model)
        except Exception:
            logger.exception("%s cannot be timed", self.name)
        return model

    def _awaited(self, tell: Tell) -> bool:
        stopped, cache, name = self.stopped, cache_folder(), self._plan.wanted.model
        reference = understand(name)
        while (files := _found(name, cache)) is None:
            begun = download_of(reference, cache, 0)
            if begun is not None and begun.under_way:
                tell(f"downloading: {begun.text}", begun.percent)
            elif begun is not None:
                tell(f"its download broke off at {begun.text}. {_FINISH} {begun.name}", begun.percent)
            if stopped.wait(LOOK_S if begun is not None else SELDOM_S):
                return False
        self.name = files.name
        return not stopped.is_set()


def main() -> NoReturn:
    """Load the model once; runs in the second process."""
    serve_parent(lambda settings, progress: load_model(settings, progress, recorded=False).close())


if __name__ == "__main__":
    main()
