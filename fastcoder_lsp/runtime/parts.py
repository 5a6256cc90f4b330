"""The parts of a running model, and what each is limited to.

Owns no decision at a request: it is the value that `load` makes, for the one thread that touches the model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import Drafter, Engine, StepCosts
from fastcoder_lsp.prompt import NO_CONTEXT, Context, PromptBuilder
from fastcoder_lsp.tokenizer import Tokenizer

if TYPE_CHECKING:
    from fastcoder_lsp.draft.store import Pin

CPU_NODES = 8
"""Rows of one verification on a CPU at least: by AVX-512 VNNI eight cost a quarter more than one."""
DEARER = 1.4
"""Of a single row's time: what wider steps may take for drafters that do not weigh costs; by AMX sixteen rows do."""
GPU_NODES = 64
"""On a GPU, where a step of this width costs hardly more than one row: the published setting; and wherever the drafter
chooses the width by what it costs."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a model is told of the workspace.

    Attributes:
        pin: gives the datastore to drafters that read it.
        workspace: names what is worked on, for what a drafter learns is kept by it; empty: nothing is kept.
        context: finds code of other files for the prompt.
    """

    pin: "Pin | None" = None
    workspace: str = ""
    context: Context = NO_CONTEXT


ALONE = Surroundings()
"""A model without a workspace."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a decode may take.

    Attributes:
        max_tokens: tokens of one completion.
        nodes: rows of one verification.
    """

    max_tokens: int
    nodes: int = CPU_NODES


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything a completion needs; only the service's worker touches it."""

    engine: Engine
    tokenizer: Tokenizer
    prompts: PromptBuilder
    drafter: Drafter
    allow: Callable[[bytes], npt.NDArray[np.int64]]
    limits: Limits
    costs: StepCosts

    def keep(self) -> None:
        """Write what was learnt to the disk: milliseconds, for when nobody waits."""
        self.drafter.keep()

    def close(self) -> None:
        """Keep what was learnt, and give the model's memory back."""
        self.keep()
        self.engine.close()

    def forget(self, uri: str) -> None:
        """Drop what is kept for a closed document."""
        self.prompts.forget(uri)
        self.drafter.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """Carry over what is kept for a document."""
        self.prompts.rename(old, new)
        self.drafter.rename(old, new)


def cpu_nodes(costs: StepCosts) -> int:
    """Rows of every step on this CPU, for drafters that fill what they get."""
    cheap = (width for width, ms in zip(costs.widths, costs.ms, strict=True) if ms <= DEARER * costs.ms[0])
    return max(CPU_NODES, *cheap)
