"""A scripted model, for trying out a server's routing, limits and upgrades without weights or a machine for them.

It takes the configured time, and answers any text with the text's checksum, so that a client can check that the answer
is its own. A token is a byte.

The setting `model` is "scripted:" with parameters, as in "scripted:step=20,prefill=0.1,letters=8": milliseconds a step
and a prompt token, and the length of an answer.
"""

import hashlib
import time
from collections.abc import Mapping

import numpy as np

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import (
    GREEDY,
    CacheLost,
    DraftTree,
    Engine,
    EngineInfo,
    Pieces,
    Prefilled,
    Progress,
    Sampler,
    ShouldStop,
    Snapshot,
    StepCosts,
    Tokens,
    Verified,
    ready,
)
from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.prompt import Prompt, PromptBuilder
from fastcoder_lsp.runtime.parts import ALONE, DecodeLimits, Model, Runtime, WorkspaceView
from fastcoder_lsp.tokenizer import Tokenizer

PREFIX = "scripted:"
MODULE = __name__
_END, _MIDDLE = 0, 1
_PREFILL_TOKENS = 256  # tokens between two checks whether to stop


def said_after(before: str, letters: int = 8) -> str:
    """The answer to `before`, without the line's end. It has a tilde, which no typist types along."""
    return f"~{hashlib.blake2b(before.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"[:letters]


def load_model(settings: Settings, progress: Progress, *, datastore: bool | None = None) -> Model:  # noqa: ARG001 as `runtime.load`
    """The model that the settings name; raises UsageError if its parameters are invalid."""
    engines = _ScriptedEngines(**_taken(settings.model))
    return Model(engines, _Bytes(), engines.costs(), digest="scripted")


def make_runtime(model: Model, settings: Settings, around: WorkspaceView = ALONE, front: str = "") -> Runtime:  # noqa: ARG001
    """A front's runtime."""
    return Runtime(
        slots=Slots(model.engines, front),
        tokenizer=model.tokenizer,
        prompts=_Prompts(),
        drafter=NoDrafter(),
        allow=lambda _: np.arange(256),
        limits=DecodeLimits(settings.completion_max_tokens),
        costs=model.costs,
    )


def _taken(name: str) -> dict[str, float]:
    try:
        pairs = (word.partition("=") for word in name.removeprefix(PREFIX).split(",") if word)
        values = {key: float(value) for key, _, value in pairs}
        if not set(values) <= {"step", "prefill", "letters"} or any(value < 0 for value in values.values()):
            raise ValueError  # noqa: TRY301 reported below
    except ValueError:
        raise UsageError(f"{name} is not a scripted model", "Write: scripted:step=20,prefill=0.1,letters=8") from None
    return values


class _ScriptedEngines:
    """`core.Engines` without a model: a list of tokens for each slot."""

    def __init__(self, step: float = 20.0, prefill: float = 0.1, letters: float = 8) -> None:
        self.step_ms, self.prefill_ms, self.letters = step, prefill, int(letters)
        self.info = EngineInfo("scripted", "scripted", "this program", "a clock", 256, 200_000, 64)
        self._slots: dict[str, _ScriptedSlot] = {}

    def costs(self) -> StepCosts:
        return StepCosts((1, 8), (self.step_ms, self.step_ms), self.prefill_ms)

    def slot(self, name: str) -> Engine:
        return self._slots.setdefault(name, _ScriptedSlot(self))

    def second_cache(self, name: str) -> None:
        """There is none."""

    def exchange(self, name: str) -> None:
        """There is none."""

    def swap(self, name: str) -> None:
        """There is none."""

    def forget(self, name: str) -> None:
        if (slot := self._slots.pop(name, None)) is not None:
            slot.close()

    def rename(self, old: str, new: str) -> None:
        if old != new and old in self._slots:
            self._slots[new] = self._slots.pop(old)

    def close(self) -> None:
        self._slots.clear()


class _ScriptedSlot:
    def __init__(self, engines: _ScriptedEngines) -> None:
        self._engines = engines
        self._cache: list[int] = []
        self._there = False

    @property
    def info(self) -> EngineInfo:
        return self._engines.info

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        self._there = True
        reused = common_prefix(self._cache, tokens)
        del self._cache[reused:]
        while len(self._cache) < len(tokens) and not should_stop():
            piece = tokens[len(self._cache) : len(self._cache) + _PREFILL_TOKENS]
            time.sleep(len(piece) * self._engines.prefill_ms / 1e3)
            self._cache += piece
        return Prefilled(reused, len(self._cache) - reused, done=len(self._cache) == len(tokens))

    def step(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,  # noqa: ARG002 the interface
        allowed: Mapping[int, Int64s] | None = None,  # noqa: ARG002
        top_k: int = 0,  # noqa: ARG002
    ) -> Verified:
        if not self._there:
            raise CacheLost
        time.sleep(self._engines.step_ms / 1e3)
        self._cache += tree.tokens  # all tokens are decided: there are no drafts
        at = self._cache.index(_MIDDLE)
        before = bytes(self._cache[:at]).decode("utf-8", "surrogatepass")
        text, place = said_after(before, self._engines.letters) + "\n", len(self._cache) - 1 - at
        return Verified((), (ord(text[place]) if place < len(text) else _END,))

    def cached(self) -> tuple[int, ...]:
        return tuple(self._cache)

    def close(self) -> None:
        self._cache.clear()
        self._there = False


class _Bytes(Tokenizer):
    """A tokenizer whose tokens are bytes; 0 ends the text."""

    def __init__(self) -> None:
        self.end_ids, self.identity = frozenset({_END}), "bytes"

    def piece(self, token: int) -> bytes:
        return bytes([token])

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogatepass"))


class _Prompts(PromptBuilder):
    """Prompts of the whole text before the cursor, so that the next key's prompt extends this one."""

    def __init__(self) -> None:
        """Nothing is remembered."""

    def build(self, snapshot: Snapshot, offset: int, **_: object) -> Pieces[Prompt]:
        text = snapshot.text[:offset].encode("utf-8", "surrogatepass")
        tokens = (*(byte for byte in text if byte > _MIDDLE), _MIDDLE)
        return ready(Prompt(tokens, healing=b"", typed="", template="scripted"))

    def move_anchor(self, snapshot: Snapshot, offset: int) -> Pieces[Prompt]:
        return self.build(snapshot, offset)

    def context_of(self, uri: str) -> tuple[str, ...]:  # noqa: ARG002 no code of others
        return ()

    def forget(self, uri: str) -> None:
        pass

    def rename(self, old: str, new: str) -> None:
        pass
