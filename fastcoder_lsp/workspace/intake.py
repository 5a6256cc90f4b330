"""From paths to documents in the stores: reads files by the reading rules, tokenises and stores them.

Owns what a file's key is and to which store it goes; no threads, no queue. Everything is looked up on the disk when it
is called: a path that is not there, or may not be read, is removed.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.index.chunks import ChunkedEncoder
from fastcoder_lsp.index.part import Document, FileRecord, text_digest
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace.rules import ReadingRules, Reason, resolved

log = logging.getLogger(__name__)

_CLOCK_NS = 100_000_000
"""File systems' clocks tick in steps of up to 10 ms, some network ones' of more."""
BATCH_CHARACTERS = 4_000_000
"""Text that is tokenised and sorted at once, about 1,200,000 tokens: it bounds memory."""
_ABSENT = frozenset((Reason.UNREADABLE, Reason.NOT_A_FILE))
Progress = Callable[[int, int], None]
"""Told how many of how many files are done."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A file as it was read, with line feeds as line ends."""

    record: FileRecord
    text: str


class Intake:
    """Reads files into stores.

    Args:
        folders: the settings of each workspace folder, by its resolved path.
        stores: the store of each of them.
    """

    def __init__(self, folders: Mapping[Path, Settings], stores: Mapping[Path, Store]) -> None:
        self._folders, self._stores = folders, stores
        self._rules = {root: ReadingRules(tuple(folders), settings) for root, settings in folders.items()}

    def files(self) -> Iterator[Path]:
        """Every file that may be read, folder by folder; those that git tracks first."""
        for root, settings in self._folders.items():
            for path in ReadingRules((root,), settings).files():
                if self._root_of(str(resolved(path))) == root:
                    yield path

    def overlay(self, path: Path, text: str, encoder: ChunkedEncoder) -> None:
        """The unsaved text of an open document; a file that does not exist yet may be one."""
        key = str(resolved(path))
        root = self._root_of(key)
        if root is None:
            return
        store, rules = self._stores[root], self._rules[root]
        reason = rules.may_read(path)
        size = len(text.encode("utf-8", "surrogatepass"))
        longest = max(map(len, text.split("\n")))
        if (reason is None or reason in _ABSENT) and not rules.size_reason(size, longest):
            store.overlay(Document(FileRecord(key, text_digest(text)), encoder.encode(text)))
        else:
            store.drop_overlay(key)

    def drop_overlay(self, path: Path) -> None:
        """A document was closed."""
        key = str(resolved(path))
        for store in self._stores.values():
            store.drop_overlay(key)

    def take_few(self, paths: Iterable[Path], encoder: ChunkedEncoder) -> None:
        """A few files that changed: they can be found as soon as they are read."""
        changed: dict[Store, list[Document]] = {}
        gone: dict[Store, list[str]] = {}
        for path in paths:
            key = str(resolved(path))
            root = self._root_of(key)
            if root is None:
                continue
            store = self._stores[root]
            found = self._read(path, root, store.record(key))
            if found is None:
                gone.setdefault(store, []).append(key)
            elif isinstance(found, _Text) and not store.keep_unsaved(found.record):
                changed.setdefault(store, []).append(Document(found.record, encoder.encode(found.text)))
        for store, documents in changed.items():
            store.save(documents)
        for store, keys in gone.items():
            store.remove(keys)

    def take_many(
        self, paths: Sequence[Path], encoder: ChunkedEncoder, progress: Progress, should_stop: Callable[[], bool]
    ) -> Iterator[Path]:
        """Files that may have changed, in batches, straight into segments; stores that others write are left to them.

        Args:
            paths: files that may be read, as `ReadingRules.files` gives them.
            encoder: not used by another thread.
            progress: told after each batch.
            should_stop: asked for each file.

        Yields:
            Paths that something happened to while they were read: they are to be looked at again.
        """
        known = {root: store.records() for root, store in self._stores.items()}
        batch: dict[Store, list[_Text]] = {}
        gone: dict[Store, list[str]] = {}
        held = 0
        for done, path in enumerate(paths):
            if should_stop():
                return
            key = str(resolved(path))
            root = self._root_of(key)
            if root is None or not self._stores[root].writable:
                continue
            store = self._stores[root]
            found = self._read(path, root, known[root].get(key), checked=True)
            if found is None:
                gone.setdefault(store, []).append(key)
            elif isinstance(found, _Text):
                batch.setdefault(store, []).append(found)
                held += len(found.text)
            if held >= BATCH_CHARACTERS:
                yield from self._store(batch, encoder)
                batch, held = {}, 0
                progress(done, len(paths))
        yield from self._store(batch, encoder)
        for store, keys in gone.items():
            store.remove(keys)
        progress(len(paths), len(paths))

    def remove_below(self, folders: Iterable[Path]) -> None:
        """Folders of which something is gone: forget the files below them that are no longer there."""
        tops = [resolved(folder) for folder in folders]
        for root, store in self._stores.items():
            below = [key for key in store.records() if any(Path(key).is_relative_to(top) for top in tops)]
            store.remove([key for key in below if self._rules[root].may_read(Path(key)) is not None])

    def remove_others(self, paths: Iterable[Path]) -> None:
        """Forget every file that is none of these."""
        keys = {str(resolved(path)) for path in paths}
        for root, store in self._stores.items():
            # A file that appeared meanwhile may be stored already, and none of `paths`.
            others = [key for key in store.records() if key not in keys or self._root_of(key) != root]
            store.remove([key for key in others if self._misplaced(key, root)])

    def _misplaced(self, key: str, root: Path) -> bool:
        return self._root_of(key) != root or self._rules[root].may_read(Path(key)) is not None

    def _root_of(self, key: str) -> Path | None:
        """The innermost folder that holds a file."""
        holding = [root for root in self._stores if Path(key).is_relative_to(root)]
        return max(holding, key=lambda root: len(root.parts), default=None)

    def _read(
        self, path: Path, root: Path, known: FileRecord | None, *, checked: bool = False
    ) -> "_Text | FileRecord | None":
        """A file's text; `known` itself if it has not changed; None if it is not there or may not be read."""
        real = resolved(path)
        try:
            status = real.stat()
        except OSError:
            return None
        if known is not None and (known.modified_ns, known.size) == (status.st_mtime_ns, status.st_size):
            return known if checked or self._rules[root].may_read(path) is None else None
        text = self._rules[root].read_text(path)
        if isinstance(text, Reason):
            return None
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        digest = text_digest(text)
        if known is not None and known.digest == digest:
            return known
        # A file that was written just now may be written again without its time and size telling: look again next time.
        size = status.st_size if time.time_ns() - status.st_mtime_ns > _CLOCK_NS else -1
        return _Text(FileRecord(str(real), digest, status.st_mtime_ns, size), text)

    @staticmethod
    def _store(batch: Mapping[Store, Sequence[_Text]], encoder: ChunkedEncoder) -> Iterator[Path]:
        """Store a batch; the files that have changed or gone since they were read."""
        for store, texts in batch.items():
            tokens = encoder.encode_many([found.text for found in texts])
            store.add_segment([Document(found.record, ids) for found, ids in zip(texts, tokens, strict=True)])
            yield from (Path(found.record.key) for found in texts if not _unchanged(found.record))


def _unchanged(record: FileRecord) -> bool:
    try:
        status = Path(record.key).stat()
    except OSError:
        return False
    return record.modified_ns == status.st_mtime_ns and record.size in (status.st_size, -1)
