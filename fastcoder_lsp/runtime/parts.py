"""A loaded model, which all fronts share, and the parts of it that one front has for itself.

`load` makes them, for the one thread that touches the model. A runtime also decides which of two prompts a document
has: the one in its KV cache, or one that is prefilled in a second cache. The second takes the first one's place where
no key pays for it, and not in the middle of a line, unless the first is a short one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import Drafter, Engine, EngineInfo, Engines, Preparing, Snapshot, StepCosts, Tokens
from fastcoder_lsp.draft.base import UNTRAINED, Trained
from fastcoder_lsp.engine.prefix import common_prefix
from fastcoder_lsp.prompt import NO_CONTEXT, Context, Prompt, PromptBuilder
from fastcoder_lsp.prompt.build import begun
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
FEW: Final = 16
"""Tokens that are new where the window is not: of a line that is typed."""


@dataclass(frozen=True, slots=True)
class WorkspaceView:
    """What a model is told of the workspace.

    Attributes:
        pin: gives the datastore to drafters that read it.
        workspace: names what is worked on, for what a drafter learns is kept by it; empty: nothing is kept.
        context: finds code of other files for the prompt.
    """

    pin: "Pin | None" = None
    workspace: str = ""
    context: Context = NO_CONTEXT


ALONE = WorkspaceView()
"""A model without a workspace."""


@dataclass(frozen=True, slots=True)
class DecodeLimits:
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

    def prepare(self) -> bool:
        """Work of the engine that can wait (`core.Preparing`)."""
        return isinstance(self.engines, Preparing) and self.engines.prepare()

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
    limits: DecodeLimits
    costs: StepCosts
    closing: Callable[[], None] = _nothing_more

    @property
    def info(self) -> EngineInfo:
        """What engine runs."""
        return self.slots.info

    def engine_for(self, document: str) -> Engine:
        """The engine with the KV cache of this document."""
        return self.slots.of(document)

    def prompt_for(self, snapshot: Snapshot, offset: int, *, hurried: bool = False, room: int | None = None) -> Prompt:
        """The document's prompt at `offset`, by the second cache where that costs no token more.

        In the middle of a line only where the window is read anew, or is a short one: else who types there is to find
        everything as it was. For a whole window in the place of a short one, a key pays a few tokens.

        Args:
            snapshot: the document.
            offset: the cursor.
            hurried: see `PromptBuilder.build`.
            room: the same; not heeded where there is no second cache for the whole prompt.
        """
        prompts, uri = self.prompts, snapshot.uri
        second = self.slots.beside(uri)
        prompt = prompts.build(snapshot, offset, hurried=hurried, room=room if second is not None else None)
        if second is None:
            return prompt
        first = self.engine_for(uri)
        new, held = missing(first, prompt.tokens), len(first.cached())
        if prompts.is_short(uri) and held - (len(prompt.tokens) - new) > len(prompt.tokens):
            self.slots.swap(uri)  # the whole prompt, which is prepared next, has more in common with what is held
            return prompt
        short = prompts.is_short(uri)
        if not second.cached() or (begun(snapshot.text, offset) and new <= FEW and not short):
            return prompt
        planned = prompts.planned(snapshot, offset)
        if planned is None or missing(second, planned.tokens) > max(new, FEW if short else 0):
            return prompt
        return self._exchange(snapshot, offset)

    def whole_prompt_for(self, snapshot: Snapshot, offset: int) -> Prompt:
        """The prompt that a first question here gets, however much of it is to be computed still."""
        self.prompts.plan(snapshot, offset)
        if self.prompts.planned(snapshot, offset) is None or self.slots.beside(snapshot.uri) is None:
            return self.prompts.build(snapshot, offset)
        return self._exchange(snapshot, offset)

    def is_interim(self, uri: str) -> bool:
        """Whether a text by the document's prompt is shown only until there is one by the whole prompt."""
        return self.slots.beside(uri) is not None and self.prompts.is_interim(uri)

    def exchange_computed(self, snapshot: Snapshot, offset: int) -> bool:
        """Put the planned prompt in the old one's place, if the second cache holds it as it would be at this moment."""
        planned, second = self.prompts.planned(snapshot, offset), self.slots.beside(snapshot.uri)
        if planned is None or second is None or missing(second, planned.tokens) > 1:
            return False
        self._exchange(snapshot, offset)
        return True

    def _exchange(self, snapshot: Snapshot, offset: int) -> Prompt:
        self.slots.exchange(snapshot.uri)
        return self.prompts.exchange(snapshot, offset)

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


def missing(engine: Engine, tokens: Tokens) -> int:
    """How many of `tokens` are not in the engine's cache."""
    return len(tokens) - common_prefix(engine.cached(), tokens)
