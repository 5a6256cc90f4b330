"""The model that `auto` names here, by measured times: read from the cache folder, or measured and kept there.

Owns when times are measured: on a CPU, if none are kept that hold for this version, processor and number of threads.
Times that were taken on battery, or while other programs had the cores, are taken again the next time.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fastcoder_lsp.config import Settings, kernels_folder
from fastcoder_lsp.core import Progress
from fastcoder_lsp.model.catalogue import BITS, FAMILY
from fastcoder_lsp.model.choice import (
    MOST_TRIES,
    Choice,
    MachineFacts,
    Measured,
    Speed,
    Speeds,
    choose,
    current_choice,
    read_measured,
    write_measured,
)
from fastcoder_lsp.model.find import AUTO
from fastcoder_lsp.model.machine import available_bytes, installed_bytes, on_battery, usable_gpu_bytes

logger = logging.getLogger(__name__)
WHAT = "timing models on this machine"
_HOPE_STEP, _HOPE_PROMPT, _HOPE_GROUPED = 0.8, 0.9, 0.45
"""Of what four bits should take by the bytes that they read and by eight bits' prompt: the least to be expected. The
last one is of the prompt on CPUs that sum groups in 16 bits (AVX2), where four bits take half of eight bits' time."""


def chosen_model(
    cache: Path,
    progress: Progress,
    *,
    threads: int | None = None,
    gpu_bytes: int | None = None,
    every: bool = False,
    among: Sequence[int] = BITS,
) -> Choice:
    """The choice of `auto`; about a second where times are measured, and the time to compile the kernels at first.

    Args:
        cache: the cache folder.
        progress: told what is compiled and measured.
        threads: of the CPU engine; None for its own number.
        gpu_bytes: memory of the GPU that may be used; None to ask the driver.
        every: measure all sizes in both precisions; otherwise four bits only where they could change the choice, and
            nothing where a GPU decides.
        among: precisions that may be measured; of others the known times count.
    """
    gpu = usable_gpu_bytes() if gpu_bytes is None else gpu_bytes
    choice = current_choice(cache, gpu)
    if choice.chosen.gpu and not every:
        return choice
    try:
        _measure(cache, progress, threads, every=every, among=among)
    except Exception:
        logger.exception("the speed of models on this machine cannot be measured")
    return current_choice(cache, gpu)


def _measure(cache: Path, progress: Progress, threads: int | None, *, every: bool, among: Sequence[int] = BITS) -> None:
    from fastcoder_lsp.engine.int8.dot import kinds_here  # noqa: PLC0415 brings a compiler along
    from fastcoder_lsp.engine.int8.sync import default_threads  # noqa: PLC0415
    from fastcoder_lsp.engine.speeds import Timed, measure_speeds  # noqa: PLC0415
    from fastcoder_lsp.kernels.cache import current_version  # noqa: PLC0415

    count, version = threads or default_threads(), current_version()
    known = read_measured(cache)
    before: Speeds = {}
    if known is None or not known.holds(count, version):
        tries = 0
        if known is not None and known.taken_like(count, version):
            before, tries = known.speeds, known.disturbed
        known = Measured({}, count, version, on_battery(), tries)
    timed, hope = list[Timed](), _HOPE_GROUPED if kinds_here()[0].grouped else _HOPE_PROMPT
    for bits in among:
        done = (FAMILY[0].hub_id, bits) in known.speeds
        if not done and (every or bits == among[0] or four_bits_may_decide(known.speeds, hope)):
            progress(0.0, WHAT)
            timed.append(measure_speeds(FAMILY, bits, count, kernels_folder(), progress))
            found = {key: _least(speed, before.get(key)) for key, speed in timed[-1].speeds.items()}
            known = replace(known, speeds={**known.speeds, **found})
            progress(1.0, WHAT)
    if timed:
        disturbed = any(each.disturbed for each in timed)
        # what was timed in an earlier try and cannot decide now stays in the tables
        kept = replace(known, speeds={**before, **known.speeds})
        write_measured(cache, replace(kept, disturbed=known.disturbed + 1 if disturbed else 0, taken=time.time()))


def four_bits_may_decide(speeds: Speeds, prompt: float = _HOPE_PROMPT) -> bool:
    """Whether a model would be chosen in four bits, were they as fast as can be hoped by the times in eight.

    `prompt`: the least share of eight bits' time that a prompt may take on this kind of CPU.
    """
    hoped = dict(speeds)
    for size in FAMILY:
        if (speed := speeds.get((size.hub_id, 8))) is not None:
            share = size.read_bytes(4) / size.read_bytes(8)
            hoped[size.hub_id, 4] = Speed(speed.step_ms * share * _HOPE_STEP, speed.prompt_ms * prompt)
    return choose(MachineFacts(hoped, installed_bytes(), available_bytes())).chosen.bits == 4


def _least(speed: Speed, before: Speed | None) -> Speed:
    """The lesser times: other programs only add to them."""
    if before is None:
        return speed
    return Speed(min(speed.step_ms, before.step_ms), min(speed.prompt_ms, before.prompt_ms))


def gpu_for_choice(settings: Settings) -> int:
    """Memory of the GPU that `auto` may count on; 0 where the settings leave no choice. Asks the driver."""
    chosen = settings.model == AUTO and not settings.engine.startswith("cpu-")
    return usable_gpu_bytes() if chosen else 0


def bits_by_choice(settings: Settings, hub_id: str, cache: Path, gpu_bytes: int) -> int | None:
    """Bits of a weight that the rule takes for a model of the family; None where the engine decides by itself.

    The first times of a busy machine decide nothing: they are taken again.
    """
    if settings.model != AUTO or settings.engine != "auto":
        return None
    if not gpu_bytes and are_provisional(cache):
        return None  # making other weights takes a minute, and the next times may call for these again
    verdict = current_choice(cache, gpu_bytes).best(hub_id)
    if verdict is None or verdict.bits == (16 if verdict.gpu else 8):
        return None
    return verdict.bits


def are_provisional(cache: Path) -> bool:
    """Whether other programs had the cores while this machine was timed, so that it is timed again first."""
    measured = read_measured(cache)
    return measured is not None and 0 < measured.disturbed < MOST_TRIES


def measure_once(settings: Settings, hub_id: str, engine: str, cache: Path, gpu_bytes: int, progress: Progress) -> None:
    """Measure the machine for `auto` where no earlier start has, in the precision whose pass is compiled.

    Nothing else may run meanwhile, and compiling another pass would keep the user waiting. `model list` and `model
    pull` measure both precisions.

    Args:
        settings: of the start.
        hub_id: the model in use, empty for one of another family.
        engine: the engine in use.
        cache: the cache folder.
        gpu_bytes: memory of the GPU that may be used.
        progress: told what is measured.
    """
    bits = _bits(engine)
    # Slices have heads like the smallest model's.
    if settings.model == AUTO and bits and hub_id == FAMILY[0].hub_id:
        chosen_model(cache, progress, threads=settings.threads or None, gpu_bytes=gpu_bytes, among=(bits,))


def is_disturbed(began_s: float, used_s: float, threads: int) -> bool:
    """Whether other programs had the cores while this process ran its CPU engine.

    Args:
        began_s: of the monotonic clock, when it began.
        used_s: CPU seconds of this process until then.
        threads: of the engine, by the settings.
    """
    from fastcoder_lsp.engine.int8.sync import default_threads  # noqa: PLC0415 brings a compiler along
    from fastcoder_lsp.engine.speeds import BUSY  # noqa: PLC0415

    most_s = (time.perf_counter() - began_s) * (threads or default_threads())
    return time.process_time() - used_s < BUSY * most_s


def _bits(engine: str) -> int:
    """Bits of a weight of our CPU engines; 0 for others."""
    return next((bits for bits in BITS if engine.startswith(f"cpu-int{bits}")), 0)
