"""What a user may choose about the training of a drafter's own weights, and what was published.

Owns the defaults: each is the papers', unless the machine is too small for it, and then a note says so. Plain values.
"""

from dataclasses import dataclass
from typing import Literal

from fastcoder_lsp.train.options import SMALL_PARAMETERS, Asked, Machine, TrainSettings

DrafterMethod = Literal["medusa", "eagle", "dflash"]


@dataclass(frozen=True, slots=True)
class DrafterPublished:
    """What a paper trained with."""

    length: int
    batch: int
    samples: int
    steps: int
    warm_up_share: float
    rate: float
    clip: float
    betas: tuple[float, float]


PUBLISHED: dict[DrafterMethod, DrafterPublished] = {
    # Medusa-1, section 3 and appendix B: cosine with warm-up, batches of 64, two rounds of 60,000 dialogues. By its
    # code: 1e-3, for a tenth of the steps warmed up to.
    "medusa": DrafterPublished(2048, 64, 60_000, 1900, 0.1, 1e-3, 1.0, (0.9, 0.999)),
    # EAGLE-3, section 4: 5e-5, β 0.9 and 0.95, gradients of 0.5 at most; 68,000 dialogues and 464,000 more. By its
    # code: windows of 2,048, two a GPU and step (counted here as of eight), 800,000 steps of which 12,000 warm up.
    "eagle": DrafterPublished(2048, 16, 530_000, 800_000, 0.015, 5e-5, 0.5, (0.9, 0.95)),
    # DFlash, section 5: 6e-4, cosine, 4 % warm-up, gradients of 1 at most, six rounds of some 800,000 samples.
    "dflash": DrafterPublished(3072, 32, 800_000, 150_000, 0.04, 6e-4, 1.0, (0.9, 0.999)),
}


@dataclass(frozen=True, slots=True)
class Collected:
    """What is collected to learn from: None is as published, or as the machine allows.

    `samples`: texts; `said`: tokens that the target goes on with behind the first half of each, 0: it only reads them;
    `vocabulary`: most tokens that the drafter can say.
    """

    samples: int | None = None
    said: int = 0
    vocabulary: int = 16_384


def settle_drafter(method: DrafterMethod, asked: Asked, machine: Machine) -> tuple[TrainSettings, list[str]]:
    """Every setting, and a note for each that is not as published."""
    published, notes = PUBLISHED[method], list[str]()
    cpu, small = machine.is_cpu, machine.parameters < SMALL_PARAMETERS

    def chosen(name: str, said: float | None, paper: float, here: float) -> float:
        value = said if said is not None else here if cpu else paper
        if value != paper:
            why = "as asked" if said is not None else "a CPU"
            notes.append(f"{name}: {value:,g} (published: {paper:,g}; {why})")
        return value

    steps = int(chosen("steps", asked.steps, published.steps, 400))
    rate = chosen("learning rate", asked.rate, published.rate, 1e-3)
    settings = TrainSettings(
        tuning="full",
        device=machine.device,
        precision=asked.precision or ("bf16" if machine.fast_bf16 and not small else "fp32"),
        seed=asked.seed,
        length=int(chosen("tokens of a window", asked.length, published.length, 384)),
        batch=int(chosen("windows a step", asked.batch, published.batch, 4)),
        steps=steps,
        warm_up=max(1, round(published.warm_up_share * steps)),
        rate=rate,
        final_rate=rate * 0.05,
        betas=published.betas,
        clip=published.clip,
    )
    return settings, notes
