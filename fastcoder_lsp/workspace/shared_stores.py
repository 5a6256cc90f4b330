"""The stores that all workspaces of a process share: live indexes, corpora, and tables.

Clients with the same folders open by the same rules share one live index and its watcher. The index has an open
document's text from the client that reported it last; when that client closes it or leaves, the previous client's. An
index ends with its last user. Corpora are shared by tokenizer.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.common_code import CommonCode, Installed
from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.live_index import IndexProgress, LiveIndex
from fastcoder_lsp.workspace.rules import reading_settings, resolved
from fastcoder_lsp.workspace.watch import Changed

Report = Callable[["SharedIndex", IndexProgress], None]
Notice = Callable[[str], None]
Key = tuple[object, ...]  # of an index: the tokenizer, each folder and its reading rules


def group_nested(folders: Mapping[Path, Settings]) -> list[dict[Path, Settings]]:
    """Groups of folders that contain one another; reading a folder depends on no other group."""
    groups: list[dict[Path, Settings]] = []
    for root, settings in folders.items():
        real = resolved(root)
        joined: dict[Path, Settings] = {}
        others: list[dict[Path, Settings]] = []
        for group in groups:
            if any(_overlap(real, resolved(other)) for other in group):
                joined |= group
            else:
                others.append(group)
        groups = [*others, joined | {root: settings}]
    return groups


@dataclass(eq=False, slots=True)
class _SharedEntry:
    index: LiveIndex
    users: dict["SharedIndex", None] = field(default_factory=dict)
    opened: dict[Path, dict["SharedIndex", None]] = field(default_factory=dict)
    """The users who have a document open; the last one reported its text last."""
    progress: IndexProgress | None = None
    notices: list[str] = field(default_factory=list)


class SharedIndex:
    """One user's share of the live index of these folders, started if no user has it. Thread-safe.

    Later users receive the earlier progress and notices. Any thread may call `report`, `notice` and `changed`; only the
    last may call this object.
    """

    def __init__(
        self,
        stores: "SharedStores",
        folders: Mapping[Path, Settings],
        encoder: Tokenizer,
        report: Report,
        notice: Notice,
        changed: Changed,
        texts: OpenTexts,
    ) -> None:
        self._stores, self._encoder, self.report, self.notice, self.texts = stores, encoder, report, notice, texts
        self.changed = changed
        self._key: Key = ()
        self._shared: _SharedEntry | None = None
        with stores.lock:
            self._join(folders)

    @property
    def live(self) -> LiveIndex | None:
        """The index; None after `close`."""
        return None if self._shared is None else self._shared.index

    def document_changed(self, path: Path, text: str) -> None:
        """An open document's text, saved or not, overrides the disk. Takes microseconds."""
        with self._stores.lock:
            if (shared := self._shared) is not None:
                users = shared.opened.setdefault(path, {})
                users.pop(self, None)
                users[self] = None
                shared.index.inbox.document(path, text)

    def document_closed(self, path: Path) -> None:
        """The document was closed: the disk holds again, or the text of another user who has it open."""
        with self._stores.lock:
            if self._shared is not None:
                self._withdraw_text(self._shared, path)

    def change(self, folders: Mapping[Path, Settings]) -> threading.Thread | None:
        """Replace the folders and their settings; returns the thread in which the old index ends by it, if any."""
        with self._stores.lock:
            key, shared, indexes = _key_of(self._encoder, folders), self._shared, self._stores.indexes
            if self._key == key:
                return None
            if shared is not None and len(shared.users) == 1 and key not in indexes:
                del indexes[self._key]
                indexes[key], self._key = shared, key
                shared.index.inbox.change(folders)
                return None
            opened = [] if shared is None else [path for path, users in shared.opened.items() if self in users]
            ending = self.close()
            self._join(folders)
            for path in opened:
                if (text := self.texts.get(path)) is not None:
                    self.document_changed(path, text)
                else:
                    self.document_closed(path)
            return ending

    def close(self) -> threading.Thread | None:
        """Leave the index; returns the thread in which it ends, if it has no other user."""
        with self._stores.lock:
            shared, self._shared = self._shared, None
            if shared is None:
                return None
            del shared.users[self]
            if shared.users:
                for path in [path for path, users in shared.opened.items() if self in users]:
                    self._withdraw_text(shared, path)
                return None
            del self._stores.indexes[self._key]
        ending = threading.Thread(target=shared.index.stop, name="index-end", daemon=True)
        ending.start()
        return ending

    def _join(self, folders: Mapping[Path, Settings]) -> None:
        self._key = _key_of(self._encoder, folders)
        shared = self._stores.indexes.get(self._key)
        if shared is None:
            shared = self._stores.indexes[self._key] = self._begin(folders)
        self._shared = shared
        shared.users[self] = None
        if shared.progress is not None:
            self.report(self, shared.progress)
        for text in shared.notices:
            self.notice(text)

    def _begin(self, folders: Mapping[Path, Settings]) -> _SharedEntry:
        stores = self._stores

        def report(progress: IndexProgress) -> None:
            with stores.lock:
                shared.progress = progress
                for user in shared.users:
                    user.report(user, progress)

        def notice(text: str) -> None:
            with stores.lock:
                shared.notices.append(text)
                for user in shared.users:
                    user.notice(text)

        def changed(files: Iterable[Path], below: Iterable[Path]) -> None:
            for user in tuple(shared.users):  # without the lock: a user may wait for it while it holds its own
                user.changed(files, below)

        index = LiveIndex(folders, self._encoder, stores.cache, report, notice, changed, watching=stores.live)
        shared = _SharedEntry(index)
        index.start()
        return shared

    def _withdraw_text(self, shared: _SharedEntry, path: Path) -> None:
        users = shared.opened.get(path, {})
        was_last = next(reversed(users), None) is self
        users.pop(self, None)
        while users and was_last:
            before = next(reversed(users))
            if (text := before.texts.get(path)) is not None:
                shared.index.inbox.document(path, text)
                return
            del users[before]  # it has closed the document, and will report that next
        if not users:
            shared.opened.pop(path, None)
            shared.index.inbox.document(path, None)


def _key_of(encoder: Tokenizer, folders: Mapping[Path, Settings]) -> Key:
    of = sorted((str(resolved(root)), reading_settings(settings)) for root, settings in folders.items())
    return (encoder.identity, *of)


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


class SharedStores:
    """The stores of a process; without `live`, for a single completion, nothing is watched or built."""

    def __init__(self, cache: Path, *, live: bool = True) -> None:
        self.cache, self.live = cache, live
        self.lock, self.indexes = threading.RLock(), dict[Key, _SharedEntry]()
        self._common_lock = threading.Lock()
        self._common: dict[str, CommonCode] = {}

    def join(self, encoder: Tokenizer, installed: Installed) -> CommonCode:
        """The corpora of this tokenizer, for a workspace with these packages. Call `leave` afterwards."""
        with self._common_lock:
            common = self._common.get(encoder.identity)
            if common is None:
                common = CommonCode(self.cache, encoder, builds_installed=self.live)
                self._common[encoder.identity] = common
            common.join(installed)
            return common

    def leave(self, common: CommonCode, installed: Installed) -> threading.Thread | None:
        """A workspace stops using these corpora; returns the thread that ends with the last user, if any."""
        with self._common_lock:
            if not common.leave(installed):
                return None
            self._common = {name: other for name, other in self._common.items() if other is not common}
        return common.builder
