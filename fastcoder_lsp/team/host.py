"""The model server of one replica, with separate hosts for tenants.

A tenant's host has a drafter that learns from this tenant alone and writes nothing to the disk, KV caches that begin
with no other tenant's text, and the datastores of the repositories that the tenant's key may read. The engine copies
the beginning that two texts share: the bits are the same, but the time and the number of cached tokens would tell a
tenant whether another one has a text with the same beginning. So only a tenant's own caches are compared.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakKeyDictionary

from typing_extensions import override

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Engine, Engines, Pieces, Progress, Snapshot
from fastcoder_lsp.core.bounded import near
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.slots import SlotEngines
from fastcoder_lsp.host.local import LoadModel, LocalHost, MakeRuntime, ModelServer
from fastcoder_lsp.prompt.context import NOTHING, ContextSnippet, GivenExtras, PromptContext
from fastcoder_lsp.prompt.retrieval import FileWords, WordQuery, query_at, retrieve, worth
from fastcoder_lsp.runtime.context import FEW_NAMES, GOOD_ENOUGH, MOST_CHARACTERS
from fastcoder_lsp.runtime.folder_words import FolderWords
from fastcoder_lsp.runtime.load import wants_datastore
from fastcoder_lsp.runtime.parts import Model, WorkspaceView
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.secret_lines import in_file

MOST_TREES = 64  # most trees with a word index; old trees of an updated repository drop out
_OWN = 0.5  # a piece with this share of the document's lines counts as the document's own text, as committed


class RepositoryWords:
    """The word indexes of all trees."""

    def __init__(self) -> None:
        self._of: OrderedDict[Path, FolderWords] = OrderedDict()

    def of(self, tree: Path, settings: Settings) -> FolderWords:
        """The word index of a tree; for a new tree a thread starts to fill it."""
        words = self._of.pop(tree, None) or FolderWords(tree, ReadingRules((tree,), settings))
        self._of[tree] = words
        while len(self._of) > MOST_TREES:
            self._of.popitem(last=False)[1].stop()
        words.follow(words.rules)
        return words

    def close(self) -> None:
        """Abandon all scans."""
        for words in self._of.values():
            words.stop()


class TeamContext:
    """Finds snippets in the trees that one tenant may read (`prompt.Context`); for the model's thread alone.

    The word indexes hold nothing of a tenant, neither texts nor queries. The document's own text is not shown, because
    its file is usually in the repository. Trees whose settings disable context are skipped.
    """

    def __init__(self, words: RepositoryWords, folders: Mapping[Path, Settings]) -> None:
        self._words = words
        self._folders = {tree: settings for tree, settings in folders.items() if settings.context_enabled}

    def observe(self, snapshot: Snapshot) -> None:
        """Do nothing: edits are not recorded."""

    def may_show(self, sources: Collection[str]) -> bool:
        """Whether all files are in a tree, and may be read now."""
        return all(map(self._may_show, map(Path, sources)))

    def find(
        self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: PromptContext | None = None
    ) -> Pieces[PromptContext]:
        """Snippets of all trees for the cursor at `offset`, best first."""
        found, asked = list[ContextSnippet](), list[tuple[WordQuery, FolderWords]]()
        for tree, settings in self._folders.items():
            words = self._words.of(tree, settings)
            words.terms.allow(FEW_NAMES)
            ask = query_at(snapshot.text, offset, words.index, words.terms)
            asked.append((ask, words))
            found += yield from self._in_tree(words, ask, snapshot, offset, shown)
        if not asked:
            return NOTHING
        found.sort(key=lambda snippet: -snippet.score)
        instead = PromptContext(tuple(found), _name(self._folders), "")
        good = kept is not None and bool(kept.snippets) and self.may_show([one.source for one in kept.snippets])
        if kept is not None and good and (yield from _good_enough(kept, instead, asked)):
            return kept
        return instead

    def _in_tree(
        self, words: FolderWords, ask: WordQuery, snapshot: Snapshot, offset: int, shown: tuple[int, int]
    ) -> Pieces[list[ContextSnippet]]:
        load = _Files(words, snapshot.language)
        pieces = yield from retrieve(ask, replace(snapshot, path=None), offset, shown, words.index, words.terms, load)
        own = frozenset(filter(None, map(str.strip, near(snapshot.text, offset)[1].split("\n"))))
        found = []
        for piece in pieces:
            if not piece.source or _alike(piece.text, own):
                continue
            language, file = language_of(Path(piece.path)), (yield from load(piece.source))
            clean = in_file(piece.text, file.text if file is not None else "", language)
            yield
            if clean.strip():
                found.append(replace(piece, text=clean, source=str(words.root / piece.source)))
        return found

    def _may_show(self, path: Path) -> bool:
        for tree, settings in self._folders.items():
            if path.is_relative_to(tree):
                return self._words.of(tree, settings).rules.may_read(path) is None
        return False


@dataclass(slots=True)
class _Files:
    """The query's language's files; at most `room` characters of them may still be read from the disk."""

    words: FolderWords
    language: str
    room: int = MOST_CHARACTERS

    def __call__(self, key: str) -> Pieces[FileWords | None]:
        if language_of(Path(key)) != self.language:
            return None
        if self.words.held(key):
            return (yield from self.words.load(key))
        read = (yield from self.words.load(key)) if self.room > 0 else None
        self.room -= len(read.text) if read is not None else 0
        return read


def _alike(piece: str, own: Collection[str]) -> bool:
    lines = [line for line in map(str.strip, piece.split("\n")) if line]
    return sum(line in own for line in lines) >= _OWN * len(lines)


def _good_enough(
    kept: PromptContext, instead: PromptContext, asked: Sequence[tuple[WordQuery, FolderWords]]
) -> Pieces[bool]:
    still = [one.text for one in kept.snippets]
    other = [one.text for one in instead.snippets[: len(still)]]
    for ask, words in asked:
        worths = (yield from worth(ask, still, words.terms)), (yield from worth(ask, other, words.terms))
        if worths[0] < GOOD_ENOUGH * worths[1]:
            return False
    return True


def _name(folders: Collection[Path]) -> str:
    return next(iter(folders)).parent.name if len(folders) == 1 else "repository"


TENANT_ENDS = "\0"  # separates the tenant from the rest of a cache's name
_NEVER_TEXT = (0,)  # the contents of a cache taken from another tenant: one token, the same for all


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
        super().__init__(one.engine)
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
    """One front's host; its unique `name` begins with the tenant's, who may read the repositories in `folders`."""

    def __init__(
        self, core: "TeamCore", name: str, listener: HostListener, settings: Settings, folders: Mapping[Path, Settings]
    ) -> None:
        self._drafted = bool(folders) and wants_datastore(settings)
        self._folders, self._words = folders, core.words
        super().__init__(core, name, listener, settings, folders)

    @override
    def _around(self) -> WorkspaceView:
        around = self._workspace.surroundings(drafted_from=self._drafted)
        context = GivenExtras(TeamContext(self._words, self._folders))
        # Without a workspace's name drafters write nothing: two tenants may read the same repository.
        return replace(around, workspace="", context=context)


class TeamCore(ModelServer):
    """A model server for tenants, who share the weights and the scheduler."""

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
            self._fronts[front] = listener
        return front

    def close(self, wait_s: float) -> None:
        """End after the current piece of work, and free the model; waits at most `wait_s`."""
        super().close(wait_s)
        self.words.close()  # after the thread that reads them
