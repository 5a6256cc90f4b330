"""The stores that all workspaces of a process share: live indexes, corpora, and tables.

Clients that have the same folders open by the same rules share one live index and its watcher. The index has an open
document's text from the client that reported it last; when that client closes it or leaves, the previous client's. An
index ends with its last user. Corpora are shared by tokenizer.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.index.searcher import StoreSnapshot
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.common_code import CommonCode, Installed
from fastcoder_lsp.workspace.live_index import IndexProgress, LiveIndex
from fastcoder_lsp.workspace.open_texts import OpenTexts
from fastcoder_lsp.workspace.rules import reading_settings, resolved

Report = Callable[[IndexProgress], None]
Notice = Callable[[str], None]
Key = tuple[object, ...]
"""Of an index: the tokenizer, each folder and its reading rules."""


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
    """An index and its users."""

    index: LiveIndex
    users: dict["SharedIndex", None] = field(default_factory=dict)
    opened: dict[Path, dict["SharedIndex", None]] = field(default_factory=dict)
    """The users who have a document open; the last one reported its text last."""
    progress: IndexProgress | None = None
    notices: list[str] = field(default_factory=list)


class SharedIndexes:
    """The live indexes of a process."""

    def __init__(self, cache: Path, *, watching: bool = True) -> None:
        self._cache, self._watching = cache, watching
        self._lock = threading.RLock()
        self._indexes: dict[Key, _SharedEntry] = {}

    def __len__(self) -> int:
        return len(self._indexes)

    def open(
        self, folders: Mapping[Path, Settings], encoder: Tokenizer, report: Report, notice: Notice, texts: OpenTexts
    ) -> "SharedIndex":
        """The index of these folders, started if no user has it. Later users receive the earlier progress and notices.

        `report` and `notice` receive progress and messages for the user, from any thread; they must not call this
        object.
        """
        with self._lock:
            user = SharedIndex(self, encoder, report, notice, texts)
            self._join(user, folders)
            return user

    # For `SharedIndex`.

    def change_folders(self, user: "SharedIndex", folders: Mapping[Path, Settings]) -> threading.Thread | None:
        """Replace a user's folders or rules; an index without other users is changed in place."""
        with self._lock:
            key, shared = _key_of(user.encoder, folders), self._shared_by(user)
            if user.key == key:
                return None
            if shared is not None and len(shared.users) == 1 and key not in self._indexes:
                del self._indexes[user.key]
                self._indexes[key], user.key = shared, key
                shared.index.change(folders)
                return None
            opened = [] if shared is None else [path for path, users in shared.opened.items() if user in users]
            ending = self.leave(user)
            self._join(user, folders)
            for path in opened:
                self.report_text(user, path, user.texts.get(path))
            return ending

    def leave(self, user: "SharedIndex") -> threading.Thread | None:
        """Remove a user; returns the thread in which the index ends, if that was its last user."""
        with self._lock:
            shared = self._shared_by(user)
            if shared is None:
                return None
            del shared.users[user]
            if shared.users:
                for path in [path for path, users in shared.opened.items() if user in users]:
                    self._withdraw_text(shared, user, path)
                return None
            del self._indexes[user.key]
        ending = threading.Thread(target=shared.index.stop, name="index-end", daemon=True)
        ending.start()
        return ending

    def report_text(self, user: "SharedIndex", path: Path, text: str | None) -> None:
        """Report an open document's text; None if it was closed."""
        with self._lock:
            shared = self._shared_by(user)
            if shared is None:
                return
            if text is None:
                self._withdraw_text(shared, user, path)
                return
            users = shared.opened.setdefault(path, {})
            users.pop(user, None)
            users[user] = None
            shared.index.document_changed(path, text)

    def index_of(self, user: "SharedIndex") -> LiveIndex | None:
        """The index of a user; None if it has left."""
        shared = self._shared_by(user)
        return None if shared is None else shared.index

    def _shared_by(self, user: "SharedIndex") -> _SharedEntry | None:
        shared = self._indexes.get(user.key)
        return shared if shared is not None and user in shared.users else None

    def _join(self, user: "SharedIndex", folders: Mapping[Path, Settings]) -> None:
        key = _key_of(user.encoder, folders)
        shared = self._indexes.get(key)
        if shared is None:
            shared = self._begin(folders, user.encoder)
            self._indexes[key] = shared
        user.key = key
        shared.users[user] = None
        if shared.progress is not None:
            user.report(shared.progress)
        for text in shared.notices:
            user.notice(text)

    def _begin(self, folders: Mapping[Path, Settings], encoder: Tokenizer) -> _SharedEntry:
        def report(progress: IndexProgress) -> None:
            with self._lock:
                shared.progress = progress
                for user in shared.users:
                    user.report(progress)

        def notice(text: str) -> None:
            with self._lock:
                shared.notices.append(text)
                for user in shared.users:
                    user.notice(text)

        index = LiveIndex(folders, encoder, self._cache, report, notice, watching=self._watching)
        shared = _SharedEntry(index)
        index.start()
        return shared

    @staticmethod
    def _withdraw_text(shared: _SharedEntry, user: "SharedIndex", path: Path) -> None:
        users = shared.opened.get(path, {})
        was_last = next(reversed(users), None) is user
        users.pop(user, None)
        while users and was_last:
            before = next(reversed(users))
            if (text := before.texts.get(path)) is not None:
                shared.index.document_changed(path, text)
                return
            del users[before]  # it has closed the document, and will report that next
        if not users:
            shared.opened.pop(path, None)
            shared.index.document_closed(path)


class SharedIndex:
    """One user's share of a live index. Thread-safe."""

    def __init__(
        self, indexes: SharedIndexes, encoder: Tokenizer, report: Report, notice: Notice, texts: OpenTexts
    ) -> None:
        self._indexes, self.encoder, self.report, self.notice, self.texts = indexes, encoder, report, notice, texts
        self.key: Key = ()

    def pin(self) -> tuple[StoreSnapshot, ...]:
        """The present state of every folder's store."""
        index = self._indexes.index_of(self)
        return () if index is None else index.pin()

    def document_changed(self, path: Path, text: str) -> None:
        """An open document's text, saved or not, overrides the disk. Takes microseconds."""
        self._indexes.report_text(self, path, text)

    def document_closed(self, path: Path) -> None:
        """The document was closed: the disk holds again, or the text of another user who has it open."""
        self._indexes.report_text(self, path, None)

    def files_changed(self, paths: Iterable[Path]) -> None:
        """Files on the disk appeared, changed or were deleted."""
        index = self._indexes.index_of(self)
        if index is not None:
            index.files_changed(paths)

    def change(self, folders: Mapping[Path, Settings]) -> threading.Thread | None:
        """Replace the folders and their settings; returns the thread in which an index ends by it, if any."""
        return self._indexes.change_folders(self, folders)

    def settle(self, timeout_s: float) -> bool:
        """Wait until all reported changes can be found; for tests and benchmarks. Returns whether they can."""
        index = self._indexes.index_of(self)
        return index is not None and index.settle(timeout_s)

    def close(self) -> threading.Thread | None:
        """Leave the index; returns the thread in which it ends, if it has no other user."""
        return self._indexes.leave(self)


def _key_of(encoder: Tokenizer, folders: Mapping[Path, Settings]) -> Key:
    of = sorted((str(resolved(root)), reading_settings(settings)) for root, settings in folders.items())
    return (encoder.identity, *of)


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


class SharedStores:
    """The stores of a process.

    Args:
        cache: the program's cache folder.
        live: False for a single completion: nothing is watched, and installed packages, which take minutes to read, are
            used only if they were read before.
    """

    def __init__(self, cache: Path, *, live: bool = True) -> None:
        self._cache, self._live = cache, live
        self._lock = threading.Lock()
        self._common: dict[str, CommonCode] = {}
        self.indexes = SharedIndexes(cache, watching=live)

    def join(self, encoder: Tokenizer, installed: Installed) -> CommonCode:
        """The corpora of this tokenizer, for a workspace with these packages. Call `leave` afterwards."""
        with self._lock:
            common = self._common.get(encoder.identity)
            if common is None:
                common = CommonCode(self._cache, encoder, builds_installed=self._live)
                self._common[encoder.identity] = common
            common.join(installed)
            return common

    def leave(self, common: CommonCode, installed: Installed) -> threading.Thread | None:
        """A workspace stops using these corpora; returns the thread that ends with the last user, if any."""
        with self._lock:
            if not common.leave(installed):
                return None
            self._common = {name: other for name, other in self._common.items() if other is not common}
        return common.builder
