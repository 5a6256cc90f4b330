"""The open stores of a workspace's folders: opened, taken over from other processes, tidied, closed.

One thread calls everything here; others may read `by_root` and `intake`.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace.background import RetryPolicy
from fastcoder_lsp.workspace.folders import store_folder
from fastcoder_lsp.workspace.intake import Intake

log = logging.getLogger(__name__)


class OpenStores:
    """The open stores.

    Args:
        cache: the program's cache folder.
        identity: of the tokenizer.
        notice: receives messages for the user.

    Attributes:
        by_root: each folder's store; replaced as a whole when the folders change.
        intake: takes files into them by the rules that they were opened with; None until the first are open.
    """

    def __init__(self, cache: Path, identity: str, notice: Callable[[str], None]) -> None:
        self._cache, self._identity, self._notice = cache, identity, notice
        self.by_root: Mapping[Path, Store] = {}
        self.intake: Intake | None = None
        self._retries: dict[Store, RetryPolicy] = {}
        self._tidied: dict[Store, int] = {}

    def all(self) -> tuple[Store, ...]:
        """The stores that are open now."""
        return tuple(self.by_root.values())

    def open_for(self, folders: Mapping[Path, Settings]) -> Mapping[Path, Store]:
        """Open the stores of these folders, by their rules. Returns the other open ones, for the caller to close."""
        before, stores = self.by_root, dict[Path, Store]()
        for root, settings in folders.items():
            place = store_folder(self._cache, root, self._identity, settings)
            if root in before and before[root].folder == place:
                stores[root] = before[root]
            else:
                # As a reader, which a disk that takes nothing allows too; `take_over` does the rest.
                stores[root] = Store.open(place, self._identity, str(root), self._notice, reader=True)
        self._retries = {
            store: self._retries.get(store) or RetryPolicy(self._cache, self._notice) for store in stores.values()
        }
        self._tidied = {store: done for store, done in self._tidied.items() if store in self._retries}
        self.by_root = stores
        return {root: store for root, store in before.items() if stores.get(root) is not store}

    def take_over(self) -> bool:
        """Become the writer of stores that have none. Returns whether everything must be scanned because of it."""
        taken = False
        for store, retry in self._retries.items():
            if store.writable or retry.may_try():
                try:
                    taken |= store.reclaim() or store.take_over()
                except OSError as error:
                    retry.failed(error)
                else:
                    retry.succeeded()
        return taken

    def tidy(self, changed: Callable[[Iterable[Path]], None], interrupted: Callable[[], bool]) -> None:
        """Follow other processes; seal and merge. After following, files held in memory here go to `changed`."""
        for store in self.all():
            own = store.in_memory() if not store.writable else []
            if store.follow():
                # Two processes may have read different texts: read the disk again.
                changed(map(Path, own))
            generation = store.pin().generation
            if store.writable and generation != self._tidied.get(store):
                store.seal()
                while store.merge(interrupted):
                    pass
                # Not the generation after it: files that were saved meanwhile must be sealed too.
                self._tidied[store] = generation


def close(store: Store) -> None:
    """Close a store; log it if the disk refuses the last write."""
    try:
        store.close()
    except OSError as error:
        log.warning("%s could not be brought up to date at the end: %s", store.folder, error)
