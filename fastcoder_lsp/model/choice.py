"""Which model of the family `auto` means on this machine: a rule over measured times, memory and licences.

`auto` takes the largest size that keeps four limits: a step of one row, a prompt, a share of the installed memory, and
the memory that is free; eight bits before four. Where no size keeps them it takes the smallest. On a GPU it takes the
largest size that fits, in the most exact precision that fits.

Owns the rule, its words, and the file with the measured times, which `engine.expected` measures.
"""

import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fastcoder_lsp import __version__
from fastcoder_lsp.config.environment import forced_kind, processor
from fastcoder_lsp.core.files import private_folder, read_cached, replace_file
from fastcoder_lsp.model.catalogue import BITS, FAMILY, GPU_BITS, Size
from fastcoder_lsp.model.machine import available_bytes, installed_bytes, on_battery, usable_gpu_bytes
from fastcoder_lsp.model.store import size_text

STEP_MS = 35.0
"""A token, without drafting: slower text lags behind the reader."""
PROMPT_TOKENS, PROMPT_MS = 400, 1000.0
"""The first suggestion in a file waits for its prompt."""
QUICKER = 0.75
"""Where every precision reads a prompt too slowly, one that takes at most this share of another's time wins."""
MEMORY_SHARE, GPU_SHARE = 0.25, 0.9
"""Of the installed memory, beside an editor and a browser; and of the GPU's (`gpu.memory_percent`)."""
CONTEXT = 4096
"""Tokens of the KV cache on a GPU (`context_tokens`)."""
MOST_TRIES = 3
"""A busy machine is measured so often in a row, and the least times count."""
DOUBTED_S = 24 * 3600.0
"""Times of a busy machine hold so long; then it is measured again."""
FORMAT = 1
PRECISIONS: Mapping[int, str] = {16: "bf16", 8: "int8", 4: "int4"}


@dataclass(frozen=True, slots=True)
class Speed:
    """Milliseconds of a step of one row, and of a prompt of `PROMPT_TOKENS`."""

    step_ms: float
    prompt_ms: float


Speeds = Mapping[tuple[str, int], Speed]
"""By hub id and bits of a weight."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The facts that the rule looks at: `speeds` on the CPU, bytes of memory, bytes of the GPU (0 for none)."""

    speeds: Speeds
    installed: int
    free: int
    gpu: int = 0


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A limit that a size exceeds: its name, and how, in words."""

    limit: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class SizeAssessment:
    """One size in one precision. `speed`: on a CPU, where it was measured. `against`: the limits that it exceeds."""

    size: Size
    bits: int
    gpu: bool
    memory_bytes: int
    speed: Speed | None
    fits: bool
    against: tuple[Exceeded, ...]

    @property
    def engine(self) -> str:
        """The kind of engine that runs it."""
        if self.gpu:
            return "cuda-graphs" if self.bits == 16 else f"cuda-int{self.bits}"
        return f"cpu-int{self.bits}"

    @property
    def told(self) -> str:
        """Size, precision, times and memory in words."""
        times = f"{_times(self.speed)}, " if self.speed is not None else ""
        memory = f"{size_text(self.memory_bytes)} of {'GPU memory' if self.gpu else 'memory'}"
        return f"{self.size.name} in {PRECISIONS[self.bits]}: {times}{memory}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The verdict that `auto` takes, and those on all sizes, smallest first."""

    chosen: SizeAssessment
    verdicts: tuple[SizeAssessment, ...]

    @property
    def hub_ids(self) -> tuple[str, ...]:
        """The chosen model and the smaller ones that may stand in for it, largest first."""
        smaller = FAMILY[: FAMILY.index(self.chosen.size) + 1]
        return tuple(size.hub_id for size in reversed(smaller) if size.commercial)

    @property
    def larger_ids(self) -> tuple[str, ...]:
        """Larger models that are too slow, but fit into memory, smallest first."""
        larger = FAMILY[FAMILY.index(self.chosen.size) + 1 :]
        fitting = {verdict.size for verdict in self.verdicts if verdict.fits}
        return tuple(size.hub_id for size in larger if size.commercial and size in fitting)

    def best(self, hub_id: str) -> SizeAssessment | None:
        """The verdict on the precision that `auto` runs this model in; None for a model of another family."""
        return _best([verdict for verdict in self.verdicts if verdict.size.hub_id == hub_id])

    @property
    def reason(self) -> str:
        """Why this one, in sentences."""
        chosen = self.chosen
        lines = [f"`auto` chooses {chosen.told}."]
        if chosen.against:
            lines.append(f"No size keeps all limits on this machine. This one is the smallest: {words(chosen)}.")
        exact = next((v for v in self.verdicts if v.size is chosen.size and v.bits > chosen.bits), None)
        if exact is not None and exact.against:
            lines.append(f"Not in {PRECISIONS[exact.bits]}: {words(exact)}.")
        larger = next((s for s in FAMILY[FAMILY.index(chosen.size) + 1 :] if s.commercial), None)
        if larger is not None and not chosen.against and (other := self.best(larger.hub_id)) is not None:
            lines.append(f"Not {larger.name} in {PRECISIONS[other.bits]}: {words(other)}.")
        if not chosen.gpu and all(verdict.speed is None for verdict in self.verdicts):
            lines.append("Nothing could be timed on this machine: `fastcoder-lsp doctor` checks what may prevent it.")
        return " ".join(lines)


def words(verdict: SizeAssessment) -> str:
    """The limits that a size exceeds."""
    return "; ".join(map(str, verdict.against))


def choose(machine: MachineFacts) -> Choice:
    """Apply the rule."""
    on_cpu = _largest([_on_cpu(size, each, machine) for size in FAMILY for each in BITS])
    on_gpu = _largest([_on_gpu(size, each, machine.gpu) for size in FAMILY for each in GPU_BITS])
    if on_gpu.chosen.against or FAMILY.index(on_gpu.chosen.size) < FAMILY.index(on_cpu.chosen.size):
        return on_cpu
    return on_gpu


def _largest(verdicts: list[SizeAssessment]) -> Choice:
    """The largest size that keeps the limits, in the most exact precision that does; else the smallest."""
    kept = [verdict.size for verdict in verdicts if not verdict.against]
    size = max(kept, key=FAMILY.index, default=FAMILY[0])
    chosen = _best([verdict for verdict in verdicts if verdict.size is size])
    assert chosen is not None, "no precision is allowed"
    return Choice(chosen, tuple(verdicts))


def _on_cpu(size: Size, bits: int, machine: MachineFacts) -> SizeAssessment:
    needed, speed, against = size.memory_bytes(bits), machine.speeds.get((size.hub_id, bits)), list[Exceeded]()
    most, free = int(machine.installed * MEMORY_SHARE), machine.free
    fits = needed <= min(most, free)
    if needed > most:
        text = f"it needs {size_text(needed)} of memory, and a quarter of all is {size_text(most)}"
        against.append(Exceeded("memory", text))
    elif needed > free:
        text = f"it needs {size_text(needed)} of memory, and {size_text(free)} are free"
        against.append(Exceeded("free memory", text))
    if speed is None:
        # the smallest needs no proof, but where its other precision was timed, this one was left out as no better
        if size is not FAMILY[0] or any((size.hub_id, each) in machine.speeds for each in BITS):
            against.append(Exceeded("not measured", "its speed is not measured"))
    else:
        if speed.step_ms > STEP_MS:
            against.append(Exceeded("token", f"a token takes {speed.step_ms:.0f} ms (limit {STEP_MS:.0f})"))
        if speed.prompt_ms > PROMPT_MS:
            told, limit = speed.prompt_ms / 1e3, PROMPT_MS / 1e3
            text = f"a prompt of {PROMPT_TOKENS} tokens takes {told:.1f} s (limit {limit:.1f})"
            against.append(Exceeded("prompt", text))
    return SizeAssessment(size, bits, False, needed, speed, fits, (*against, *_licence(size)))


def _on_gpu(size: Size, bits: int, gpu: int) -> SizeAssessment:
    needed, room = size.gpu_bytes(bits, CONTEXT), int(gpu * GPU_SHARE)
    fits = needed <= room
    text = f"it needs {size_text(needed)} of the GPU, and {size_text(room)} may be used"
    against = () if fits else (Exceeded("GPU memory", text),)
    return SizeAssessment(size, bits, True, needed, None, fits, (*against, *_licence(size)))


def _licence(size: Size) -> tuple[Exceeded, ...]:
    text = "its licence forbids commercial use: name it to use it"
    return () if size.commercial else (Exceeded("licence", text),)


def _best(verdicts: list[SizeAssessment]) -> SizeAssessment | None:
    """The most exact precision that keeps the limits; if none does, the one that exceeds them least.

    The limit of a token comes first, then prompts, then memory. Of prompts that are too slow, one much slower than
    another precision's loses: on AVX2 four bits take half of eight bits' time.
    """
    kept = next((verdict for verdict in verdicts if not verdict.against), None)
    return kept or min(verdicts, key=lambda verdict: _excess(verdict, verdicts), default=None)


def _excess(verdict: SizeAssessment, verdicts: list[SizeAssessment]) -> tuple[float, bool, int, bool]:
    """How much a precision exceeds the limits of a token, a prompt and memory; and whether it was not measured.

    A precision that was not measured keeps the limits of time, but takes no less for a token than less exact ones,
    which read fewer bytes.
    """
    measured = [(other.bits, other.speed) for other in verdicts if other.speed is not None]
    least_ms = max((speed.step_ms for bits, speed in measured if bits < verdict.bits), default=0.0)
    speed = verdict.speed or Speed(least_ms, 0.0)
    quickest_ms = min((speed.prompt_ms for _, speed in measured), default=0.0)
    too_slow = speed.prompt_ms > PROMPT_MS and speed.prompt_ms * QUICKER >= quickest_ms
    memory = 0 if verdict.fits else verdict.memory_bytes
    return speed.step_ms if speed.step_ms > STEP_MS else 0.0, too_slow, memory, verdict.speed is None


def _times(speed: Speed) -> str:
    return f"{speed.step_ms:.0f} ms a token, a prompt of {PROMPT_TOKENS} tokens in {speed.prompt_ms / 1e3:.1f} s"


def current_choice(cache: Path, gpu_bytes: int | None = None) -> Choice:
    """The rule's choice here and now, by the times that were measured; in milliseconds, and without measuring.

    Args:
        cache: the cache folder.
        gpu_bytes: memory of the GPU that `auto` may count on; 0 for none, None to ask the driver.
    """
    measured = read_measured(cache)
    speeds = measured.speeds if measured is not None else {}
    gpu = usable_gpu_bytes() if gpu_bytes is None else gpu_bytes
    return choose(MachineFacts(speeds, installed_bytes(), available_bytes(), gpu))


@dataclass(frozen=True, slots=True)
class Measured:
    """Times measured on this machine. `kernels`: the version of the compiled code; `battery`: not on mains power.

    `disturbed`: how often in a row other programs had the cores meanwhile; `taken`: seconds since the epoch.
    """

    speeds: Speeds
    threads: int
    kernels: str
    battery: bool
    disturbed: int
    taken: float = field(default_factory=time.time)

    def holds(self, threads: int, kernels: str) -> bool:
        """Whether they need not be measured again for so many threads and these kernels."""
        tried = self.disturbed % MOST_TRIES == 0 and 0 <= time.time() - self.taken < DOUBTED_S
        return self.taken_like(threads, kernels) and (self.disturbed == 0 or tried)

    def taken_like(self, threads: int, kernels: str) -> bool:
        """Whether they were taken in this way; on battery a CPU is slower, so on mains power they are not."""
        same = (self.threads, self.kernels) == (threads, kernels)
        return same and not (self.battery and not on_battery())


def measured_path(cache: Path) -> Path:
    """The file with the measured times, one for each kind of instructions that was asked for."""
    kind = forced_kind()
    return cache / "tuning" / ("speeds.json" if kind is None else f"speeds-{kind}.json")


def write_measured(cache: Path, measured: Measured) -> None:
    """Keep the times; a folder that cannot be written costs the next start another measurement."""
    rows = [[hub_id, bits, speed.step_ms, speed.prompt_ms] for (hub_id, bits), speed in measured.speeds.items()]
    kept = {"threads": measured.threads, "kernels": measured.kernels, "taken": measured.taken}
    record = {**_facts(), **kept, "battery": measured.battery, "disturbed": measured.disturbed, "speeds": rows}
    path = measured_path(cache)
    with suppress(OSError):
        private_folder(path.parent)
        replace_file(path, json.dumps(record).encode() + b"\n")


def read_measured(cache: Path) -> Measured | None:
    """The times of this version on this processor; None where there are none."""
    return read_cached(measured_path(cache), _parsed)


def _parsed(data: bytes) -> Measured:
    record = json.loads(data)
    if {name: record[name] for name in _facts()} != _facts():
        raise ValueError("another machine's or version's")
    rows = [(str(name), int(bits), float(step), float(prompt)) for name, bits, step, prompt in record["speeds"]]
    threads, kernels = int(record["threads"]), str(record["kernels"])
    battery, disturbed, taken = bool(record["battery"]), int(record["disturbed"]), float(record.get("taken", 0.0))
    if not all(0 < ms < math.inf for _, _, *times in rows for ms in times):
        raise ValueError("impossible times")
    speeds = {(name, bits): Speed(step, prompt) for name, bits, step, prompt in rows}
    return Measured(speeds, threads, kernels, battery, disturbed, taken)


def _facts() -> dict[str, object]:
    """The processor and packages that the times depend on, beside the threads and the kernels."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"format": FORMAT, "version": __version__, "processor": processor(), "cores": cores}
