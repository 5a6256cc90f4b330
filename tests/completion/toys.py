"""Parts of a runtime that know nothing: a token is a byte, and a prompt is what a function makes of the text.

They are subclasses of the real parts, so that a type checker compares what they take and give.
"""

from collections.abc import Callable

import numpy as np

from fastcoder_lsp.core import Engine, Pieces, Snapshot, StepCosts, ready
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.base import Drafter, NoDrafter
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.prompt import Prompt, PromptBuilder, PromptOptions
from fastcoder_lsp.runtime.parts import DecodeLimits, Model, Runtime
from fastcoder_lsp.tokenizer import Tokenizer
from tests.fake_engine import END, marked
from tests.index.toy_encoder import ToyEncoder

QUICK = StepCosts((1, 8), (1.0, 2.0), 0.1)


class Letters(Tokenizer):
    """A token is a byte; 0 ends the text."""

    def __init__(self) -> None:
        self.end_ids = frozenset({END})

    def piece(self, token: int) -> bytes:
        return bytes([token])

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogatepass"))


class ToyPrompts(PromptBuilder):
    """`tokens` of the text before the cursor; remembers what else it was asked for."""

    def __init__(self, tokens: Callable[[str], tuple[int, ...]], options: PromptOptions | None = None) -> None:
        self.options = options or PromptOptions()
        self._tokens_of = tokens
        self.calls: list[tuple[str, str]] = []

    def build(self, snapshot: Snapshot, offset: int, **_: object) -> Pieces[Prompt]:
        return ready(Prompt(self._tokens_of(snapshot.text[:offset]), healing=b"", typed="", template="toy"))

    def move_anchor(self, snapshot: Snapshot, offset: int) -> Pieces[Prompt]:
        self.calls.append(("move_anchor", snapshot.uri))
        return self.build(snapshot, offset)

    def may_show(self, uri: str) -> bool:
        return True

    def is_short(self, uri: str) -> bool:
        return False

    def context_of(self, uri: str) -> tuple[str, ...]:
        return ()

    def is_interim(self, uri: str) -> bool:
        return False

    def is_partial(self, uri: str) -> bool:
        return False

    def plan(self, snapshot: Snapshot, offset: int) -> Pieces[None]:
        """No code goes along."""
        return ready(None)

    def planned(self, snapshot: Snapshot, offset: int) -> None:
        """No code goes along."""

    def forget(self, uri: str) -> None:
        self.calls.append(("forget", uri))

    def rename(self, old: str, new: str) -> None:
        self.calls.append(("rename", new))


class Encoding(ToyEncoder, Letters):
    """Decodes letters and encodes words; nobody compares the two."""

    def __init__(self) -> None:
        ToyEncoder.__init__(self)
        Letters.__init__(self)


def toy_model(engine: Engine, tokenizer: Tokenizer | None = None) -> Model:
    return Model(OneSlot(engine), tokenizer or Letters(), QUICK)


def toy_runtime(
    model: Model,
    prompts: PromptBuilder | None = None,
    front: str = "",
    *,
    drafter: Drafter | None = None,
    max_tokens: int = 64,
    closing: Callable[[], None] = lambda: None,
) -> Runtime:
    """A front's part of a model; its prompts are `marked` texts by default."""
    return Runtime(
        slots=Slots(model.engines, front),
        tokenizer=model.tokenizer,
        prompts=prompts or ToyPrompts(marked),
        drafter=drafter or NoDrafter(),
        allow=lambda _: np.arange(256),
        limits=DecodeLimits(max_tokens=max_tokens),
        costs=model.costs,
        closing=closing,
    )
