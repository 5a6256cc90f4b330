"""A loaded model, which all fronts share, and the parts that each front has for itself.

A runtime also chooses between a document's prompt in its KV cache and the one that is prefilled in the second cache.
The second replaces the first when that costs no key anything, and not in the middle of a line, unless the first is a
short one.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from fastcoder_lsp.core import Engine, EngineInfo, Engines, Pieces, Preparing, Snapshot, StepCosts, Tokens
from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.base import UNTRAINED, Drafter, Trained
from fastcoder_lsp.prompt import NO_CONTEXT, Context, Prompt, PromptBuilder
from fastcoder_lsp.prompt.build import begun
from fastcoder_lsp.runtime.edit_model import EditModelOf, EditModels, no_edit_model
from fastcoder_lsp.runtime.later_drafts import LaterDrafts
from fastcoder_lsp.runtime.smaller_models import SmallerModels
from fastcoder_lsp.tokenizer import Tokenizer

if TYPE_CHECKING:
    from fastcoder_lsp.draft.base import Pin

CPU_NODES = 8  # least rows of a verification on a CPU: with AVX-512 VNNI eight rows cost a quarter more than one
DEARER = 1.4
"""Longest step for drafters that ignore costs, in times of a single row; with AMX sixteen rows stay below it."""
GPU_NODES = 64
"""Rows on a GPU, where width costs hardly more, and for drafters that choose the width by its cost."""
FEW: Final = 16  # most new tokens of a prompt whose window stays: those of a typed line


@dataclass(frozen=True, slots=True)
class WorkspaceView:
    """A model's view of the workspace.

    `pin` gives the datastore to drafters that read it. `workspace`: the name under which drafters keep what they learn;
    empty: they keep nothing. `context` finds code of other files for the prompt.
    """

    pin: "Pin | None" = None
    workspace: str = ""
    context: Context = NO_CONTEXT


ALONE = WorkspaceView()  # no workspace


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """Most tokens of a completion, and most rows (`nodes`) of a verification."""

    max_tokens: int
    nodes: int = CPU_NODES


Tell: TypeAlias = Callable[[str, int | None], None]
"""Receives the stage of the wanted model, in words, and its percentage where it is known."""


class Successor(ABC):
    """Makes the wanted model (`name`) ready while another one answers.

    `stopped` is set from any thread where it is no longer wanted; closing the model that answers sets it.
    """

    def __init__(self, name: str) -> None:
        self.name, self.stopped = name, threading.Event()

    @abstractmethod
    def make(self, tell: Tell) -> "Model | None":
        """Wait for the files, and prepare the model; takes as long as that takes. `tell` receives the stages.

        Returns None if stopped, and where it cannot be loaded beside the one that answers: unload that first. Raises
        FastcoderError if it cannot be made ready.
        """

    @abstractmethod
    def settled(self, model: "Model") -> "Model":
        """The model as it takes over, in the thread that runs it, its costs corrected."""


@dataclass(frozen=True, slots=True)
class Model(Preparing):
    """A loaded model, shared by all fronts."""

    engines: Engines  # the weights, with a KV cache for each of the fronts' documents
    tokenizer: Tokenizer
    costs: StepCosts
    trained: Trained = UNTRAINED
    digest: str = ""  # identifies its weights
    smaller: SmallerModels | None = None
    edits: EditModels | None = None  # the edit models beside it, if there may be any
    news: str = ""  # to be told to the user, empty for nothing
    successor: Successor | None = None  # makes the wanted model ready, if this one only answers meanwhile
    later: LaterDrafts | None = None  # compiles the drafter after the first text, on a first start

    @property
    def info(self) -> EngineInfo:
        """Facts of the engine that runs it."""
        return self.engines.info

    def prepare(self) -> bool:
        """Do a piece of deferred engine work (`core.Preparing`)."""
        if self.later is not None:
            self.later.begin()
        return isinstance(self.engines, Preparing) and self.engines.prepare()

    def once_drafting(self, call: Callable[[], object]) -> None:
        """Call a function as soon as drafters can run, in any thread; now, but on a first start."""
        if self.later is None:
            call()
        else:
            self.later.call(call)

    def measure(self) -> bool:
        """Time a step of an edit model; returns False where none is left to be timed."""
        return self.edits is not None and self.edits.measure()

    def close(self) -> None:
        """Free all models' memory, and stop the successor; none of its runtimes may be used afterwards."""
        if self.successor is not None:
            self.successor.stopped.set()
        if self.later is not None:
            self.later.close()
        self.engines.close()
        if self.smaller is not None:
            self.smaller.close()
        if self.edits is not None:
            self.edits.close()


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything a completion of one front needs; only the scheduler's thread touches it."""

    slots: Slots  # the engine, with a KV cache for each of the front's documents
    tokenizer: Tokenizer
    prompts: PromptBuilder  # builds prompts, and remembers each document's earlier ones
    drafter: Drafter
    allow: Callable[[bytes], Int64s]  # the ids that may come next while bytes are left to heal
    limits: DecodeLimits
    costs: StepCosts
    context: Context = NO_CONTEXT
    edit_model: EditModelOf = no_edit_model
    closing: Callable[[], None] = lambda: None  # closes what belongs to this runtime: nothing if the model is shared

    @property
    def info(self) -> EngineInfo:
        """Facts of the engine."""
        return self.slots.info

    def engine_for(self, document: str) -> Engine:
        """The engine with this document's KV cache."""
        return self.slots.of(document)

    def prompt_for(
        self, snapshot: Snapshot, offset: int, *, hurried: bool = False, room: int | None = None, by_key: bool = False
    ) -> Pieces[Prompt]:
        """The document's prompt at `offset`, from the second cache if that costs no extra token.

        In the middle of a line the caches are exchanged only if the window is read anew or is a short one. Otherwise a
        suggestion could change while the user types it. The full prompt can make a key a few tokens dearer.

        Args:
            snapshot: the document.
            offset: the cursor.
            hurried: see `PromptBuilder.build`.
            room: see `PromptBuilder.build`; ignored without a second cache for the whole prompt.
            by_key: plan the whole prompt now, not in a pause: the document's prompt may hold the code of another place,
                and its text is then interim.
        """
        prompts, uri = self.prompts, snapshot.uri
        room = room if self.slots.second_cache(uri) is not None else None
        prompt = yield from prompts.build(snapshot, offset, hurried=hurried, room=room)
        if by_key and room is not None:
            yield from prompts.plan(snapshot, offset)
        second = self.slots.second_cache(uri)
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

    def whole_prompt_for(self, snapshot: Snapshot, offset: int) -> Pieces[Prompt]:
        """The prompt for a first question here, however much of it is not computed yet."""
        yield from self.prompts.plan(snapshot, offset)
        if self.prompts.planned(snapshot, offset) is None or self.slots.second_cache(snapshot.uri) is None:
            return (yield from self.prompts.build(snapshot, offset))
        return self._exchange(snapshot, offset)

    def is_interim(self, uri: str) -> bool:
        """Whether suggestions from the document's prompt are interim, because the whole prompt will replace it."""
        return self.slots.second_cache(uri) is not None and self.prompts.is_interim(uri)

    def exchange_computed(self, snapshot: Snapshot, offset: int) -> bool:
        """Exchange the caches if the second one holds the prompt that would be built at this moment."""
        planned, second = self.prompts.planned(snapshot, offset), self.slots.second_cache(snapshot.uri)
        if planned is None or second is None or missing(second, planned.tokens) > 1:
            return False
        self._exchange(snapshot, offset)
        return True

    def _exchange(self, snapshot: Snapshot, offset: int) -> Prompt:
        self.slots.exchange(snapshot.uri)
        return self.prompts.exchange(snapshot, offset)

    def keep(self) -> None:
        """Write what was learnt to the disk; takes milliseconds, so call it between requests."""
        self.drafter.keep()

    def close(self) -> None:
        """Write what was learnt, and free this front's memory."""
        self.keep()
        self.slots.close()
        self.closing()

    def forget(self, uri: str) -> None:
        """Close a document; its prompt, and what it taught the drafter, stay as long as its KV cache."""
        self.drafter.keep()
        for given_up in self.slots.forget(uri):
            self.prompts.forget(given_up)
            self.drafter.forget(given_up)

    def rename(self, old: str, new: str) -> None:
        """Carry over the state of a renamed document."""
        self.prompts.rename(old, new)
        self.drafter.rename(old, new)
        self.slots.rename(old, new)


def cpu_nodes(costs: StepCosts) -> int:
    """Rows of every step on this CPU, for drafters that fill all rows."""
    cheap = (width for width, ms in zip(costs.widths, costs.ms, strict=True) if ms <= DEARER * costs.ms[0])
    return max(CPU_NODES, *cheap)


def missing(engine: Engine, tokens: Tokens) -> int:
    """The number of `tokens` that are not in the engine's cache."""
    return len(tokens) - common_prefix(engine.cached(), tokens)
