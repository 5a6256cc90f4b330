"""The stores that all workspaces of a process share: live indexes by folders and reading rules, corpora by tokenizer.

Clients with the same folders open by the same rules share one live index and its watcher. It ends with its last user.
"""

import threading
from collections.abc import Mapping
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.background import ThreadTimes
from fastcoder_lsp.workspace.common_code import CommonCode, Installed
from fastcoder_lsp.workspace.inbox import IndexUser
from fastcoder_lsp.workspace.live_index import LiveIndex
from fastcoder_lsp.workspace.rules import reading_settings, resolved

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


class SharedStores:
    """The stores of a process; without `live`, for a single completion, nothing is watched or built. Thread-safe."""

    def __init__(self, cache: Path, *, live: bool = True) -> None:
        self._cache, self._live = cache, live
        self._lock = threading.Lock()
        self.cpu = ThreadTimes()  # of all threads that read folders
        self.indexes: dict[Key, LiveIndex] = {}
        self._common: dict[str, CommonCode] = {}

    def use_indexes(
        self, user: IndexUser, encoder: Tokenizer, folders: Mapping[Path, Settings]
    ) -> tuple[tuple[LiveIndex, ...], list[threading.Thread]]:
        """The indexes of these folders, in their order, which alone the user has from now on; none for no folders.

        Also returns the threads in which indexes end that have no other user.
        """
        wanted = {_key_of(encoder, group): group for group in group_nested(folders)}
        with self._lock:
            endings = []
            for key, index in tuple(self.indexes.items()):
                if key not in wanted and index.inbox.leave(user):
                    del self.indexes[key]
                    endings.append(threading.Thread(target=index.stop, name="index-end", daemon=True))
                    endings[-1].start()
            for key, group in wanted.items():
                if key not in self.indexes:
                    index = LiveIndex(group, encoder, self._cache, watching=self._live, before=endings, cpu=self.cpu)
                    self.indexes[key] = index
                    index.start()
                self.indexes[key].inbox.join(user)
            return tuple(self.indexes[key] for key in wanted), endings

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


def _key_of(encoder: Tokenizer, folders: Mapping[Path, Settings]) -> Key:
    of = sorted((str(resolved(root)), reading_settings(settings)) for root, settings in folders.items())
    return (encoder.identity, *of)


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
