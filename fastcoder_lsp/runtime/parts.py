"""A loaded model, which all fronts share, and the parts of it that one front has for itself.

Owns no decision at a request: these are the values that `load` makes, for the one thread that touches the model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import Drafter, Engine, EngineInfo, Engines, StepCosts
from fastcoder_lsp.draft.base import UNTRAINED, Trained
from fastcoder_lsp.prompt import NO_CONTEXT, Context, PromptBuilder
from fastcoder_lsp.runtime.slots import Slots
from fastcoder_lsp.runtime.smaller_models import SmallerModels
from fastcoder_lsp.tokenizer import Tokenizer

if TYPE_CHECKING:
    from fastcoder_lsp.draft.base import Pin

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
class Model:
    """What is loaded once, however many fronts there are.

    Attributes:
        engines: the weights, with a KV cache for each of the fronts' documents.
        tokenizer: text ↔ ids.
        costs: of its steps on this machine.
        trained: what it was tuned for.
        digest: names its weights.
        smaller: models that draft for it; None: there are none.
    """

    engines: Engines
    tokenizer: Tokenizer
    costs: StepCosts
    trained: Trained = UNTRAINED
    digest: str = ""
    smaller: SmallerModels | None = None

    @property
    def info(self) -> EngineInfo:
        """What engine runs it."""
        return self.engines.info

    def close(self) -> None:
        """Give the model's memory back; no runtime of it is to be used after."""
        self.engines.close()
        if self.smaller is not None:
            self.smaller.close()


def _nothing_more() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything a completion of one front needs; only the scheduler's thread touches it.

    Attributes:
        slots: the engine, with a KV cache for each of the front's documents.
        tokenizer: text ↔ ids.
        prompts: builds them, with what each document was asked before.
        drafter: guesses ahead, and learns from this front alone.
        allow: the ids that may come next while so many bytes are left to be healed.
        limits: of a decode.
        costs: of the engine's steps.
        closing: what ends with it, too: nothing where the model is shared.
    """

    slots: Slots
    tokenizer: Tokenizer
    prompts: PromptBuilder
    drafter: Drafter
    allow: Callable[[bytes], npt.NDArray[np.int64]]
    limits: Limits
    costs: StepCosts
    closing: Callable[[], None] = _nothing_more

    @property
    def info(self) -> EngineInfo:
        """What engine runs."""
        return self.slots.info

    def engine_for(self, document: str) -> Engine:
        """The engine with the KV cache of this document."""
        return self.slots.of(document)

    def keep(self) -> None:
        """Write what was learnt to the disk: milliseconds, for when nobody waits."""
        self.drafter.keep()

    def close(self) -> None:
        """Keep what was learnt, and give the memory back that this front has."""
        self.keep()
        self.slots.close()
        self.closing()

    def forget(self, uri: str) -> None:
        """Drop what is kept for a closed document; its prompt goes when its cache goes, for who opens it again."""
        self.drafter.forget(uri)
        for given_up in self.slots.forget(uri):
            self.prompts.forget(given_up)

    def rename(self, old: str, new: str) -> None:
        """Carry over what is kept for a document."""
        self.prompts.rename(old, new)
        self.drafter.rename(old, new)
        self.slots.rename(old, new)


def cpu_nodes(costs: StepCosts) -> int:
    """Rows of every step on this CPU, for drafters that fill what they get."""
    cheap = (width for width, ms in zip(costs.widths, costs.ms, strict=True) if ms <= DEARER * costs.ms[0])
    return max(CPU_NODES, *cheap)
