"""The corpora of one tokenizer, opened once for all workspaces that draft from them, and their frozen tables.

They are the running Python's standard library, the packages installed in a workspace, and corpora that the user built.
A background thread builds missing ones. A corpus serves the documents in its languages.
"""

import hashlib
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from fastcoder_lsp.config import Settings
from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape, table_of
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.index.corpus import Corpora, CorpusInfo
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace import corpus_files
from fastcoder_lsp.workspace.background import RetryPolicy, lower_priority
from fastcoder_lsp.workspace.languages import family_of, language_of
from fastcoder_lsp.workspace.rules import resolved

log = logging.getLogger(__name__)

STANDARD_LIBRARY = f"python-{sys.version_info.major}.{sys.version_info.minor}"
_DEPENDENCIES = "installed-"
_LEAST_SHARE = 0.1  # of a corpus's tokens, in one family of languages: less is taken for an accident
_RETRY_S = 10.0
_POLL_S = 0.05


def is_common(corpus: str) -> bool:
    """Whether a corpus is common code, which the frozen tables count, and not a workspace's installed packages."""
    return not corpus.startswith(_DEPENDENCIES)


class Installed:
    """The packages installed in one workspace; their `names` are known once its folders were scanned."""

    def __init__(self, folders: Mapping[Path, Settings], notice: Callable[[str], None]) -> None:
        self.folders, self.notice = folders, notice
        self.names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _OpenCorpus:
    """A corpus, and the families of languages that it has code of."""

    info: CorpusInfo
    store: Store
    families: frozenset[str]

    @classmethod
    def of(cls, info: CorpusInfo, store: Store) -> "_OpenCorpus":
        tokens = Counter[str]()
        for entry in store.pin().parts:
            for file, record in enumerate(entry.part.records):
                tokens[family_of(language_of(PurePath(record.key)))] += len(entry.part.tokens_of(file))
        least = _LEAST_SHARE * tokens.total()
        return cls(info, store, frozenset(family for family, count in tokens.items() if count >= least))

    def serves(self, family: str) -> bool:
        """Whether documents of a family may draft from it; "" is an unknown one."""
        return not family or family in self.families


class CommonCode:
    """The corpora of a tokenizer. Without `builds_installed`, packages are used only if they were read before."""

    def __init__(self, cache: Path, encoder: Tokenizer, *, builds_installed: bool = True) -> None:
        self._cache, self._encoder, self._builds_installed = cache, encoder, builds_installed
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._users: dict[Installed, None] = {}
        self._stores: Mapping[str, _OpenCorpus] = {}
        self._tables: dict[TableShape, FrozenTable | None] = {}
        self._stopping = threading.Event()
        self.builder: threading.Thread | None = None
        self._write_failed = False  # whether the disk failed the present job, which is retried

    def join(self, user: Installed) -> None:
        """Add a workspace. Missing corpora are built in the background, once."""
        with self._lock:
            self._users[user] = None
        self._enqueue(partial(self._build, user), "corpora", at_once=partial(self._open_existing, user))

    def leave(self, user: Installed) -> bool:
        """Remove a workspace; returns whether it was the last one, after which everything ends."""
        with self._lock:
            self._users.pop(user, None)
            if self._users:
                return False
            self._stopping.set()
        return True

    def stores(self, user: Installed, family: str) -> tuple[Store, ...]:
        """The common corpora and the workspace's own that serve a family of languages ("": any), by their names."""
        return tuple(
            corpus.store
            for name, corpus in self._stores.items()
            if (is_common(name) or name in user.names) and corpus.serves(family)
        )

    def covers(self, family: str) -> bool:
        """Whether a common corpus serves a family of languages ("": any)."""
        return any(is_common(name) and corpus.serves(family) for name, corpus in self._stores.items())

    def frozen(self, shape: TableShape) -> FrozenTable | None:
        """The common corpora's table; None until it is ready. The first request for a shape starts making it."""
        with self._lock:
            known = shape in self._tables
            table = self._tables.setdefault(shape, None)
        if not known:
            self._enqueue(self._make_tables, "tables")
        return table

    def wait(self, timeout_s: float) -> None:
        """Wait until the present job is done or has failed (it is retried later), or the time is over."""
        end = time.monotonic() + timeout_s
        while (builder := self.builder) is not None and builder.is_alive() and time.monotonic() < end:
            if self._write_failed:
                return
            builder.join(min(_POLL_S, end - time.monotonic()))

    def _enqueue(self, work: Callable[[], None], name: str, at_once: Callable[[], None] = lambda: None) -> None:
        with self._lock:
            if self._stopping.is_set():
                return
            before = self.builder

            def run() -> None:
                lower_priority()
                at_once()
                if before is not None:
                    before.join()
                work()

            self.builder = threading.Thread(target=run, name=name, daemon=True)
            self.builder.start()

    def _open_existing(self, user: Installed) -> None:
        """Open the corpora that exist, without waiting for those that are being built."""
        try:
            user.names = frozenset(name for name, _, _ in _default_corpora(user.folders) if not is_common(name))
            self._open(Corpora(self._cache))
        except (OSError, FastcoderError) as error:  # the build fails too, and notifies the user
            log.info("corpora could not be opened: %s", error)

    def _build(self, user: Installed) -> None:
        """Build missing corpora and open all; retry later if that fails."""
        retry = RetryPolicy(self._cache, user.notice)
        while not self._cancelled(user):
            try:
                self._build_all(user)
                self._make_tables()
            except (OSError, FastcoderError) as error:
                retry.failed(error if isinstance(error, OSError) else OSError(str(error)))
                self._write_failed = True
            else:
                self._write_failed = False
                break
            while not retry.may_try() and not self._cancelled(user):
                self._stopping.wait(1.0)

    def _build_all(self, user: Installed) -> None:
        corpora, identity = Corpora(self._cache), self._encoder.identity
        self._open(corpora)
        for name, sources, texts in _default_corpora(user.folders):
            wanted = self._builds_installed or is_common(name)
            usable = name not in self._stores or self._stores[name].store.complete
            missing = wanted and not (usable and _is_built(corpora, name, sources, identity))
            while missing and not self._cancelled(user):
                if corpora.build(name, sources, texts(), self._encoder, should_stop=lambda: self._cancelled(user)):
                    self._stores = {known: corpus for known, corpus in self._stores.items() if known != name}
                    break
                # Another process is building it.
                self._stopping.wait(_RETRY_S)
                missing = not _is_built(corpora, name, sources, identity)
            if wanted:
                self._open(corpora)

    def _open(self, corpora: Corpora) -> None:
        with self._opening:
            before, stores = self._stores, {}
            own = {name for user in tuple(self._users) for name in user.names}
            for info in corpora.infos():
                if info.identity == self._encoder.identity and (is_common(info.name) or info.name in own):
                    known = before.get(info.name)
                    if known is None or known.info != info:
                        known = _OpenCorpus.of(info, corpora.open(info.name, info.identity))
                    stores[info.name] = known
            self._stores = stores

    def _make_tables(self) -> None:
        with self._lock:
            wanted = [shape for shape, table in self._tables.items() if table is None]
        common = [corpus.store.pin() for name, corpus in self._stores.items() if is_common(name)]
        for shape in wanted:
            if self._stopping.is_set():
                return
            try:
                table = table_of(common, self._cache, self._encoder.identity, shape)
            except OSError as error:
                log.warning("a table of common code could not be made: %s", error)
                return
            with self._lock:
                self._tables[shape] = table

    def _cancelled(self, user: Installed) -> bool:
        return self._stopping.is_set() or user not in self._users


def _default_corpora(
    folders: Mapping[Path, Settings],
) -> Iterator[tuple[str, tuple[str, ...], Callable[[], corpus_files.Texts]]]:
    """Name, sources and texts of the corpora that are built unasked."""
    yield STANDARD_LIBRARY, ("the standard library",), corpus_files.standard_library
    for root, settings in folders.items():
        installed = corpus_files.installed(root) if settings.index_dependencies else ()
        if installed:
            name = _DEPENDENCIES + hashlib.sha256(os.fsencode(resolved(root))).hexdigest()[:16]
            stamps = tuple(f"{folder} at {corpus_files.modified_ns(folder)}" for folder in installed)
            yield name, stamps, partial(corpus_files.dependencies, [root])


def _is_built(corpora: Corpora, name: str, sources: tuple[str, ...], identity: str) -> bool:
    return any((i.name, i.identity, i.sources) == (name, identity, sources) for i in corpora.infos())
