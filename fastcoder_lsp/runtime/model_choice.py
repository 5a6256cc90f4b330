"""The model that `auto` names here, by measured times: read from the cache folder, or measured and kept there.

Owns when times are measured: on a CPU, if none are kept that hold for this version, processor and number of threads.
"""

import logging
from pathlib import Path

from fastcoder_lsp.config import Settings, kernels_folder
from fastcoder_lsp.core import Progress
from fastcoder_lsp.model.catalogue import BITS, FAMILY
from fastcoder_lsp.model.choice import Choice, current_choice, read_measured, write_measured
from fastcoder_lsp.model.find import AUTO
from fastcoder_lsp.model.machine import usable_gpu_bytes

logger = logging.getLogger(__name__)
WHAT = "timing models on this machine"


def chosen_model(
    cache: Path, progress: Progress, *, threads: int | None = None, gpu_bytes: int | None = None, bits: int = BITS[0]
) -> Choice:
    """The choice of `auto`, by measured times unless a GPU decides.

    Args:
        cache: the cache folder.
        progress: told what is compiled and measured.
        threads: of the CPU engine; None for its own number.
        gpu_bytes: memory of the GPU that may be used; None to ask the driver.
        bits: of the precision that is measured.
    """
    gpu = usable_gpu_bytes() if gpu_bytes is None else gpu_bytes
    choice = current_choice(cache, gpu)
    if choice.chosen.gpu:
        return choice
    measure(cache, progress, threads, bits)
    return current_choice(cache, gpu)


def measure(cache: Path, progress: Progress, threads: int | None = None, bits: int = BITS[0]) -> None:
    """Keep measured times, if none are kept that hold: within two seconds, and a minute where kernels are compiled."""
    try:
        from fastcoder_lsp.engine import speeds  # noqa: PLC0415 brings a compiler along
        from fastcoder_lsp.engine.int8.sync import default_threads  # noqa: PLC0415
        from fastcoder_lsp.kernels.cache import current_version  # noqa: PLC0415

        count, known = threads or default_threads(), read_measured(cache)
        if known is not None and known.holds(count, current_version()):
            return
        progress(0.0, WHAT)
        if (measured := speeds.measure(bits, count, kernels_folder(), progress)) is not None:
            write_measured(cache, measured)
        progress(1.0, WHAT)
    except Exception:
        logger.exception("the speed of models on this machine cannot be measured")


def gpu_for_choice(settings: Settings) -> int:
    """Memory of the GPU that `auto` may count on; 0 where the settings leave no choice. Asks the driver."""
    chosen = settings.model == AUTO and not settings.engine.startswith("cpu-")
    return usable_gpu_bytes() if chosen else 0


def bits_by_choice(settings: Settings, hub_id: str, cache: Path, gpu_bytes: int) -> int | None:
    """Bits of a weight that the rule takes for a model of the family; None where the engine decides by itself."""
    if settings.model != AUTO or settings.engine != "auto":
        return None
    verdict = current_choice(cache, gpu_bytes).best(hub_id)
    if verdict is None or verdict.bits == (16 if verdict.gpu else 8):
        return None
    return verdict.bits


def measure_once(settings: Settings, hub_id: str, engine: str, cache: Path, gpu_bytes: int, progress: Progress) -> None:
    """Measure the machine for `auto` where no earlier start has, in the precision whose pass is compiled.

    Nothing else may run meanwhile. `hub_id` is that of the model in use, empty for one of another family.
    """
    bits = next((bits for bits in BITS if engine == f"cpu-int{bits}"), None)
    # Slices have heads like the smallest model's.
    if settings.model == AUTO and bits is not None and hub_id == FAMILY[0].hub_id:
        chosen_model(cache, progress, threads=settings.threads or None, gpu_bytes=gpu_bytes, bits=bits)
