"""Several names for the single KV cache of an engine: `core.Engines` for engines of every kind.

A slot that begins to prefill takes the cache over, and keeps the prefix of its text that it finds there; the previous
owner's next call raises CacheLost.
"""

from collections.abc import Mapping, Sequence

from fastcoder_lsp.core import (
    GREEDY,
    CacheLost,
    DraftTree,
    Engine,
    KeepingEngine,
    LaunchingEngine,
    Prefilled,
    Preparing,
    Sampler,
    ShouldStop,
    Tokens,
    Verified,
)
from fastcoder_lsp.core.arrays import Floats, Int64s


class OneSlot(Preparing):
    """`core.Engines` over one engine and its one cache. `engine`: closed with this."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.info = engine, engine.info
        self._owner: _Borrowed | None = None
        self._slots: dict[str, _Borrowed] = {}

    def slot(self, name: str) -> Engine:
        """The engine by this name; launches and collects separately if the engine below can."""
        if name not in self._slots:
            kind = _BorrowedLaunching if isinstance(self.engine, LaunchingEngine) else _Borrowed
            self._slots[name] = kind(self)
        return self._slots[name]

    def second_cache(self, name: str) -> Engine | None:  # noqa: ARG002 as the protocol has it
        """None: preparing a second cache would take the only one away from its user."""
        return None

    def exchange(self, name: str) -> None:
        """Do nothing: there is no second cache."""

    def swap(self, name: str) -> None:
        """Do nothing: there is no second cache."""

    def forget(self, name: str) -> None:
        """Release the cache, if this slot owns it; the engine keeps its memory."""
        if (slot := self._slots.pop(name, None)) is not None:
            slot.close()

    def rename(self, old: str, new: str) -> None:
        """Rename a slot."""
        if old != new and old in self._slots:
            self.forget(new)
            self._slots[new] = self._slots.pop(old)

    def close(self) -> None:
        """Close the engine."""
        self._slots.clear()
        self._owner = None
        self.engine.close()

    def prepare(self) -> bool:
        """Do deferrable work of the engine (`core.Preparing`)."""
        return isinstance(self.engine, Preparing) and self.engine.prepare()

    def owned_by(self, slot: "_Borrowed") -> bool:
        """Whether `slot` owns the cache."""
        return self._owner is slot

    def taken_by(self, slot: "_Borrowed | None") -> Engine:
        """The engine, with the cache owned by this slot from now on."""
        self._owner = slot
        return self.engine

    def engine_of(self, slot: "_Borrowed") -> Engine:
        """The engine, if this slot owns the cache. Raises CacheLost if another slot has taken it."""
        if self._owner is not slot:
            raise CacheLost
        return self.engine


class _Borrowed:
    def __init__(self, owner: OneSlot) -> None:
        self._owner, self.info = owner, owner.info

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        return self._owner.taken_by(self).prefill(tokens, should_stop)

    def step(
        self, tree: DraftTree, sampler: Sampler = GREEDY, allowed: Mapping[int, Int64s] | None = None, top_k: int = 0
    ) -> Verified:
        return self._owner.engine_of(self).step(tree, sampler, allowed, top_k)

    def cached(self) -> tuple[int, ...]:
        return self._owner.engine_of(self).cached() if self._owner.owned_by(self) else ()

    def keep_states(self, layers: Sequence[int]) -> bool:
        engine = self._owner.engine
        return engine.keep_states(layers) if isinstance(engine, KeepingEngine) else not layers

    def states(self, layers: Sequence[int], start: int, stop: int) -> Floats:
        engine = self._owner.engine_of(self)
        assert isinstance(engine, KeepingEngine)
        return engine.states(layers, start, stop)

    def embed(self, tokens: Tokens) -> Floats:
        engine = self._owner.engine
        assert isinstance(engine, KeepingEngine)
        return engine.embed(tokens)

    def close(self) -> None:
        if self._owner.owned_by(self):
            self._owner.taken_by(None)


class _BorrowedLaunching(_Borrowed):
    """A slot of an engine whose step can be launched and collected separately."""

    def launch(
        self, tree: DraftTree, sampler: Sampler = GREEDY, allowed: Mapping[int, Int64s] | None = None, top_k: int = 0
    ) -> None:
        engine = self._owner.engine_of(self)
        assert isinstance(engine, LaunchingEngine)
        engine.launch(tree, sampler, allowed, top_k)

    def collect(self) -> Verified:
        engine = self._owner.engine_of(self)
        assert isinstance(engine, LaunchingEngine)
        return engine.collect()
