"""What a live index over a real folder holds, what a new one would hold, and how to wait for it."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from fastcoder_lsp.config import Settings, resolve
from fastcoder_lsp.index.chunks import ChunkedEncoder
from fastcoder_lsp.index.searcher import StoreSnapshot
from fastcoder_lsp.workspace.datastore import Datastore
from fastcoder_lsp.workspace.inbox import IndexUser
from fastcoder_lsp.workspace.live_index import LiveIndex
from fastcoder_lsp.workspace.shared_stores import SharedStores
from tests.index.toy_encoder import ToyEncoder

SETTINGS, _ = resolve(())


class UsedIndex(LiveIndex):
    """A live index with one user, who hears `notice`, and the messages that it sends."""

    def __init__(
        self,
        folders: Mapping[Path, Settings],
        cache: Path,
        notice: Callable[[str], None] = lambda _: None,
        *,
        watching: bool,
    ) -> None:
        super().__init__(folders, ToyEncoder(), cache, watching=watching)
        self.user = IndexUser(notice=notice)
        self.inbox.join(self.user)

    def document_changed(self, path: Path, text: str) -> None:
        self.user.texts.put(path, text)
        self.inbox.document_changed(self.user, path)

    def document_closed(self, path: Path) -> None:
        self.user.texts.remove(path)
        self.inbox.document_closed(self.user, path)

    def files_changed(self, paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
        self.inbox.files_changed(paths, folders)

    def rescan(self) -> None:
        self.inbox.rescan()

    def wait_idle(self, timeout_s: float) -> bool:
        return self.inbox.wait_idle(timeout_s)


class Workspace:
    """The only workspace of its process, whose folders may change."""

    def __init__(self, cache: Path, *roots: Path) -> None:
        self.stores = SharedStores(cache)
        self.datastore = Datastore(dict.fromkeys(roots, SETTINGS), self.stores)
        self.datastore.start(ToyEncoder())

    def indexes(self) -> tuple[LiveIndex, ...]:
        return tuple(self.stores.indexes.values())

    def pin(self) -> tuple[StoreSnapshot, ...]:
        return tuple(snapshot for index in self.indexes() for snapshot in index.pin())


Begin = Callable[..., UsedIndex]
OpenWorkspace = Callable[..., Workspace]


def held(live: LiveIndex | Workspace) -> dict[str, list[int]]:
    return {key: tokens.tolist() for snapshot in live.pin() for key, tokens in snapshot.files().items()}


@lru_cache(maxsize=4096)
def tokens_of(text: str) -> list[int]:
    tokens: list[int] = ChunkedEncoder(ToyEncoder()).encode(text).tolist()
    return tokens


def expected(root: Path, files: Mapping[str, str]) -> dict[str, list[int]]:
    """What a store holds that was built from these texts alone."""
    return {str(root / path): tokens_of(text) for path, text in files.items()}


def holds(live: LiveIndex | Workspace, root: Path, files: Mapping[str, str]) -> Callable[[], bool]:
    return lambda: held(live) == expected(root, files)


def write(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("w", encoding="utf-8", newline="") as file:
            file.write(text)


def edit(datastore: Datastore, path: Path, text: str | None) -> None:
    """What a workspace's front does about a document's text; None: it was closed."""
    texts = datastore._user.texts
    if text is None:
        texts.remove(path)
        datastore.document_closed(path)
    else:
        texts.put(path, text)
        datastore.document_changed(path)


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
