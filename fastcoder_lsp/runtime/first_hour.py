"""The first hour of real use: whether the model is as fast as `auto` promised when it chose it.

The sums of the times are kept in `tuning/use.json` of the cache folder. `auto` says two things once for each model:
that a larger one would run well here, and that this one is slower than was measured.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.core.files import private_folder, read_cached, replace_file
from fastcoder_lsp.model.catalogue import FAMILY, Size
from fastcoder_lsp.model.choice import PROMPT_TOKENS, Choice, Speed
from fastcoder_lsp.model.store import size_text

HOUR_S = 3600.0
PAUSE_S = 60.0  # a longer time without work is no use
KEEP_S = 300.0  # of use, between two writes
WORSE = 1.5  # times what was promised


@dataclass(slots=True)
class UseTimes:
    """Seconds of use, and milliseconds of its steps and prompts: taken, and expected by the costs at the start."""

    seconds: float = 0.0
    step_ms: float = 0.0
    expected_step_ms: float = 0.0
    prompt_ms: float = 0.0
    expected_prompt_ms: float = 0.0


class FirstHour:
    """Sums up the work of a model until an hour is full, and tells of times that are worse than promised by half.

    `tell` is called once, from the thread that works. `promised`: the model's times, as `auto` measured them; `costs`:
    of the engine, as measured at this start. `clock` is in seconds.
    """

    def __init__(
        self, cache: Path, hub_id: str, promised: Speed, costs: StepCosts, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cache, self._hub_id, self._promised, self._costs, self._clock = cache, hub_id, promised, costs, clock
        self._use, self._last, self._unkept_s = _read_use(cache, hub_id), -math.inf, 0.0
        self.tell: Callable[[str], None] = lambda _: None

    def stepped(self, rows: int, took_ms: float) -> None:
        """A step of so many rows took so long."""
        if self._counts(took_ms):
            self._use.step_ms += took_ms
            self._use.expected_step_ms += self._costs.step_ms(rows)
            self._went_on()

    def prefilled(self, tokens: int, took_ms: float) -> None:
        """A stretch of a prompt took so long."""
        if self._counts(took_ms):
            self._use.prompt_ms += took_ms
            self._use.expected_prompt_ms += self._costs.prompt_ms(tokens)
            self._went_on()

    def _counts(self, took_ms: float) -> bool:
        return self._use.seconds < HOUR_S and math.isfinite(took_ms) and took_ms >= 0

    def _went_on(self) -> None:
        now = self._clock()
        passed, self._last = now - self._last, now
        if not 0 <= passed < PAUSE_S:
            return
        self._use.seconds += passed
        self._unkept_s += passed
        ended = self._use.seconds >= HOUR_S
        if ended or self._unkept_s >= KEEP_S:
            self._unkept_s = 0.0
            _change(self._cache, "use", self._hub_id, asdict(self._use))
        if ended and (text := self.verdict()):
            self.tell(text)

    def verdict(self) -> str:
        """The comparison in words; empty where the times are as promised, give or take half."""
        use, promised = self._use, self._promised
        step_ms = self._costs.step_ms(1) * use.step_ms / max(use.expected_step_ms, 1e-9)
        prompt_ms = self._costs.prompt_ms(PROMPT_TOKENS) * use.prompt_ms / max(use.expected_prompt_ms, 1e-9)
        if step_ms <= WORSE * promised.step_ms and prompt_ms <= WORSE * promised.prompt_ms:
            return ""
        size = next(size for size in FAMILY if size.hub_id == self._hub_id)
        found = f"{step_ms:.0f} ms a token and {prompt_ms / 1e3:.1f} s for a prompt of {PROMPT_TOKENS} tokens"
        before = f"{promised.step_ms:.0f} ms and {promised.prompt_ms / 1e3:.1f} s"
        text = f"In its first hour of use {size.name} took {found}; {before} were measured when it was chosen. "
        smaller = _next_smaller(size)
        if smaller is None:
            return f'{text}No smaller model is known: close programs that use the CPU, or set `power` to "saver".'
        name = smaller.hub_id
        return f"{text}{smaller.name} is faster: run `fastcoder-lsp model pull {name}`, and set `model` to {name}."


def larger_offer(cache: Path, choice: Choice, hub_id: str) -> str:
    """An offer of the chosen model where a smaller one is in use, made once for each; empty where there is none."""
    chosen, used = choice.chosen, next((size for size in FAMILY if size.hub_id == hub_id), None)
    if used is None or chosen.against or FAMILY.index(chosen.size) <= FAMILY.index(used):
        return ""
    name = chosen.size.hub_id
    if name in _read(cache).get("offered", {}) or not _change(cache, "offered", name, {"instead_of": hub_id}):
        return ""
    return (
        f"A larger model than {used.name} would run well on this machine: {chosen.told}. To use it, run: "
        f"fastcoder-lsp model pull {name} (downloads {size_text(chosen.size.download_bytes)}). "
        "fastcoder does not ask again."
    )


def _next_smaller(size: Size) -> Size | None:
    smaller = [one for one in FAMILY[: FAMILY.index(size)] if one.commercial]
    return smaller[-1] if smaller else None


def _path(cache: Path) -> Path:
    return cache / "tuning" / "use.json"


def _read(cache: Path) -> dict[str, Any]:
    read = msgspec.json.Decoder(dict[str, dict[str, Any]]).decode
    return read_cached(_path(cache), read) or {}


def _read_use(cache: Path, hub_id: str) -> UseTimes:
    kept = _read(cache).get("use", {}).get(hub_id)
    with suppress(TypeError, ValueError, KeyError, OverflowError):
        found = {field.name: float(kept[field.name]) for field in fields(UseTimes)}
        if all(0 <= number < math.inf for number in found.values()):
            return UseTimes(**found)
    return UseTimes()


def _change(cache: Path, part: str, name: str, value: Mapping[str, Any]) -> bool:
    """Keep a value; returns whether it could be kept: a notice that cannot be remembered would come at every start."""
    known, path = _read(cache), _path(cache)
    known[part] = known.get(part, {}) | {name: dict(value)}
    try:
        private_folder(path.parent)
        replace_file(path, json.dumps(known, indent=1).encode() + b"\n")
    except OSError:
        return False
    return True
