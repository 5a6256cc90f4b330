"""Several KV caches over one set of weights: one for each text that is worked on, as many as a budget of memory holds.

Owns which slot has memory. What a new text shares with another one's beginning is copied, which takes a thousandth of
the time of computing it and gives the same bits; where memory is short, what a shortened cache does not use any more
goes first, then what is only prepared beside another one, then the cache that was used least recently. What is prepared
takes no memory from those that were used last. The arithmetic is the backend's, the order of things in a slot
`TreeEngine`'s.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import (
    GREEDY,
    CacheLost,
    DraftTree,
    Engine,
    EngineInfo,
    Engines,
    Prefilled,
    Sampler,
    ShouldStop,
    Tokens,
    Verified,
)
from fastcoder_lsp.engine.backend import Backend, SkimmingBackend
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.prefix import common_prefix
from fastcoder_lsp.engine.states import KeepingBackend, can_keep, with_layers
from fastcoder_lsp.engine.tree_engine import TreeEngine

WORTH = 16
"""Tokens of another slot's beginning that must be gained for a copy to pay: it touches every layer."""
RECENT = 4
"""So many caches that were used last give way to nothing that is only prepared. Older ones do: nobody closes a cache
before memory is short, so that after a day's work there would be no room for what is prepared."""
SLACK = 128
"""Tokens beyond what a slot holds whose memory is worth giving back to the system."""


@runtime_checkable
class SharingBackend(Backend, Protocol):
    """A backend of which there may be several over the same weights, each with a KV cache of its own."""

    @property
    def touched(self) -> int:
        """Slots of the cache from the first on that take memory."""
        ...

    def another(self) -> Self:
        """One more over the same weights, its cache empty; its `close` gives its cache back and no more."""
        ...

    def take(self, other: Self, start: int, stop: int) -> None:
        """Copy the slots `start`…`stop` of another one's cache, and perhaps some beside them.

        Both agree up to `start`, and of what is behind `stop` nothing counts here.
        """
        ...

    def bytes_of(self, slots: int) -> int:
        """Memory that the cache takes where so many slots were written."""
        ...

    def trim(self, slots: int) -> None:
        """Give back what memory can be given back beyond the first `slots`; their content counts no more."""
        ...


def several(engine: Engine, kv_mb: int) -> Engines:
    """KV caches for several texts over an engine that was just loaded: of `kv_mb` MB in all, or one that goes round."""
    if isinstance(engine, TreeEngine) and isinstance(engine.backend, SharingBackend):
        return SlotEngines(engine.backend, engine.info, kv_mb * 1_000_000)
    return OneSlot(engine)


class SlotEngines:
    """`core.Engines` over a backend that shares its weights.

    Args:
        backend: has the weights; its own cache is not used. Closed with this.
        info: of every slot.
        most_bytes: of all caches together; one is kept however large.
    """

    def __init__(self, backend: SharingBackend, info: EngineInfo, most_bytes: int) -> None:
        self._backend, self._most = backend, most_bytes
        self._group_of: Callable[[str], str] = lambda _: ""
        self.info = info
        self._slots: dict[str, Slot] = {}
        self._beside: dict[str, Slot] = {}
        self._held: dict[Slot, None] = {}
        """Those that have memory, the one used last at the end; forgotten ones among them, if they are used still."""

    def slot(self, name: str) -> "Slot":
        """The engine whose KV cache goes by this name."""
        if name not in self._slots:
            self._slots[name] = Slot(self, self._group_of(name))
        return self._slots[name]

    def beside(self, name: str) -> "Slot":
        """A second KV cache for the text of this name: it gives way to every other, and none that is in use to it."""
        if name not in self._beside:
            self._beside[name] = Slot(self, self._group_of(name), spare=True)
        return self._beside[name]

    def exchange(self, name: str) -> None:
        """The second cache of this name takes the place of the first."""
        if (slot := self._beside.pop(name, None)) is not None:
            self.forget(name)
            slot.spare = False
            self._slots[name] = slot

    def swap(self, name: str) -> None:
        """The two caches of this name exchange their places."""
        main, beside = self.slot(name), self.beside(name)
        main.spare, beside.spare = True, False
        self._slots[name], self._beside[name] = beside, main

    def part(self, group_of: Callable[[str], str]) -> None:
        """From now on nothing is copied between groups of slots; to which a new one belongs, its name says for good."""
        self._group_of = group_of

    def forget(self, name: str) -> None:
        """Give back the memory of this slot, and of what was prepared beside it."""
        for slots in (self._slots, self._beside):
            if (slot := slots.pop(name, None)) is not None:
                slot.close()

    def rename(self, old: str, new: str) -> None:
        """Carry a slot over to another name, and what was prepared beside it."""
        if old != new and old in self._slots:
            self.forget(new)
            for slots in (self._slots, self._beside):
                if old in slots:
                    slots[new] = slots.pop(old)

    def close(self) -> None:
        """Give all memory back, the weights' too."""
        for slot in list(self._held):
            slot.close()
        self._slots.clear()
        self._beside.clear()
        self._backend.close()

    def bytes_held(self) -> int:
        """Memory that all caches take."""
        return sum(slot.bytes_held() for slot in self._held)

    def claim(self, slot: "Slot", tokens: Tokens) -> TreeEngine | None:
        """Give `slot` a cache that holds as much of `tokens` as is known anywhere; its engine.

        None where it is a spare one for which others would have to give way that were used lately.
        """
        engine = slot.engine or self._open(slot)
        if engine is None or (slot.spare and not self._spares(slot, len(tokens))):
            slot.close()
            return None
        shared = common_prefix(engine.cached(), tokens)
        if len(tokens) - shared >= WORTH:
            self._share(slot, tokens, shared)  # before others give way: it may be one of them that is copied from
        self.make_room(slot, len(tokens))
        return engine

    def make_room(self, slot: "Slot", tokens: int) -> None:
        """`slot` is about to hold so many tokens: others give way if need be, as little as will do."""
        self._held.pop(slot, None)
        self._held[slot] = None
        if self._fits(slot, tokens):
            return
        for other in list(self._held):
            other.trim()
        for other in sorted(self._held, key=lambda one: not one.spare):  # of a kind, the one used least recently
            if other is slot or self._fits(slot, tokens):
                return
            other.close()

    @property
    def sublayers(self) -> int:
        """Parts of the model that may be left out."""
        return self._backend.sublayers if isinstance(self._backend, SkimmingBackend) else 0

    def keep_states(self, layers: Sequence[int]) -> bool:
        """Keep hidden states behind these layers in all caches; they are given up where they have not all of them."""
        if not can_keep(self._backend, layers):
            return not layers
        if (needed := with_layers(self._backend, layers)) is not None:
            for slot in list(self._held):
                slot.close()
            self._backend.keep_states(needed)
        return True

    def embed(self, tokens: Tokens) -> npt.NDArray[np.float32]:
        """The embeddings of tokens, [tokens, E]."""
        assert isinstance(self._backend, KeepingBackend)
        return self._backend.embed(np.asarray(tokens, np.int64))

    def given_up(self, slot: "Slot") -> None:
        """`slot` has no memory any more."""
        self._held.pop(slot, None)

    def _fits(self, slot: "Slot", tokens: int, freed: int = 0) -> bool:
        """Whether all caches stay within what they may take where `slot` comes to hold so many tokens.

        `freed`: bytes that others are to give back.
        """
        others = self.bytes_held() - slot.bytes_held() - freed
        return others + slot.bytes_at(tokens + self.info.max_nodes) <= self._most

    def _spares(self, slot: "Slot", tokens: int) -> bool:
        """Whether `slot` may come to hold so many tokens; what others do not use, or not lately, they give back."""
        if self._fits(slot, tokens):
            return True
        for other in list(self._held):
            other.trim()
        others = [other for other in self._held if other is not slot]
        old = sorted(others[:-RECENT], key=lambda one: not one.spare)
        if not self._fits(slot, tokens, sum(other.bytes_held() for other in old)):
            return False
        for other in old:
            if self._fits(slot, tokens):
                break
            other.close()
        return True

    def _open(self, slot: "Slot") -> TreeEngine | None:
        """An empty cache for `slot`; where the system has no memory for it, all others are given up first.

        None where it is a spare one, for which none is.
        """
        try:
            backend = self._backend.another()
        except (MemoryError, OSError, RuntimeError):  # by the system, by the map of memory, and by torch
            if slot.spare:
                return None
            for other in list(self._held):
                other.close()
            backend = self._backend.another()
        return slot.open(backend)

    def _share(self, slot: "Slot", tokens: Tokens, shared: int) -> None:
        """Copy the beginning of `tokens` from the slot that has most of it, where that is more than `shared`."""
        best, most = None, shared
        for other in self._held:
            if other is slot or other.group != slot.group:
                continue
            if (found := common_prefix(other.cached(), tokens)) > most:
                best, most = other, found
        if best is not None and most - shared >= WORTH:
            slot.copy(best, shared, most)


class Slot:
    """One KV cache by name: an ordinary `core.Engine`, whose memory comes and goes.

    Attributes:
        group: only within it is anything copied.
        spare: a second one of its name: it gives way to every other, and none that was used lately to it.
    """

    def __init__(self, pool: SlotEngines, group: str, *, spare: bool = False) -> None:
        self._pool, self.group, self.spare = pool, group, spare
        self.backend: SharingBackend | None = None
        self.engine: TreeEngine | None = None

    @property
    def info(self) -> EngineInfo:
        """What runs."""
        return self._pool.info

    def cached(self) -> tuple[int, ...]:
        """The tokens in the cache; none where it was given up."""
        return () if self.engine is None else self.engine.cached()

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        """Make the cache hold `tokens`; what another slot begins with is taken over."""
        engine = self._pool.claim(self, tokens)
        return Prefilled(0, 0, done=False) if engine is None else engine.prefill(tokens, should_stop)

    def step(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: Mapping[int, npt.NDArray[np.int64]] | None = None,
        top_k: int = 0,
    ) -> Verified:
        """One forward pass over `tree`; raises CacheLost where the cache was given up."""
        if self.engine is None:
            raise CacheLost
        self._pool.make_room(self, self.engine.length)
        return self.engine.step(tree, sampler, allowed, top_k)

    @property
    def sublayers(self) -> int:
        """Parts of the model that may be left out of `skim`."""
        return self._pool.sublayers

    def skim(
        self, tokens: Tokens, after: int, skipped: frozenset[int], top_k: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """`core.SkimmingEngine.skim`."""
        if self.engine is None:
            raise CacheLost
        return self.engine.skim(tokens, after, skipped, top_k)

    def keep_states(self, layers: Sequence[int]) -> bool:
        """Keep hidden states behind these layers, here and in all other slots."""
        return self._pool.keep_states(layers)

    def states(self, layers: Sequence[int], start: int, stop: int) -> npt.NDArray[np.float32]:
        """Hidden states of the cached tokens `start`…`stop`, [tokens, layers, E]; raises CacheLost."""
        if self.engine is None:
            raise CacheLost
        return self.engine.states(layers, start, stop)

    def embed(self, tokens: Tokens) -> npt.NDArray[np.float32]:
        """The embeddings of tokens, [tokens, E]."""
        return self._pool.embed(tokens)

    def close(self) -> None:
        """Give the cache's memory back."""
        if self.backend is not None:
            self.backend.close()
        self.backend = self.engine = None
        self._pool.given_up(self)

    def open(self, backend: SharingBackend) -> TreeEngine:
        """An empty cache."""
        self.backend, self.engine = backend, TreeEngine(backend, self._pool.info)
        return self.engine

    def copy(self, other: "Slot", start: int, stop: int) -> None:
        """Hold the first `stop` tokens of `other`, the same as its own up to `start`."""
        assert self.backend is not None
        assert self.engine is not None
        assert other.backend is not None
        self.backend.take(other.backend, start, stop)
        self.engine.assume(other.cached()[:stop])

    def bytes_held(self) -> int:
        """Memory that the cache takes."""
        return 0 if self.backend is None else self.backend.bytes_of(self.backend.touched)

    def bytes_at(self, tokens: int) -> int:
        """Memory that it will take where it comes to hold so many tokens."""
        return 0 if self.backend is None else self.backend.bytes_of(max(tokens, self.backend.touched))

    def trim(self) -> None:
        """Give back what was written beyond what counts, where it is worth a call to the system."""
        if self.backend is not None and self.engine is not None:
            kept = self.engine.length
            if self.backend.touched - kept >= SLACK:
                self.backend.trim(kept)
