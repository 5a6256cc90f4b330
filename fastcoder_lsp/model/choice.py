"""Which model of the family `auto` means on this machine: a rule over measured times, memory and licences.

`auto` takes the largest size that keeps four limits: a step of one row, a prompt, a share of the installed memory, and
the memory that is free; eight bits before four. Where no size keeps them it takes the smallest. On a GPU it takes the
largest size that fits, in the most exact precision that fits.

Owns the rule, its words, and the file with the measured times, which `engine.speeds` measures.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

import msgspec

from fastcoder_lsp import __version__
from fastcoder_lsp.config.environment import forced_kind, processor, usable_cores
from fastcoder_lsp.core.files import private_folder, read_cached, replace_file
from fastcoder_lsp.model.catalogue import BITS, FAMILY, GPU_BITS, Size
from fastcoder_lsp.model.machine import available_bytes, installed_bytes, on_battery, usable_gpu_bytes
from fastcoder_lsp.model.store import size_text

STEP_MS = 35.0
"""A token, without drafting: slower text lags behind the reader."""
PROMPT_TOKENS, PROMPT_MS = 400, 1000.0
"""The first suggestion in a file waits for its prompt."""
MEMORY_SHARE, GPU_SHARE = 0.25, 0.9
"""Of the installed memory, beside an editor and a browser; and of the GPU's (`gpu.memory_percent`)."""
CONTEXT = 4096
"""Tokens of the KV cache on a GPU (`context_tokens`)."""
PRECISIONS: Mapping[int, str] = {16: "bf16", 8: "int8", 4: "int4"}


@dataclass(frozen=True, slots=True)
class Speed:
    """Milliseconds of a step of one row, and of a prompt of `PROMPT_TOKENS`."""

    step_ms: float
    prompt_ms: float


Speeds = Mapping[tuple[str, int], Speed]
"""By hub id and bits of a weight."""
_EIGHT_BITS = Speed(1.0, 1.0)
RATIOS = {True: {8: _EIGHT_BITS, 4: Speed(1.08, 0.61)}, False: {8: _EIGHT_BITS, 4: Speed(1.11, 1.0)}}
"""Times over those in eight bits, of a byte that a step reads and of a prompt: on kinds of instructions that sum groups
in 16 bits (AVX2), and on others. Measured on AVX2 and AVX-512 VNNI (docs/benchmarks.md, *What a step costs*)."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The facts that the rule looks at: `speeds` on the CPU, bytes of memory, bytes of the GPU (0 for none)."""

    speeds: Speeds
    installed: int
    free: int
    gpu: int = 0


@dataclass(frozen=True, slots=True)
class SizeAssessment:
    """One size in one precision. `speed`: on a CPU, if known. `against`: the limits that it exceeds, and how."""

    size: Size
    bits: int
    gpu: bool
    memory_bytes: int
    speed: Speed | None
    fits: bool
    against: Mapping[str, str]

    @property
    def engine(self) -> str:
        """The kind of engine that runs it."""
        if self.gpu:
            return "cuda-graphs" if self.bits == 16 else f"cuda-int{self.bits}"
        return f"cpu-int{self.bits}"

    @property
    def text(self) -> str:
        """Size, precision, times and memory in words."""
        times, speed = "", self.speed
        if speed is not None:
            prompt = f"a prompt of {PROMPT_TOKENS} tokens in {speed.prompt_ms / 1e3:.1f} s"
            times = f"{speed.step_ms:.0f} ms a token, {prompt}, "
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
        return min((one for one in self.verdicts if one.size.hub_id == hub_id), key=_excess, default=None)

    @property
    def reason(self) -> str:
        """Why this one, in sentences."""
        chosen = self.chosen
        lines = [f"`auto` chooses {chosen.text}."]
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
    return "; ".join(verdict.against.values())


def choose(machine: MachineFacts) -> Choice:
    """Apply the rule."""
    on_cpu = _largest([_on_cpu(size, each, machine) for size in FAMILY for each in BITS])
    on_gpu = _largest([_on_gpu(size, each, machine.gpu) for size in FAMILY for each in GPU_BITS])
    if on_gpu.chosen.against or FAMILY.index(on_gpu.chosen.size) < FAMILY.index(on_cpu.chosen.size):
        return on_cpu
    return on_gpu


def _largest(verdicts: list[SizeAssessment]) -> Choice:
    """The largest size that keeps the limits, else the smallest, in the precision that exceeds them least."""
    kept = [verdict.size for verdict in verdicts if not verdict.against]
    size = max(kept, key=FAMILY.index, default=FAMILY[0])
    return Choice(min((one for one in verdicts if one.size is size), key=_excess), tuple(verdicts))


def _on_cpu(size: Size, bits: int, machine: MachineFacts) -> SizeAssessment:
    needed, speed, against = size.memory_bytes(bits), machine.speeds.get((size.hub_id, bits)), dict[str, str]()
    most, free = int(machine.installed * MEMORY_SHARE), machine.free
    needs, fits = f"it needs {size_text(needed)} of memory", needed <= min(most, free)
    if needed > most:
        against["memory"] = f"{needs}, and a quarter of all is {size_text(most)}"
    elif needed > free:
        against["free memory"] = f"{needs}, and {size_text(free)} are free"
    if speed is None and size is not FAMILY[0]:  # the smallest needs no proof
        against["not measured"] = "its speed is not measured"
    if speed is not None and speed.step_ms > STEP_MS:
        against["token"] = f"a token takes {speed.step_ms:.0f} ms (limit {STEP_MS:.0f})"
    if speed is not None and speed.prompt_ms > PROMPT_MS:
        times = f"{speed.prompt_ms / 1e3:.1f} s (limit {PROMPT_MS / 1e3:.1f})"
        against["prompt"] = f"a prompt of {PROMPT_TOKENS} tokens takes {times}"
    return SizeAssessment(size, bits, False, needed, speed, fits, against | _licence(size))


def _on_gpu(size: Size, bits: int, gpu: int) -> SizeAssessment:
    needed, room = size.gpu_bytes(bits, CONTEXT), int(gpu * GPU_SHARE)
    fits = needed <= room
    text = f"it needs {size_text(needed)} of the GPU, and {size_text(room)} may be used"
    against = {} if fits else {"GPU memory": text}
    return SizeAssessment(size, bits, True, needed, None, fits, against | _licence(size))


def _licence(size: Size) -> dict[str, str]:
    return {} if size.commercial else {"licence": "its licence forbids commercial use: name it to use it"}


def _excess(verdict: SizeAssessment) -> tuple[float, float, int]:
    """How much the limits of a token, of prompts and of memory are exceeded, in this order of importance."""
    speed = verdict.speed or Speed(0.0, 0.0)
    token_ms = speed.step_ms if speed.step_ms > STEP_MS else 0.0
    prompt_ms = speed.prompt_ms if speed.prompt_ms > PROMPT_MS else 0.0
    return token_ms, prompt_ms, 0 if verdict.fits else verdict.memory_bytes


def current_choice(cache: Path, gpu_bytes: int | None = None) -> Choice:
    """The rule's choice here and now, by the times that were measured; in milliseconds, and without measuring.

    `gpu_bytes`: memory of the GPU that `auto` may count on; 0 for none, None to ask the driver.
    """
    speeds = measured.speeds if (measured := read_measured(cache)) is not None else {}
    gpu = usable_gpu_bytes() if gpu_bytes is None else gpu_bytes
    return choose(MachineFacts(speeds, installed_bytes(), available_bytes(), gpu))


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of the smallest size in one precision, and what they depend on.

    `grouped`: this kind of instructions sums groups in 16 bits; `kernels`: the version of the compiled code; `battery`:
    the machine had no mains power.
    """

    bits: int
    speed: Speed
    grouped: bool
    threads: int
    kernels: str
    battery: bool
    version: str = __version__
    processor: str = field(default_factory=processor)
    cores: int = field(default_factory=usable_cores)

    def holds(self, threads: int, kernels: str) -> bool:
        """Whether they are those of so many threads and these kernels; on battery a CPU is slower than on mains."""
        return (self.threads, self.kernels) == (threads, kernels) and not (self.battery and not on_battery())

    @property
    def speeds(self) -> Speeds:
        """The times of all sizes in eight and four bits: a step's by the bytes that it reads, a prompt's by weights."""
        ratios, speed, smallest = RATIOS[self.grouped], self.speed, FAMILY[0]
        per_byte = speed.step_ms / smallest.read_bytes(self.bits) / ratios[self.bits].step_ms
        per_weight = speed.prompt_ms / (smallest.layers * smallest.layer_weights) / ratios[self.bits].prompt_ms
        return {
            (size.hub_id, bits): Speed(
                per_byte * size.read_bytes(bits) * ratios[bits].step_ms,
                per_weight * size.layers * size.layer_weights * ratios[bits].prompt_ms,
            )
            for size in FAMILY
            for bits in BITS
        }


def measured_path(cache: Path) -> Path:
    """The file with the measured times, one for each kind of instructions that was asked for."""
    kind = forced_kind()
    return cache / "tuning" / ("speeds.json" if kind is None else f"speeds-{kind}.json")


def write_measured(cache: Path, measured: Measured) -> None:
    """Keep the times; a folder that cannot be written costs the next start another measurement."""
    with suppress(OSError):
        private_folder(measured_path(cache).parent)
        replace_file(measured_path(cache), msgspec.json.encode(measured))


def read_measured(cache: Path) -> Measured | None:
    """The times of this version on this processor; None where there are none."""
    return read_cached(measured_path(cache), _parsed)


def _parsed(data: bytes) -> Measured:
    found = msgspec.json.decode(data, type=Measured)
    here = replace(found, version=__version__, processor=processor(), cores=usable_cores())
    if found != here or not all(0 < ms < math.inf for speed in found.speeds.values() for ms in astuple(speed)):
        raise ValueError("impossible, or another machine's or version's")
    return found
