"""What a user may choose about a training, what was published, and what this machine makes of it.

Owns the defaults: each is the papers', unless the machine is too small for it, and then a note says so. Plain values.
"""

from dataclasses import dataclass, fields
from typing import Literal

Method = Literal["cllm", "sdsat", "distill", "medusa"]
Tuning = Literal["full", "lora"]

SMALL_PARAMETERS = 50_000_000
"""Models below it are taught with larger steps, for the published ones are for billions of parameters."""
LORA_PARAMETERS = 100_000_000
"""On a CPU, models above it are tuned by LoRA: full tuning takes 16 bytes a parameter and three times the work."""
BYTES_A_PARAMETER = 18
"""Of full tuning: weight, gradient and AdamW's two moments in fp32, and what a pass keeps."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user said; None: as published, or as the machine allows."""

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
class Machine:
    """What there is: `device` for torch; `memory` of that device in bytes; `fast_bf16`: bf16 pays; `parameters`: N."""

    device: str
    memory: int
    fast_bf16: bool
    parameters: int

    @property
    def is_cpu(self) -> bool:
        """Whether it is a CPU."""
        return self.device == "cpu"


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """A training, settled: the same values give the same weights on the same machine.

    Attributes:
        tuning: the method.
        device: for torch.
        precision: of the computation.
        seed: of everything that is drawn.
        length: tokens of a window.
        batch: windows (SDSAT) or trajectories (CLLM) a step.
        steps: how many are made.
        warm_up: steps in which the rate rises.
        rate: the rate after that.
        final_rate: the rate at the end, to which a cosine leads.
        betas: of AdamW.
        decay: of AdamW.
        clip: the longest gradient.
        rows: tokens of one pass.
        held_out: windows that losses are measured on.
        rank: of LoRA.
        alpha: of LoRA.
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
    held_out: int = 8
    rank: int = 16
    alpha: int = 32


@dataclass(frozen=True, slots=True)
class Published:
    """What a paper trained with. `final_share`: the last rate over the first; `of_lora`: the rate is LoRA's."""

    length: int
    batch: int
    steps: int
    warm_up_share: float
    rate: float
    final_share: float
    betas: tuple[float, float]
    of_lora: bool = False


PUBLISHED: dict[Method, Published] = {
    # SDSAT, section 4.1: 4 M tokens a batch of sequences of 16,384; 400 of 2,000 steps; 5e-5 to 1e-5.
    "sdsat": Published(16384, 256, 2000, 0.2, 5e-5, 0.2, (0.9, 0.95)),
    # CLLM, appendix A: 2e-5, cosine, 3 % warm-up; a batch of 128 over one epoch of some 100,000 trajectories.
    "cllm": Published(2048, 128, 800, 0.03, 2e-5, 0.1, (0.9, 0.999)),
    # Medusa-2, section 2.2.2 and appendix: LoRA, 5e-4, four times that for the heads, cosine, batches of 64.
    "medusa": Published(2048, 64, 1900, 0.1, 5e-4, 0.05, (0.9, 0.999), of_lora=True),
    # DistillSpec's own constants were not at hand: these are usual ones for students of some 100 M parameters.
    "distill": Published(2048, 32, 20_000, 0.03, 3e-4, 0.1, (0.9, 0.999)),
}


def settle(method: Method, asked: Asked, machine: Machine) -> tuple[TrainSettings, list[str]]:
    """Every setting, and a note for each that is not as published."""
    published, notes = PUBLISHED[method], list[str]()
    small = machine.parameters < SMALL_PARAMETERS
    known = "usual" if method == "distill" else "published"

    def scaled(name: str, value: float, paper: float, why: str) -> None:
        if value != paper:
            notes.append(f"{name}: {value:,g} ({known}: {paper:,g}; {why})")

    tuning = asked.tuning or _tuning(machine)
    if tuning == "lora":
        notes.append(f"LoRA ({known}: all weights are tuned; --full does that)")
    length = asked.length or min(published.length, _length(machine))
    batch = asked.batch or _batch(machine, published)
    steps = asked.steps or (200 if machine.is_cpu else published.steps)
    rate = asked.rate or _rate(published.rate / (10 if published.of_lora else 1), tuning, machine)
    why = "a CPU" if machine.is_cpu else "one device"
    scaled("tokens of a window", length, published.length, "as asked" if asked.length else why)
    scaled("windows a step", batch, published.batch, "as asked" if asked.batch else why)
    scaled("steps", steps, published.steps, "as asked" if asked.steps else why)
    why = "LoRA" if tuning == "lora" else f"{machine.parameters / 1e6:.0f} M parameters"
    scaled("learning rate", rate, published.rate, "as asked" if asked.rate else why)
    settings = TrainSettings(
        tuning=tuning,
        device=machine.device,
        precision=asked.precision or ("bf16" if machine.fast_bf16 and not small else "fp32"),
        seed=asked.seed,
        length=length,
        batch=batch,
        steps=steps,
        warm_up=max(1, round(published.warm_up_share * steps)),
        rate=rate,
        final_rate=rate * published.final_share,
        betas=published.betas,
        rows=max(length + length // 2, 768 if machine.is_cpu else 8192),
        held_out=8 if machine.is_cpu else 24,
        rank=asked.rank or 16,
        alpha=2 * (asked.rank or 16),
    )
    return settings, notes


def differences(left: TrainSettings, right: TrainSettings) -> list[str]:
    """Names of the settings in which two trainings differ."""
    return [entry.name for entry in fields(left) if getattr(left, entry.name) != getattr(right, entry.name)]


def _tuning(machine: Machine) -> Tuning:
    if machine.is_cpu and machine.parameters > LORA_PARAMETERS:
        return "lora"
    return "full" if machine.parameters * BYTES_A_PARAMETER < machine.memory else "lora"


def _length(machine: Machine) -> int:
    return 384 if machine.is_cpu else 2048


def _batch(machine: Machine, published: Published) -> int:
    return 4 if machine.is_cpu else min(published.batch, 32)


def _rate(published: float, tuning: Tuning, machine: Machine) -> float:
    if tuning == "lora":
        return 10 * published
    return 20 * published if machine.parameters < SMALL_PARAMETERS else published
