"""The model server of one replica, with separate hosts for tenants.

A tenant's host has a drafter that learns from this tenant alone and writes nothing to the disk, KV caches that begin
with no other tenant's text, and the datastores of the repositories that the tenant's key may read. The engine copies
the beginning that two texts share: the bits are the same, but the time and the number of cached tokens would tell a
tenant whether another one has a text with the same beginning. So only a tenant's own caches are compared.
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


class TenantHost(LocalHost):
    """One front's host.

    Args:
        core: the replica's model server.
        name: the front's unique name; begins with the tenant's.
        listener: the front.
        settings: the model's settings.
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
        # Without a workspace's name drafters write nothing: two tenants may read the same repository.
        own = replace(around, workspace="", context=context)
        runtime = self._server.make(model, self._settings, own, self._name)
        self._workspace.begin(runtime.tokenizer)
        return runtime


class TeamCore(ModelServer):
    """A model server for tenants, who share the weights and the scheduler.

    Attributes:
        settings: the settings of all tenants.
        words: the word indexes of repositories for prompts.

    Args:
        load: loads the model.
        make: makes a front's runtime.
        settings: the settings to load the model with.
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
        """Open a host for one more front of a tenant."""
        with self._lock:
            name = f"{tenant}{TENANT_ENDS}{next(self._names)}"
            front = TenantHost(self, name, listener, self.settings, folders)
            self._fronts[front] = None
        return front

    def close(self, wait_s: float) -> None:
        """End after the current piece of work, and free the model; waits at most `wait_s`."""
        super().close(wait_s)
        self.words.close()  # after the thread that reads them
