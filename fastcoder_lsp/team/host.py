"""The model of one replica, for tenants that know nothing of each other: one model server, and hosts by tenant.

A tenant's host has a drafter that learns from this tenant alone and writes nothing to the disk, KV caches that begin
with no other tenant's text, and the datastores of the repositories that the tenant's key may read. The engine copies
the beginning that two texts share: the same bits, but its time and the number of cached tokens would tell a stranger
whether somebody else has a text that begins like theirs. So only a tenant's own caches are compared.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Engine, Engines, Progress
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.slots import SlotEngines
from fastcoder_lsp.host.local import LoadModel, LocalHost, MakeRuntime, ModelServer
from fastcoder_lsp.prompt.context import GivenExtras
from fastcoder_lsp.runtime.load import wants_datastore
from fastcoder_lsp.runtime.parts import Model, Runtime
from fastcoder_lsp.team.context import RepositoryWords, TeamContext

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


class TenantHost(LocalHost):
    """One front's host.

    Args:
        core: the replica's.
        name: no other front has it; begins with the tenant's.
        listener: the front.
        settings: of the model.
        folders: the repositories that the tenant may read, with their settings.
    """

    def __init__(
        self,
        core: "TeamCore",
        name: str,
        listener: HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
    ) -> None:
        self._drafted = bool(folders) and wants_datastore(settings)
        self._folders, self._words = folders, core.words
        super().__init__(core, name, listener, settings, folders)

    def _make(self, model: Model) -> Runtime:
        """In the scheduler's thread."""
        around = self._workspace.surroundings(drafted_from=self._drafted)
        context = GivenExtras(TeamContext(self._words, self._folders))
        # Without a name of the workspace nothing that is learnt is written: two tenants may read one repository.
        own = replace(around, workspace="", context=context)
        runtime = self._server.make(model, self._settings, own, self._name)
        self._workspace.begin(runtime.tokenizer)
        return runtime


class TeamCore(ModelServer):
    """What tenants share: the weights, and whose turn it is.

    Attributes:
        settings: of all.
        words: of the trees of repositories that are shown.

    Args:
        load: loads the model.
        make: makes a front's part of it.
        settings: the model is loaded by them.
        cache: the program's cache folder.
    """

    def __init__(self, load: LoadModel, make: MakeRuntime, settings: Settings, cache: Path) -> None:
        self.settings, self.words = settings, RepositoryWords()

        def load_apart(own: Settings, progress: Progress) -> Model:
            model = load(own, progress)
            if model.smaller is not None:
                model.smaller.keep_apart(apart)
            return replace(model, engines=apart(model.engines))

        super().__init__(load_apart, make, settings, cache)

    def open_for(self, tenant: str, listener: HostListener, folders: Mapping[Path, Settings]) -> TenantHost:
        """A place for one more front of a tenant."""
        with self._lock:
            name = f"{tenant}{TENANT_ENDS}{next(self._names)}"
            front = TenantHost(self, name, listener, self.settings, folders)
            self._fronts[front] = None
        return front

    def close(self, wait_s: float) -> None:
        """End within a piece of work, and give the model's memory back; waits at most so long for it."""
        super().close(wait_s)
        self.words.close()  # after the thread that looks into them
