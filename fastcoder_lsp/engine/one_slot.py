"""Several names for the one KV cache of an engine that has no more: `core.Engines` for engines of every kind.

Owns whose tokens the cache holds. Whoever begins to prefill takes it over, and keeps what the engine finds of its text
there; whoever had it finds its own gone.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import (
    GREEDY,
    CacheLost,
    DraftTree,
    Engine,
    EngineInfo,
    KeepingEngine,
    LaunchingEngine,
    Prefilled,
    Preparing,
    Sampler,
    ShouldStop,
    Tokens,
    Verified,
)


class OneSlot(Preparing):
    """`core.Engines` over one engine and its one cache.

    Args:
        engine: closed with this.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._owner: _Borrowed | None = None
        self._slots: dict[str, _Borrowed] = {}

    @property
    def info(self) -> EngineInfo:
        """What runs."""
        return self._engine.info

    def slot(self, name: str) -> Engine:
        """The engine by this name; launching and collecting apart where the one below can."""
        if name not in self._slots:
            kind = _BorrowedLaunching if isinstance(self._engine, LaunchingEngine) else _Borrowed
            self._slots[name] = kind(self)
        return self._slots[name]

    def beside(self, name: str) -> Engine | None:  # noqa: ARG002 as the protocol has it
        """There is no second cache: what is prepared for later would take the one away from who uses it."""
        return None

    def exchange(self, name: str) -> None:
        """There is no second cache."""

    def swap(self, name: str) -> None:
        """There is no second cache."""

    def forget(self, name: str) -> None:
        """The cache is nobody's, where it was this one's; its memory is the engine's for good."""
        if (slot := self._slots.pop(name, None)) is not None:
            slot.close()

    def rename(self, old: str, new: str) -> None:
        """Carry a slot over to another name."""
        if old != new and old in self._slots:
            self.forget(new)
            self._slots[new] = self._slots.pop(old)

    def close(self) -> None:
        """Close the engine."""
        self._slots.clear()
        self._owner = None
        self._engine.close()

    def prepare(self) -> bool:
        """Work of the engine that can wait (`core.Preparing`)."""
        return isinstance(self._engine, Preparing) and self._engine.prepare()

    @property
    def engine(self) -> Engine:
        """The engine, whoever has its cache: for what is not about the cache's tokens."""
        return self._engine

    def owned_by(self, slot: "_Borrowed") -> bool:
        """Whether the cache holds what `slot` left there."""
        return self._owner is slot

    def taken_by(self, slot: "_Borrowed | None") -> Engine:
        """The engine, for this slot from now on."""
        self._owner = slot
        return self._engine

    def engine_of(self, slot: "_Borrowed") -> Engine:
        """The engine, where the cache is this slot's.

        Raises:
            CacheLost: another one has taken it.
        """
        if self._owner is not slot:
            raise CacheLost
        return self._engine


class _Borrowed:
    """The engine under one name."""

    def __init__(self, owner: OneSlot) -> None:
        self._owner = owner

    @property
    def info(self) -> EngineInfo:
        return self._owner.info

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        return self._owner.taken_by(self).prefill(tokens, should_stop)

    def step(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: Mapping[int, npt.NDArray[np.int64]] | None = None,
        top_k: int = 0,
    ) -> Verified:
        return self._owner.engine_of(self).step(tree, sampler, allowed, top_k)

    def cached(self) -> tuple[int, ...]:
        return self._owner.engine_of(self).cached() if self._owner.owned_by(self) else ()

    def keep_states(self, layers: Sequence[int]) -> bool:
        """Hidden states are the engine's, as the cache is: whoever asks for more of them empties it for all."""
        engine = self._owner.engine
        return engine.keep_states(layers) if isinstance(engine, KeepingEngine) else not layers

    def states(self, layers: Sequence[int], start: int, stop: int) -> npt.NDArray[np.float32]:
        engine = self._owner.engine_of(self)
        assert isinstance(engine, KeepingEngine)
        return engine.states(layers, start, stop)

    def embed(self, tokens: Tokens) -> npt.NDArray[np.float32]:
        engine = self._owner.engine
        assert isinstance(engine, KeepingEngine)
        return engine.embed(tokens)

    def close(self) -> None:
        if self._owner.owned_by(self):
            self._owner.taken_by(None)


class _BorrowedLaunching(_Borrowed):
    """The same of an engine whose step can be launched and collected apart."""

    def launch(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: Mapping[int, npt.NDArray[np.int64]] | None = None,
        top_k: int = 0,
    ) -> None:
        engine = self._owner.engine_of(self)
        assert isinstance(engine, LaunchingEngine)
        engine.launch(tree, sampler, allowed, top_k)

    def collect(self) -> Verified:
        engine = self._owner.engine_of(self)
        assert isinstance(engine, LaunchingEngine)
        return engine.collect()
