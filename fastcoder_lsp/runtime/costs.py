"""The cost of steps on this machine, timed once for an engine and a model, and how long a prompt may be at that price.

The engine's KV cache is empty before and after. Other work on the machine only adds to a time, up to minutes if the
process was stopped. Therefore each time is checked against its neighbours, and each start probes the stored costs.
"""

import hashlib
import math
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

import msgspec

import fastcoder_lsp
from fastcoder_lsp.config.environment import processor
from fastcoder_lsp.core import DraftTree, Engine, EngineInfo, Progress, StepCosts
from fastcoder_lsp.core.files import private_folder, read_cached, replace_file
from fastcoder_lsp.prompt import PromptOptions

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Rows that are timed; costs are nearly linear between them. Kernels of four rows make three as dear as four."""
FORMAT = 1
CHUNK = 128  # tokens in the cache while steps are timed, and tokens of the timed prefill
ROUNDS = 5  # rounds over all widths, so that a burst of other work does not fall on a single width
SECONDS = 1.5  # no new round begins after this time, because a user waits; there is at least one
PROBES = 3
PROBED_ROWS = 16  # a later start probes a few steps, of one row and of at most this many
SLOWER = 0.75  # a probe below this share of the stored cost shows that the stored one was measured on a busy machine
DOUBTFUL = 1.5  # a time is measured again if it exceeds the bound from the other widths by this factor
LEAST_MS = 1e-3  # no step is quicker than this; a smaller time comes from a clock that stands still
_ROUNDING = 1.0 + 1e-6
_TOKEN = 7  # any token; the time does not depend on it
PROMPT_TOKENS: Final = 1400  # longest prompt: a CPU prefills it once in a few seconds, and keeps it from then on
READ_MS: Final = 10_000.0
"""A larger model's prompt prefills in this time: users give up on a first suggestion after half a minute."""
LEAST_PROMPT: Final = 512
"""The prompt never gets shorter: with fewer tokens it does not hold the function around the cursor."""
CONTEXT_TOKENS: Final = 600
"""Tokens for code of other files, on top of the longest prompt; the value that `bench quality` measured."""
_TYPED_SHARE: Final = 0.24  # share of a prompt without that code which is left for text typed later
LEAST_TOKENS: Final = 300  # with fewer tokens there is no room for the imports and two or three pieces
LATER_MS: Final = 200.0  # the first suggestion in a document may come this much later: a typical pause between two keys
BESIDE_MS: Final = 1500.0
"""Longest background prefill, between keys, for code of other files: it is then of use within about ten keys. With a
longer one, a minute's work in a document would gain little."""


def step_costs(
    engine: Engine,
    identity: str,
    cache: Path,
    progress: Progress,
    clock: Callable[[], float] = time.perf_counter,
    *,
    probes: bool = True,
) -> StepCosts:
    """The costs of `engine`'s steps: read from the cache, or measured (under two seconds) and written there.

    The engine's KV cache is overwritten. `identity` identifies the model's weights. `clock` is in seconds. `probes`:
    check costs that were read, by some steps.
    """
    known = known_costs(engine, identity, cache)
    if known is not None and (not probes or min(_shares(known, engine, clock)) > SLOWER):
        return known
    progress(0.0, "timing the model on this machine")
    costs = measure(engine, clock)
    keep_costs(costs, engine, identity, cache)
    progress(1.0, "timing the model on this machine")
    return costs


def known_costs(engine: Engine, identity: str, cache: Path) -> StepCosts | None:
    """The costs that were kept; None where there are none."""
    return read_cached(_path(engine, identity, cache), _parsed)


def keep_costs(costs: StepCosts, engine: Engine, identity: str, cache: Path) -> None:
    """Write costs to the cache folder, for later starts."""
    path = _path(engine, identity, cache)
    with suppress(OSError):  # a cache that cannot be written: the next start measures again
        private_folder(path.parent)
        replace_file(path, msgspec.json.encode(costs))


def measure(engine: Engine, clock: Callable[[], float] = time.perf_counter) -> StepCosts:
    """Time every width and a prefill on `engine`; the result is plausible whatever the clock and the machine do."""
    measuring = measure_stepwise(engine, clock)
    while True:
        try:
            next(measuring)
        except StopIteration as ended:
            costs: StepCosts = ended.value
            return costs


def measure_stepwise(
    engine: Engine, clock: Callable[[], float] = time.perf_counter, chunk: int = CHUNK
) -> Generator[None, None, StepCosts]:
    """As `measure`, with a pause after each step, in which other work may be done. `chunk`: tokens of a prefill."""
    chunk = min(chunk, engine.info.context // 3)
    base = [_TOKEN] * chunk
    widths = [width for width in WIDTHS if width <= engine.info.max_nodes]
    engine.prefill([], _never)
    prefills = [_prefill_ms(engine, base, clock)]  # repeated at the end: if both are slow, so was all between
    yield
    times: dict[int, list[float]] = {width: [] for width in widths}
    for turn in range(ROUNDS):
        # The time of an undisturbed round.
        if turn and (turn + 1) * sum(smoothed(widths, [min(times[width]) for width in widths])) > SECONDS * 1e3:
            break
        for width in widths:
            times[width].append(_step_ms(engine, width, base, clock))
            yield
    for _ in range(PROBES):  # ignore stalls, and the first pass of its kind
        least = [min(times[width]) for width in widths]
        doubtful = [
            width
            for width, ms, true in zip(widths, least, smoothed(widths, least), strict=True)
            if ms > DOUBTFUL * true
        ]
        for width in doubtful:
            times[width].append(_step_ms(engine, width, base, clock))
            yield
    ms = smoothed(widths, [min(times[width]) for width in widths])
    engine.prefill(base, _never)
    prefills.append(_prefill_ms(engine, base * 2, clock))
    engine.prefill([], _never)
    # A prefill does less work than a step of as many rows.
    return StepCosts(
        tuple(widths), ms, min(max(min(prefills), LEAST_MS), *(a / b for a, b in zip(ms, widths, strict=True)))
    )


def smoothed(widths: Sequence[int], times: Sequence[float]) -> tuple[float, ...]:
    """The times of `widths`, each bounded by the others.

    A step of fewer rows never takes longer, and a step of more rows takes no longer than several steps for the same
    rows. The least time that follows counts, because other work on the machine only adds.
    """
    least = [max(ms, LEAST_MS) for ms in times]
    for place in range(len(least) - 1, 0, -1):
        least[place - 1] = min(least[place - 1], least[place])
    for place in range(1, len(least)):
        least[place] = min(least[place], least[place - 1] * widths[place] / widths[place - 1])
    return tuple(least)


def believable(costs: StepCosts) -> bool:
    """Whether `costs` are possible on any machine; a damaged file or a broken clock gives others."""
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
    """The time of one step of `width` rows; infinite if the clock was set back meanwhile."""
    engine.prefill(base, _never)
    before = clock()
    engine.step(_tree(width, engine.info))
    took = clock() - before
    return took * 1e3 if took >= 0 else math.inf


def _prefill_ms(engine: Engine, tokens: Sequence[int], clock: Callable[[], float]) -> float:
    before = clock()
    computed = engine.prefill(tokens, _never).computed
    took = clock() - before
    return took * 1e3 / computed if took >= 0 and computed else math.inf


def corrected_costs(known: StepCosts, engine: Engine) -> StepCosts:
    """The costs, lowered as far as a few steps are quicker now: they were measured beside other work."""
    return known.times(min(1.0, max(_shares(known, engine, time.perf_counter))))


def _shares(known: StepCosts, engine: Engine, clock: Callable[[], float]) -> list[float]:
    """The shares of the known costs that steps of one and of more rows take now; small: the machine was busy."""
    widest = max(width for width in known.widths if width <= min(PROBED_ROWS, engine.info.max_nodes))
    least = {
        width: min(_step_ms(engine, width, [_TOKEN], clock) for _ in range(PROBES))
        for width in dict.fromkeys((1, widest))
    }
    engine.prefill([], _never)
    return [ms / known.step_ms(width) for width, ms in least.items()]


def _tree(width: int, info: EngineInfo) -> DraftTree:
    """One pending token and a binary tree of drafts below it, about as branched as real drafts.

    A chain where drafts may not branch, and of pending tokens alone where there are none.
    """
    tokens = (_TOKEN, *(i % info.vocabulary for i in range(1, width)))
    if not info.drafts:
        return DraftTree.chain(tokens)
    return DraftTree(tokens, (-1, *((i - 1) // 2 if info.trees else i - 1 for i in range(1, width))))


def _never() -> bool:
    return False


def _path(engine: Engine, identity: str, cache: Path) -> Path:
    return cache / "costs" / f"{_name(engine, identity)}.json"


def _name(engine: Engine, identity: str) -> str:
    info = engine.info
    facts = (FORMAT, fastcoder_lsp.__version__, processor(), os.cpu_count(), info.name, info.device, identity, WIDTHS)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _parsed(data: bytes) -> StepCosts:
    costs = msgspec.json.decode(data, type=StepCosts)
    if not believable(costs):
        raise ValueError("impossible times")
    return costs


def context_tokens(
    wanted: bool | Literal["auto"],
    prefill_ms: float,
    room: int = PROMPT_TOKENS + CONTEXT_TOKENS,
    *,
    within_ms: float = BESIDE_MS,
) -> int:
    """Tokens for code of other files; 0: no such code.

    With `auto`, as many as are read `within_ms`: with a second KV cache `BESIDE_MS`, because no key waits for a
    background prefill, otherwise `LATER_MS`, between two keys. When the first suggestion waited 600 ms for 600 tokens,
    fewer suggestions came in time than without them (`bench typing`), although whole lines gained.

    Args:
        wanted: the setting `context.enabled`.
        prefill_ms: the time of one more prompt token on this machine (`core.StepCosts`).
        room: tokens of a prompt; the document gets at least half of them.
        within_ms: the longest time for reading them, with `auto`.
    """
    most = min(CONTEXT_TOKENS, max(room, 0) // 2)
    if wanted != "auto":
        return most if wanted else 0
    quick = min(most, int(within_ms / prefill_ms))
    return quick if quick >= LEAST_TOKENS else 0


def prompt_room(context: int, max_tokens: int) -> int:
    """Tokens of a prompt in a context that the longest suggestion fits into, too: at least half of the context."""
    return max(context - max_tokens, context // 2)


def prompt_options(told: int, room: int, prefill_ms: float = 0.0) -> PromptOptions:
    """The budgets of a prompt.

    `told`: tokens of other files' code (`context_tokens`). `room`: tokens that the model's memory has for a prompt; a
    longer one gets no answer. `prefill_ms`: the time of one more prompt token here; a first prompt waits only for code
    whose prefill goes unnoticed.
    """
    own = PROMPT_TOKENS if prefill_ms * PROMPT_TOKENS <= READ_MS else max(LEAST_PROMPT, int(READ_MS / prefill_ms))
    limit = min(own + told, room)
    typed = min(PromptOptions().typed_tokens, max(1, int((limit - told) * _TYPED_SHARE)))
    later = told * prefill_ms > LATER_MS
    return PromptOptions(limit=limit, context_tokens=told, context_later=later, typed_tokens=typed)
