"""The choices of a training: the user's options, the published settings, and the limits of this machine.

Each default is the paper's, unless the machine is too small for it; then a note says so.
"""

from dataclasses import dataclass
from typing import Literal

import psutil
import torch

from fastcoder_lsp.errors import UsageError

Method = Literal["cllm", "sdsat", "distill", "medusa", "medusa-2", "eagle", "edits"]
Tuning = Literal["full", "lora"]

DRAFTERS = ("medusa", "eagle")  # methods that train a drafter's own weights; the others tune a model
SHORT, LONG = (384, 2048), (512, 4096)
"""Tokens of a window on a CPU, and on one device; the longer ones hold an edit model's whole prompt and answer."""
FROZEN_ON_CPU = 1 / 3
"""Share of the layers, from the first on, that an edit model keeps on a CPU: a step takes a sixth less."""
SMALL_PARAMETERS = 50_000_000
"""Models below it are taught with larger steps, for the published ones are for billions of parameters."""
LORA_PARAMETERS = 100_000_000
"""On a CPU, models above it are tuned by LoRA: full tuning takes 16 bytes a parameter and three times the work."""
BYTES_A_PARAMETER = 18
"""Memory of full tuning: weight, gradient and AdamW's two moments in fp32, and the activations of a pass."""


@dataclass(frozen=True, slots=True)
class RequestedOptions:
    """The user's options; None: as published, or as the machine allows."""

    tuning: Tuning | None = None
    steps: int | None = None
    length: int | None = None
    batch: int | None = None
    rate: float | None = None
    rank: int | None = None
    precision: Literal["fp32", "bf16"] | None = None
    seed: int = 0
    max_minutes: float | None = None


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """The samples to collect."""

    samples: int | None = None  # number of texts, None: as the machine allows
    said: int = 0  # tokens that the target generates after each text's first half, 0: none
    vocabulary: int = 16_384  # most tokens that the drafter can predict


@dataclass(frozen=True, slots=True)
class TrainingDevice:
    """`memory` of the device in bytes; `fast_bf16`: products in bf16 are faster here; `parameters` of the model."""

    device: str
    memory: int
    fast_bf16: bool
    parameters: int

    @property
    def is_cpu(self) -> bool:
        """Whether the device is a CPU."""
        return self.device == "cpu"


def machine(device: str, parameters: int, *, vectors: bool = False) -> TrainingDevice:
    """The machine behind `device` ("auto", "cpu", "cuda" or "cuda:N"), for a model of so many parameters.

    `vectors`: bf16 is also worth it where a CPU has vectors for it, but no tiles. Raises UsageError without the device.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda") or (kind == "cuda" and not torch.cuda.is_available()):
        raise UsageError(f"this machine has no device {device}", "Use --device cpu.")
    if kind == "cuda":
        memory = int(torch.cuda.get_device_properties(device).total_memory)
        return TrainingDevice(device, memory, torch.cuda.is_bf16_supported(), parameters)
    # Without AMX's tiles bf16 is slower than fp32 for a whole model with packed examples. Products alone are faster by
    # vectors, too: on a core of a Zen 4 server they take half of fp32's time.
    fast = _cpu_has("_is_amx_tile_supported") or (vectors and _cpu_has("_is_avx512_bf16_supported"))
    return TrainingDevice(device, psutil.virtual_memory().available, fast, parameters)


def _cpu_has(name: str) -> bool:
    """Ask torch about this CPU; there is no public name."""
    ask = getattr(torch.cpu, name, None)
    return ask is not None and bool(ask())


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """The settled settings of a training: the same values give the same weights on the same machine.

    `length`: tokens of a window. `batch`: windows, trajectories or samples in a step. The learning rate rises to `rate`
    during `warm_up` steps, and a cosine leads to `final_rate`. `betas` and `decay` are AdamW's, `rank` and `alpha`
    LoRA's; it leaves the share `frozen` of the layers, from the first on, as they are. `clip`: largest norm of a
    gradient. `rows`: tokens of one pass. `at_once`: passes that run at the same time, each on a thread of its own.
    `held_out`: windows for evaluation.
    """

    tuning: Tuning
    device: str
    precision: str
    seed: int
    length: int
    batch: int
    steps: int
    warm_up: int
    rate: float
    final_rate: float
    betas: tuple[float, float] = (0.9, 0.95)
    decay: float = 0.0
    clip: float = 1.0
    rows: int = 1024
    at_once: int = 1
    held_out: int = 8
    rank: int = 16
    alpha: int = 32
    frozen: float = 0.0


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """The settings of a paper. `final_share`: last over highest rate; `of_lora`: the rate is LoRA's."""

    length: int
    batch: int
    steps: int
    warm_up_share: float
    rate: float
    final_share: float
    betas: tuple[float, float]
    clip: float = 1.0
    of_lora: bool = False


PUBLISHED: dict[Method, PaperSettings] = {
    # SDSAT (2403.18647v2), section 3.2: 4 M tokens a batch of sequences of 16,384; 400 of 2,000 steps; 5e-5 to 1e-5.
    "sdsat": PaperSettings(16384, 256, 2000, 0.2, 5e-5, 0.2, (0.9, 0.95)),
    # CLLM's train_cllm.sh: 2e-5, cosine, 3 % warm-up; a batch of 128 over one epoch of some 100,000 trajectories.
    "cllm": PaperSettings(2048, 128, 800, 0.03, 2e-5, 0.1, (0.9, 0.999)),
    # DistillSpec's own constants were not at hand: these are usual ones for students of some 100 M parameters.
    "distill": PaperSettings(2048, 32, 20_000, 0.03, 3e-4, 0.1, (0.9, 0.999)),
    # Sweep published its format and 100,000 examples, not its constants: these are usual ones for LoRA.
    "edits": PaperSettings(8192, 32, 3000, 0.03, 2e-4, 0.1, (0.9, 0.999), of_lora=True),
    # Medusa-1, section 3 and appendix B: cosine with warm-up, batches of 64, two rounds of 60,000 dialogues. By its
    # code: 1e-3, for a tenth of the steps warmed up to.
    "medusa": PaperSettings(2048, 64, 1900, 0.1, 1e-3, 0.05, (0.9, 0.999)),
    # Medusa-2, section 2.2.2 and appendix: LoRA, 5e-4, four times that for the heads, cosine, batches of 64.
    "medusa-2": PaperSettings(2048, 64, 1900, 0.1, 5e-4, 0.05, (0.9, 0.999), of_lora=True),
    # EAGLE-3, section 4: 5e-5, β 0.9 and 0.95, gradients of 0.5 at most; 68,000 dialogues and 464,000 more. By its
    # code: windows of 2,048, two a GPU and step (counted here as of eight), 800,000 steps of which 12,000 warm up.
    "eagle": PaperSettings(2048, 16, 800_000, 0.015, 5e-5, 0.05, (0.9, 0.95), clip=0.5),
}


def resolve_options(
    method: Method, asked: RequestedOptions, machine: TrainingDevice
) -> tuple[TrainSettings, list[str]]:
    """Every setting, and a note for each that differs from the published one."""
    published, notes, drafter = PUBLISHED[method], list[str](), method in DRAFTERS
    known = "usual" if method in ("distill", "edits") else "published"

    def scaled(name: str, value: float, paper: float, why: str) -> None:
        if value != paper:
            notes.append(f"{name}: {value:,g} ({known}: {paper:,g}; {why})")

    tuning: Tuning = "full" if drafter else asked.tuning or _tuning(machine)
    if tuning == "lora":
        notes.append(f"LoRA ({known}: all weights are tuned; --full does that)")
    room = (LONG if method == "edits" else SHORT)[not machine.is_cpu]
    length = asked.length or min(published.length, room)
    batch = asked.batch or (4 if machine.is_cpu else min(published.batch, 32))
    steps = asked.steps or ((400 if drafter else 200) if machine.is_cpu else published.steps)
    rate = asked.rate or (1e-3 if drafter else _rate(published, tuning, machine))
    why = "a CPU" if machine.is_cpu else "one device"
    scaled("tokens of a window", length, published.length, "as asked" if asked.length else why)
    scaled("windows a step", batch, published.batch, "as asked" if asked.batch else why)
    scaled("steps", steps, published.steps, "as asked" if asked.steps else why)
    if not drafter:
        why = "LoRA" if tuning == "lora" else f"{machine.parameters / 1e6:.0f} M parameters"
    scaled("learning rate", rate, published.rate, "as asked" if asked.rate else why)
    alone = method == "edits" and machine.is_cpu  # a mask for packed examples costs more than passes of their own
    rows = 1024 if drafter else max(length + length // 2, 768 if machine.is_cpu else 8192)
    settings = TrainSettings(
        tuning=tuning,
        device=machine.device,
        precision=asked.precision or ("bf16" if machine.fast_bf16 and not _is_small(machine) else "fp32"),
        seed=asked.seed,
        length=length,
        batch=batch,
        steps=steps,
        warm_up=max(1, round(published.warm_up_share * steps)),
        rate=rate,
        final_rate=rate * published.final_share,
        betas=published.betas,
        clip=published.clip,
        rows=1 if alone else rows,
        at_once=min(batch, torch.get_num_threads()) if alone else 1,
        held_out=8 if machine.is_cpu else 24,
        rank=asked.rank or 16,
        alpha=2 * (asked.rank or 16),
        frozen=FROZEN_ON_CPU if alone and tuning == "lora" else 0.0,
    )
    return settings, notes


def _is_small(machine: TrainingDevice) -> bool:
    return machine.parameters < SMALL_PARAMETERS


def _tuning(machine: TrainingDevice) -> Tuning:
    if machine.is_cpu and machine.parameters > LORA_PARAMETERS:
        return "lora"
    return "full" if machine.parameters * BYTES_A_PARAMETER < machine.memory else "lora"


def _rate(published: PaperSettings, tuning: Tuning, machine: TrainingDevice) -> float:
    rate = published.rate / (10 if published.of_lora else 1)
    if tuning == "lora":
        return 10 * rate
    return 20 * rate if _is_small(machine) else rate
