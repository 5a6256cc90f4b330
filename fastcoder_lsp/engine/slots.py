"""Several KV caches over one set of weights: one per text, as many as a memory budget holds.

A new text copies the prefix that it shares with another slot's, which takes a thousandth of the time of computing it
and gives the same bits. If memory is short, the unused end of shortened caches is freed first, then caches that are
only prefetched, then the least recently used one. Prefetching never evicts a recently used cache.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self, runtime_checkable

import numpy as np

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
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.engine.backend import Backend, KeepingBackend, SkimmingBackend, can_keep, with_layers
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.tree_engine import TreeEngine

WORTH = 16  # tokens of a shared prefix that make a copy worth it: a copy touches every layer
RECENT = 4
"""Prefetching never evicts this many of the most recently used caches. It evicts older ones: caches are closed only
when memory is short, so after a day's work there would be no room to prefetch."""
SLACK = 128  # tokens beyond a slot's content whose memory is worth freeing


@runtime_checkable
class SharingBackend(Backend, Protocol):
    """A backend that allows several over the same weights, each with a KV cache of its own."""

    @property
    def touched(self) -> int:
        """Slots of the cache, from the first on, that take memory."""

    def another(self) -> Self:
        """Another backend over the same weights, with an empty cache; its `close` frees only its cache."""

    def take(self, other: Self, start: int, stop: int) -> None:
        """Copy the slots `start`…`stop` of another cache that agrees up to `start`; the rest is undefined."""

    def bytes_of(self, slots: int) -> int:
        """Memory of the cache with so many slots written."""

    def trim(self, slots: int) -> None:
        """Free the memory beyond the first `slots` where possible; its content becomes undefined."""


def several(engine: Engine, kv_mb: int) -> Engines:
    """KV caches for several texts over a newly loaded engine: `kv_mb` MB in all, or a single one that they share."""
    if isinstance(engine, TreeEngine) and isinstance(engine.backend, SharingBackend):
        return SlotEngines(engine.backend, engine.info, kv_mb * 1_000_000)
    return OneSlot(engine)


class SlotEngines:
    """`core.Engines` over a `backend` that shares its weights, with at most `most_bytes` of caches, or one."""

    def __init__(self, backend: SharingBackend, info: EngineInfo, most_bytes: int) -> None:
        self._backend, self._most = backend, most_bytes
        self._group_of: Callable[[str], str] = lambda _: ""
        self.info = info
        self.sublayers = backend.sublayers if isinstance(backend, SkimmingBackend) else 0
        self._slots: dict[str, Slot] = {}
        self._second: dict[str, Slot] = {}
        self._held: dict[Slot, None] = {}
        """Slots that have memory, the most recently used last; closed names among them, while they are still in use."""

    def slot(self, name: str) -> "Slot":
        """The engine whose KV cache goes by this name."""
        if name not in self._slots:
            self._slots[name] = Slot(self, self._group_of(name))
        return self._slots[name]

    def second_cache(self, name: str) -> "Slot":
        """A second KV cache for the text of this name: every other cache may evict it, and it evicts none in use."""
        if name not in self._second:
            self._second[name] = Slot(self, self._group_of(name), spare=True)
        return self._second[name]

    def exchange(self, name: str) -> None:
        """Replace the first cache of this name by the second."""
        if (slot := self._second.pop(name, None)) is not None:
            self.forget(name)
            slot.spare = False
            self._slots[name] = slot

    def swap(self, name: str) -> None:
        """Swap the two caches of this name."""
        main, second = self.slot(name), self.second_cache(name)
        main.spare, second.spare = True, False
        self._slots[name], self._second[name] = second, main

    def part(self, group_of: Callable[[str], str]) -> None:
        """Copy prefixes only within groups of slots from now on; a slot's name determines its group."""
        self._group_of = group_of

    def forget(self, name: str) -> None:
        """Free this slot's memory, and its second cache's."""
        for slots in (self._slots, self._second):
            if (slot := slots.pop(name, None)) is not None:
                slot.close()

    def rename(self, old: str, new: str) -> None:
        """Rename a slot and its second cache."""
        if old != new and old in self._slots:
            self.forget(new)
            for slots in (self._slots, self._second):
                if old in slots:
                    slots[new] = slots.pop(old)

    def close(self) -> None:
        """Free all memory, the weights' too."""
        for slot in list(self._held):
            slot.close()
        self._slots.clear()
        self._second.clear()
        self._backend.close()

    def bytes_held(self) -> int:
        """Memory of all caches."""
        return sum(slot.bytes_held() for slot in self._held)

    def claim(self, slot: "Slot", tokens: Tokens) -> TreeEngine | None:
        """Give `slot` a cache that holds as much of `tokens` as any slot has; returns its engine.

        None for a spare slot that would have to evict recently used ones.
        """
        engine = slot.engine or self._open(slot)
        if engine is None or (slot.spare and not self._spares(slot, len(tokens))):
            slot.close()
            return None
        shared = common_prefix(engine.cached(), tokens)
        if len(tokens) - shared >= WORTH:
            self._share(slot, tokens, shared)  # before evicting: the source may be evicted
        self.make_room(slot, len(tokens))
        return engine

    def make_room(self, slot: "Slot", tokens: int) -> None:
        """Evict as few other slots as possible so that `slot` can hold so many tokens."""
        self._held.pop(slot, None)
        self._held[slot] = None
        if self._fits(slot, tokens):
            return
        for other in list(self._held):
            other.trim()
        for other in sorted(self._held, key=lambda one: not one.spare):  # of a kind, the least recently used first
            if other is slot or self._fits(slot, tokens):
                return
            other.close()

    def keep_states(self, layers: Sequence[int]) -> bool:
        """Keep hidden states behind these layers in all caches; caches that lack some of them are dropped."""
        if not can_keep(self._backend, layers):
            return not layers
        if (needed := with_layers(self._backend, layers)) is not None:
            for slot in list(self._held):
                slot.close()
            self._backend.keep_states(needed)
        return True

    def embed(self, tokens: Tokens) -> Floats:
        """The embeddings of tokens, [tokens, E]."""
        assert isinstance(self._backend, KeepingBackend)
        return self._backend.embed(np.asarray(tokens, np.int64))

    def given_up(self, slot: "Slot") -> None:
        """Record that `slot` has no memory any more."""
        self._held.pop(slot, None)

    def _fits(self, slot: "Slot", tokens: int, freed: int = 0) -> bool:
        """Whether all caches fit the budget if `slot` holds so many tokens and others free `freed` bytes."""
        others = self.bytes_held() - slot.bytes_held() - freed
        return others + slot.bytes_at(tokens + self.info.max_nodes) <= self._most

    def _spares(self, slot: "Slot", tokens: int) -> bool:
        """Make room for a spare slot by freeing only unused memory and old caches; returns whether that suffices."""
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
        """An empty cache for `slot`, for which all others are dropped if necessary; None for a spare slot then."""
        try:
            backend = self._backend.another()
        except (MemoryError, OSError, RuntimeError):  # from the system, from mmap, and from torch
            if slot.spare:
                return None
            for other in list(self._held):
                other.close()
            backend = self._backend.another()
        return slot.open(backend)

    def _share(self, slot: "Slot", tokens: Tokens, shared: int) -> None:
        """Copy the longest prefix of `tokens` from another slot, if it is longer than `shared`."""
        best, most = None, shared
        for other in self._held:
            if other is slot or other.group != slot.group:
                continue
            if (found := common_prefix(other.cached(), tokens)) > most:
                best, most = other, found
        if best is not None and most - shared >= WORTH:
            slot.copy(best, shared, most)


class Slot:
    """One KV cache by name: an ordinary `core.Engine` whose cache may be evicted.

    Prefixes are copied only within its `group`. A `spare` is the second of its name: every other may evict it, and it
    evicts no recently used one.
    """

    def __init__(self, pool: SlotEngines, group: str, *, spare: bool = False) -> None:
        self._pool, self.group, self.spare = pool, group, spare
        self.info, self.sublayers = pool.info, pool.sublayers
        self.backend: SharingBackend | None = None
        self.engine: TreeEngine | None = None

    def cached(self) -> tuple[int, ...]:
        """The tokens in the cache; none after an eviction."""
        return () if self.engine is None else self.engine.cached()

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        """Make the cache hold `tokens`; copies a prefix that another slot holds."""
        engine = self._pool.claim(self, tokens)
        return Prefilled(0, 0, done=False) if engine is None else engine.prefill(tokens, should_stop)

    def step(
        self, tree: DraftTree, sampler: Sampler = GREEDY, allowed: Mapping[int, Int64s] | None = None, top_k: int = 0
    ) -> Verified:
        """One forward pass over `tree`; raises CacheLost after an eviction."""
        if self.engine is None:
            raise CacheLost
        self._pool.make_room(self, self.engine.length)
        return self.engine.step(tree, sampler, allowed, top_k)

    def skim(self, tokens: Tokens, after: int, skipped: frozenset[int], top_k: int) -> tuple[Int64s, Floats]:
        """`core.SkimmingEngine.skim`."""
        if self.engine is None:
            raise CacheLost
        return self.engine.skim(tokens, after, skipped, top_k)

    def keep_states(self, layers: Sequence[int]) -> bool:
        """Keep hidden states behind these layers, here and in all other slots."""
        return self._pool.keep_states(layers)

    def states(self, layers: Sequence[int], start: int, stop: int) -> Floats:
        """Hidden states of the cached tokens `start`…`stop`, [tokens, layers, E]; raises CacheLost."""
        if self.engine is None:
            raise CacheLost
        return self.engine.states(layers, start, stop)

    def embed(self, tokens: Tokens) -> Floats:
        """The embeddings of tokens, [tokens, E]."""
        return self._pool.embed(tokens)

    def close(self) -> None:
        """Free the cache's memory."""
        if self.backend is not None:
            self.backend.close()
        self.backend = self.engine = None
        self._pool.given_up(self)

    def open(self, backend: SharingBackend) -> TreeEngine:
        """An empty cache."""
        self.backend, self.engine = backend, TreeEngine(backend, self._pool.info)
        return self.engine

    def copy(self, other: "Slot", start: int, stop: int) -> None:
        """Copy the first `stop` tokens of `other`, of which it holds the first `start` already."""
        assert self.backend is not None
        assert self.engine is not None
        assert other.backend is not None
        self.backend.take(other.backend, start, stop)
        self.engine.assume(other.cached()[:stop])

    def bytes_held(self) -> int:
        """Memory of the cache."""
        return 0 if self.backend is None else self.backend.bytes_of(self.backend.touched)

    def bytes_at(self, tokens: int) -> int:
        """Memory of the cache once it holds so many tokens."""
        return 0 if self.backend is None else self.backend.bytes_of(max(tokens, self.backend.touched))

    def trim(self) -> None:
        """Free the memory beyond the cached tokens, if it is worth a system call."""
        if self.backend is not None and self.engine is not None:
            kept = self.engine.length
            if self.backend.touched - kept >= SLACK:
                self.backend.trim(kept)
