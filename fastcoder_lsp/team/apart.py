"""KV caches of tenants that know nothing of each other.

Owns which caches may begin with another one's. The engine copies what two texts begin with: the same bits, but a
stranger could see by the time, and by how many tokens were cached, whether somebody else has a text that begins like
theirs. So only a tenant's own caches are looked at.
"""

from weakref import WeakKeyDictionary

from fastcoder_lsp.core import Engine, Engines
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.slots import SlotEngines

TENANT_ENDS = "\0"
"""Ends the tenant's part of a cache's name."""
_NEVER_TEXT = (0,)
"""What a cache holds that was taken from another tenant: one token, the same for all."""


def apart(engines: Engines) -> Engines:
    """`engines`, for tenants; anything that shares nothing stays as it is."""
    if isinstance(engines, SlotEngines):
        engines.part(tenant_of)
    if isinstance(engines, OneSlot):
        return _ApartOne(engines)
    return engines


def tenant_of(name: str) -> str:
    """Of a cache, by its name."""
    return name.partition(TENANT_ENDS)[0]


class _ApartOne(OneSlot):
    """One cache that goes round: what another tenant left in it is overwritten."""

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
