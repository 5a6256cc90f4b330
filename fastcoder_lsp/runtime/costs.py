"""What a step costs on this machine: timed once for an engine and a model, then kept in the cache folder.

Owns the timing and the file; knows the engine by `core.Engine` only and decides nothing by what it finds. The engine's
KV cache is empty before and after. Other work on the machine only adds to a time, up to minutes where the process was
stopped: so a time counts only as far as its neighbours bear it out, and what was kept is looked at again at each start.
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import fastcoder_lsp
from fastcoder_lsp.config.processor import processor
from fastcoder_lsp.core import DraftTree, Engine, Progress, StepCosts
from fastcoder_lsp.index.files import private_folder, replace_file

WIDTHS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
"""Rows that are timed; between them costs are near to linear."""
FORMAT = 1
CHUNK = 128
"""Tokens in the cache while steps are timed, and of the prefill that is timed."""
ROUNDS = 5
"""All widths are timed so often, in turn, so that a burst of other work does not fall on one of them alone…"""
SECONDS = 1.5
"""…or until this time has passed, but at least once: somebody waits."""
PROBES = 3
PROBED_ROWS = 16
"""At a later start a few steps are timed, of one row and of at most so many…"""
SLOWER = 0.75
"""…and below this share of what was kept, that was measured on a busy machine."""
DOUBTFUL = 1.5
"""A time that exceeds so many times what other widths allow for is taken again."""
LEAST_MS = 1e-3
"""No step is quicker: so says only a clock that stands still."""
_ROUNDING = 1.0 + 1e-6
_TOKEN = 7
"""Any token: what is said makes no difference to the time."""


def step_costs(
    engine: Engine, identity: str, cache: Path, progress: Progress, clock: Callable[[], float] = time.perf_counter
) -> StepCosts:
    """The costs of `engine`'s steps: read from the cache, or measured (under two seconds) and written there.

    Args:
        engine: its KV cache holds nothing that is still wanted.
        identity: of the model's weights.
        cache: the cache folder.
        progress: told when something is measured.
        clock: in seconds.
    """
    path = cache / "costs" / f"{_name(engine, identity)}.json"
    known = _read(path)
    if known is not None and _holds(known, engine, clock):
        return known
    progress(0.0, "timing the model on this machine")
    costs = measure(engine, clock)
    with suppress(OSError):  # a cache that cannot be written: the next start measures again
        private_folder(path.parent)
        replace_file(path, json.dumps(_record(costs)).encode())
    progress(1.0, "timing the model on this machine")
    return costs


def measure(engine: Engine, clock: Callable[[], float] = time.perf_counter) -> StepCosts:
    """Time every width and a prefill on `engine`; believable whatever the clock and the machine do meanwhile."""
    chunk = min(CHUNK, engine.info.context // 3)
    base = [_TOKEN] * chunk
    widths = [width for width in WIDTHS if width <= engine.info.max_nodes]
    engine.prefill([], _never)
    prefills = [_prefill_ms(engine, base, clock)]  # and again at the end: what slows both slows all between
    times: dict[int, list[float]] = {width: [] for width in widths}
    for turn in range(ROUNDS):
        # What a round takes by itself, whatever this one was held up by.
        if turn and (turn + 1) * sum(smoothed(widths, [min(times[width]) for width in widths])) > SECONDS * 1e3:
            break
        for width in widths:
            times[width].append(_step_ms(engine, width, base, clock))
    for _ in range(PROBES):  # a stall, or the first pass of its kind, is not what the width costs
        least = [min(times[width]) for width in widths]
        doubtful = [
            width
            for width, ms, true in zip(widths, least, smoothed(widths, least), strict=True)
            if ms > DOUBTFUL * true
        ]
        for width in doubtful:
            times[width].append(_step_ms(engine, width, base, clock))
    ms = smoothed(widths, [min(times[width]) for width in widths])
    engine.prefill(base, _never)
    prefills.append(_prefill_ms(engine, base * 2, clock))
    engine.prefill([], _never)
    # A pass over a prompt's tokens does less than a step of as many rows.
    return StepCosts(
        tuple(widths), ms, min(max(min(prefills), LEAST_MS), *(a / b for a, b in zip(ms, widths, strict=True)))
    )


def smoothed(widths: Sequence[int], times: Sequence[float]) -> tuple[float, ...]:
    """The times of `widths`, each as far as the others bear it out.

    A step of fewer rows never takes longer, and one of more rows no longer than all of it done in several steps: the
    least time that follows so counts, for other work on the machine only adds.
    """
    least = [max(ms, LEAST_MS) for ms in times]
    for place in range(len(least) - 1, 0, -1):
        least[place - 1] = min(least[place - 1], least[place])
    for place in range(1, len(least)):
        least[place] = min(least[place], least[place - 1] * widths[place] / widths[place - 1])
    return tuple(least)


def believable(costs: StepCosts) -> bool:
    """Whether `costs` can be true of any machine: what was read from a disk, or measured by a clock that lies."""
    widths, ms = costs.widths, costs.ms
    return (
        len(widths) == len(ms) > 0
        and widths[0] == 1
        and all(a < b for a, b in pairwise(widths))
        and all(math.isfinite(value) and value > 0 for value in (*ms, costs.prefill_ms))
        and all(a <= b for a, b in pairwise(ms))
        and all(b / a <= w / v * _ROUNDING for (v, a), (w, b) in pairwise(zip(widths, ms, strict=True)))
        and costs.prefill_ms <= ms[0] * _ROUNDING
    )


def _step_ms(engine: Engine, width: int, base: Sequence[int], clock: Callable[[], float]) -> float:
    """What a step of `width` rows takes, once; infinite where the clock went back meanwhile."""
    engine.prefill(base, _never)
    before = clock()
    engine.step(_tree(width, engine.info.vocabulary))
    took = clock() - before
    return took * 1e3 if took >= 0 else math.inf


def _prefill_ms(engine: Engine, tokens: Sequence[int], clock: Callable[[], float]) -> float:
    """What a token of a prefill takes, once; infinite where the clock went back meanwhile, or nothing was computed."""
    before = clock()
    computed = engine.prefill(tokens, _never).computed
    took = clock() - before
    return took * 1e3 / computed if took >= 0 and computed else math.inf


def _holds(known: StepCosts, engine: Engine, clock: Callable[[], float]) -> bool:
    """Whether a few steps are not much quicker than what was kept: that is of a busier hour then."""
    widest = max(width for width in known.widths if width <= min(PROBED_ROWS, engine.info.max_nodes))
    least = {
        width: min(_step_ms(engine, width, [_TOKEN], clock) for _ in range(PROBES))
        for width in dict.fromkeys((1, widest))
    }
    engine.prefill([], _never)
    return all(ms > SLOWER * known.step_ms(width) for width, ms in least.items())


def _tree(width: int, vocabulary: int) -> DraftTree:
    """One pending token and a binary tree of drafts below it, about as branched as drafts are."""
    tokens = (_TOKEN, *(i % vocabulary for i in range(1, width)))
    return DraftTree(tokens, (-1, *((i - 1) // 2 for i in range(1, width))))


def _never() -> bool:
    return False


def _name(engine: Engine, identity: str) -> str:
    """The name of the file: everything that the times depend on is in it."""
    info = engine.info
    facts = (FORMAT, fastcoder_lsp.__version__, processor(), os.cpu_count(), info.name, info.device, identity, WIDTHS)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _record(costs: StepCosts) -> dict[str, object]:
    return {"widths": costs.widths, "ms": costs.ms, "prefill_ms": costs.prefill_ms}


def _read(path: Path) -> StepCosts | None:
    """What was kept; None where there is nothing, or nothing that can be believed."""
    try:
        record = json.loads(path.read_bytes())
        costs = StepCosts(
            tuple(int(width) for width in record["widths"]),
            tuple(float(ms) for ms in record["ms"]),
            float(record["prefill_ms"]),
        )
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return costs if believable(costs) else None
