"""What a step costs on this machine: timed once for an engine and a model, then kept in the cache folder.

Owns the timing and the file; knows the engine by `core.Engine` only and decides nothing by what it finds. The engine's
KV cache is empty before and after.
"""

import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import fastcoder_lsp
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
SLOWER = 0.75
"""At a later start a few steps are timed: below this share of what was kept, that was measured on a busy machine."""
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
    if known is not None and _single_ms(engine, clock) > SLOWER * known.ms[0]:
        return known
    progress(0.0, "timing the model on this machine")
    costs = measure(engine, clock)
    with suppress(OSError):  # a cache that cannot be written: the next start measures again
        private_folder(path.parent)
        replace_file(path, json.dumps(_record(costs)).encode())
    progress(1.0, "ready")
    return costs


def measure(engine: Engine, clock: Callable[[], float] = time.perf_counter) -> StepCosts:
    """Time every width and a prefill on `engine`.

    The least of a width's times counts, for other work on the machine only adds, and never falls with the width.
    """
    chunk = min(CHUNK, engine.info.context // 3)
    widths = [width for width in WIDTHS if width <= engine.info.max_nodes]
    times: dict[int, list[float]] = {width: [] for width in widths}
    base = [_TOKEN] * chunk
    started = clock()
    engine.prefill(base, _never)
    for turn in range(ROUNDS):
        if turn and clock() - started > SECONDS * turn / (turn + 1):
            break
        for width in widths:
            before = clock()
            engine.step(_tree(width, engine.info.vocabulary))
            times[width].append((clock() - before) * 1e3)
            engine.prefill(base, _never)
    before = clock()
    engine.prefill(base * 2, _never)
    prefill_ms = (clock() - before) * 1e3 / chunk
    engine.prefill([], _never)
    return StepCosts(tuple(widths), rising([min(times[width]) for width in widths]), prefill_ms)


def _single_ms(engine: Engine, clock: Callable[[], float]) -> float:
    """The least time of a few steps of one row: enough to see that the times kept are those of a busier hour."""
    times = []
    for _ in range(PROBES):
        engine.prefill([_TOKEN], _never)
        before = clock()
        engine.step(_tree(1, engine.info.vocabulary))
        times.append((clock() - before) * 1e3)
    engine.prefill([], _never)
    return min(times)


def rising(values: Sequence[float]) -> tuple[float, ...]:
    """The nearest sequence (least squares) that never falls: pooling adjacent violators (Ayer et al. 1955)."""
    pools: list[tuple[float, int]] = []
    for value in values:
        mean, count = float(value), 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        pools.append((mean, count))
    return tuple(mean for mean, count in pools for _ in range(count))


def _tree(width: int, vocabulary: int) -> DraftTree:
    """One pending token and a binary tree of drafts below it, about as branched as drafts are."""
    tokens = (_TOKEN, *(i % vocabulary for i in range(1, width)))
    return DraftTree(tokens, (-1, *((i - 1) // 2 for i in range(1, width))))


def _never() -> bool:
    return False


def _name(engine: Engine, identity: str) -> str:
    """Of the file: everything that the times depend on."""
    info = engine.info
    facts = (FORMAT, fastcoder_lsp.__version__, _processor(), os.cpu_count(), info.name, info.device, identity, WIDTHS)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _processor() -> str:
    """The processor's model, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line for line in lines if line.startswith("model name")), platform.machine())


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
    return costs if _believable(costs) else None


def _believable(costs: StepCosts) -> bool:
    widths, ms = costs.widths, costs.ms
    return (
        len(widths) == len(ms) > 0
        and widths[0] == 1
        and all(a < b for a, b in pairwise(widths))
        and all(a <= b for a, b in pairwise(ms))
        and all(math.isfinite(value) and value > 0 for value in (*ms, costs.prefill_ms))
    )
