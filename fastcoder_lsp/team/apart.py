"""Separates the KV caches of tenants.

Owns the rule of which caches may share a prefix. The engine copies the common prefix of two texts from one cache to
another. The bits are the same, but the time and the number of cached tokens would tell a tenant whether another one has
a text with the same beginning. Therefore prefixes are shared within a tenant only.
"""

from weakref import WeakKeyDictionary

from fastcoder_lsp.core import Engine, Engines
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.slots import SlotEngines

TENANT_ENDS = "\0"
"""Separates the tenant from the rest of a cache's name."""
_NEVER_TEXT = (0,)
"""The contents of a cache taken from another tenant: one token, the same for all."""


def apart(engines: Engines) -> Engines:
    """Wrap `engines` for tenants; engines that share no prefixes stay as they are."""
    if isinstance(engines, SlotEngines):
        engines.part(tenant_of)
    if isinstance(engines, OneSlot):
        return _ApartOne(engines)
    return engines


def tenant_of(name: str) -> str:
    """The tenant of a cache, by the cache's name."""
    return name.partition(TENANT_ENDS)[0]


class _ApartOne(OneSlot):
    """A single cache for all tenants; another tenant's contents are overwritten."""

    def __init__(self, one: OneSlot) -> None:
        super().__init__(one._engine)  # noqa: SLF001 of its own class; it is used no more
        self._tenants: WeakKeyDictionary[Engine, str] = WeakKeyDictionary()
        self._last = ""

    def slot(self, name: str) -> Engine:
        found = super().slot(name)
        self._tenants[found] = tenant_of(name)
        return found

    def taken_by(self, slot: "Engine | None") -> Engine:
        engine = super().taken_by(slot)  # type: ignore[arg-type]
        if slot is not None and (tenant := self._tenants.get(slot, "")) != self._last:
            self._last = tenant
            if engine.cached():
                engine.prefill(_NEVER_TEXT, lambda: False)
        return engine
