"""Reads files by the reading rules, tokenises them and puts them into the stores. Has no threads and no queue.

Every call looks at the disk: a path that does not exist, or may not be read, is removed.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.index.chunks import REMEMBERED, ChunkedEncoder
from fastcoder_lsp.index.part import FileRecord, IndexedFile, text_digest
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace.paths import openable
from fastcoder_lsp.workspace.regular import FileStamp, file_stamp
from fastcoder_lsp.workspace.rules import ExclusionReason, ReadingRules, resolved

log = logging.getLogger(__name__)

BATCH_CHARACTERS = 4_000_000  # text that is tokenised and sorted at once, about 1,200,000 tokens: it bounds memory
_MAX_TOUCHED = 100_000
_ABSENT = frozenset((ExclusionReason.UNREADABLE, ExclusionReason.NOT_A_FILE))
Progress = Callable[[int, int], None]  # receives the number of files that are done, and of all files


@dataclass(frozen=True, slots=True)
class _FileText:
    record: FileRecord
    text: str


class Intake:
    """Reads files into stores; `folders` and `stores` are by resolved path. `notice` receives what it left out."""

    def __init__(
        self,
        folders: Mapping[Path, Settings],
        stores: Mapping[Path, Store],
        notice: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._folders, self._stores, self._notice = folders, stores, notice
        # The first prefix that matches is the innermost folder.
        self._roots = sorted(((str(root).rstrip(os.sep) + os.sep, root) for root in stores), key=lambda r: -len(r[0]))
        self._rules = self._new_rules()
        self._touched: dict[str, FileStamp] = {}  # touched files whose text is the stored one

    def files(self) -> Iterator[Path]:
        """Every file that may be read, folder by folder."""
        # New rules, because the old ones' cache of ignore files grows with every folder that ever existed.
        self._rules = self._new_rules()
        for root, settings in self._folders.items():
            rules = ReadingRules((root,), settings)
            for path in rules.files():
                if self._root_of(str(resolved(path))) == root:
                    yield path
            if left_out := rules.left_out():
                self._notice(left_out)

    def overlay(self, path: Path, text: str, encoder: ChunkedEncoder) -> None:
        """Put an open document's unsaved text over its file, which need not exist."""
        key, named = str(resolved(path)), str(path)
        root = self._root_of(key)
        for other, store in self._stores.items():
            if other != root:
                store.drop_overlay(key)
            if named != key:  # the path is a link now
                store.drop_overlay(named)
        if root is None:
            return
        store = self._stores[root]
        if not self._may_overlay(path, text, root):
            store.drop_overlay(key)
        elif store.unsaved_digest(key) != (digest := text_digest(text)):
            store.overlay(IndexedFile(FileRecord(key, digest), encoder.encode(text)))

    def drop_overlay(self, path: Path) -> None:
        """The document was closed."""
        for store in self._stores.values():
            for key in {str(resolved(path)), str(path)}:
                store.drop_overlay(key)

    def store_few(self, paths: Iterable[Path], encoder: ChunkedEncoder) -> None:
        """Store a few changed files, each searchable as soon as it is read."""
        changed: dict[Store, list[IndexedFile]] = {}
        gone: dict[Store, list[str]] = {}
        for path in paths:
            for store, key, found in self._examine(path):
                if found is None:
                    gone.setdefault(store, []).append(key)
                elif isinstance(found, _FileText) and not store.keep_unsaved(found.record):
                    changed.setdefault(store, []).append(IndexedFile(found.record, encoder.encode(found.text)))
        for store, documents in changed.items():
            store.save(documents)
        for store, keys in gone.items():
            store.remove(keys)

    def store_all(
        self, paths: Sequence[Path], encoder: ChunkedEncoder, progress: Progress, should_stop: Callable[[], bool]
    ) -> Iterator[Path]:
        """Store many files that may have changed, in batches, straight into segments.

        Stores that other processes write are left to them; the old text of a file that changed there is removed. Yields
        paths that changed while they were read, to be examined again.

        Args:
            paths: files that may be read, as `ReadingRules.files` yields them.
            encoder: not used by another thread.
            progress: called after each batch.
            should_stop: called for each file.
        """
        batch: dict[Store, list[_FileText]] = {}
        gone: dict[Store, list[str]] = {}
        held = 0
        try:
            self._begin_reading()
            for done, path in enumerate(paths):
                if should_stop():
                    return
                for store, key, found in self._examine(path, checked=True):
                    if found is None or (isinstance(found, _FileText) and not store.writable):
                        gone.setdefault(store, []).append(key)
                    elif isinstance(found, _FileText):
                        batch.setdefault(store, []).append(found)
                        held += len(found.text)
                if held >= BATCH_CHARACTERS:
                    yield from self._store(batch, encoder)
                    batch, held = {}, 0
                    self._begin_reading()
                    progress(done, len(paths))
            yield from self._store(batch, encoder)
            progress(len(paths), len(paths))
        finally:
            for store in self._stores.values():
                store.end_reading()
            for store, keys in gone.items():
                store.remove(keys)

    def below(self, folders: Iterable[Path]) -> list[Path]:
        """Forget the files below deleted folders; returns those below the others, which may have changed."""
        doubtful: list[Path] = []
        for top in _outermost(folders):
            for store in self._stores.values():
                keys = store.below(top)
                if keys and not os.path.lexists(openable(Path(top))):
                    store.remove(keys)
                else:
                    doubtful += map(Path, keys)
        return doubtful

    def remove_others(self, paths: Iterable[Path]) -> None:
        """Forget all files except these."""
        keys = {str(resolved(path)) for path in paths}
        for root, store in self._stores.items():
            # A file that appeared meanwhile may be stored without being in `paths`.
            others = [key for key in store.records() if key not in keys or self._root_of(key) != root]
            store.remove(
                [key for key in others if not os.path.lexists(openable(Path(key))) or self._misplaced(key, root)]
            )

    def _new_rules(self) -> dict[Path, ReadingRules]:
        rules = {}
        for root, settings in self._folders.items():
            try:
                rules[root] = ReadingRules(tuple(self._folders), settings)
            except OSError as error:
                log.warning("%s cannot be read: %s", root, error)
        return rules

    def _may_read(self, path: Path, root: Path) -> bool:
        rules = self._rules.get(root)
        return rules is not None and rules.may_read(path) is None

    def _may_overlay(self, path: Path, text: str, root: Path) -> bool:
        rules = self._rules.get(root)
        if rules is None or len(text) > REMEMBERED:  # the version on the disk is used instead
            return False
        reason = rules.may_read(path)
        size = len(text.encode("utf-8", "surrogatepass"))
        longest = max(map(len, text.split("\n")))
        return (reason is None or reason in _ABSENT) and rules.size_reason(size, longest) is None

    def _begin_reading(self) -> None:
        for store in self._stores.values():
            store.begin_reading()

    def _misplaced(self, key: str, root: Path) -> bool:
        return self._root_of(key) != root or not self._may_read(Path(key), root)

    def _root_of(self, key: str) -> Path | None:
        return next((root for prefix, root in self._roots if key.startswith(prefix)), None)

    def _examine(
        self, path: Path, *, checked: bool = False
    ) -> Iterator[tuple[Store, str, "_FileText | FileRecord | None"]]:
        """Store, key, and the result of `_read` for a path; nothing if it is in no folder."""
        key, named = str(resolved(path)), str(path)
        if key != named and (old := self._root_of(named)) is not None and self._stores[old].record(named) is not None:
            # The name is a link now: forget the old file of that name.
            yield self._stores[old], named, None
        root = self._root_of(key)
        if root is not None:
            store = self._stores[root]
            yield store, key, self._read(path, root, store.record(key), checked=checked)

    def _read(
        self, path: Path, root: Path, known: FileRecord | None, *, checked: bool
    ) -> "_FileText | FileRecord | None":
        """A file's text; `known` itself if it has not changed; None if it does not exist or may not be read."""
        real = resolved(path)
        key = str(real)
        stamp = file_stamp(openable(real))
        if stamp is None:
            self._touched.pop(key, None)
            return None
        if known is not None and (
            stamp[:3] == (known.modified_ns, known.size, known.changed_ns) or stamp == self._touched.get(key)
        ):
            return known if checked or self._may_read(path, root) else None
        rules = self._rules.get(root)
        text = ExclusionReason.UNREADABLE if rules is None else rules.read_text(path)
        if isinstance(text, ExclusionReason):
            return None
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        digest = text_digest(text)
        settled = stamp.settled()  # else read it again next time
        if known is not None and known.digest == digest:
            if settled:
                self._cache_touched(key, stamp)
            return known
        size = stamp.size if settled else -1
        return _FileText(FileRecord(key, digest, stamp.modified_ns, size, stamp.changed_ns), text)

    def _cache_touched(self, key: str, stamp: FileStamp) -> None:
        if len(self._touched) >= _MAX_TOUCHED:
            self._touched.clear()
        self._touched[key] = stamp

    @staticmethod
    def _store(batch: Mapping[Store, Sequence[_FileText]], encoder: ChunkedEncoder) -> Iterator[Path]:
        """Store a batch. Yields the files that have changed or were deleted since they were read."""
        for store, texts in batch.items():
            tokens = encoder.encode_many([found.text for found in texts])
            store.add_segment([IndexedFile(found.record, ids) for found, ids in zip(texts, tokens, strict=True)])
            yield from (Path(found.record.key) for found in texts if not _unchanged(found.record))


def _unchanged(record: FileRecord) -> bool:
    now = file_stamp(openable(Path(record.key)))
    if now is None or record.size not in (now.size, -1):
        return False
    return (record.modified_ns, record.changed_ns) == (now.modified_ns, now.changed_ns)


def _outermost(folders: Iterable[Path]) -> list[str]:
    """The outermost of some folders, by their real names and by names that a link may have taken."""
    names = {str(name) for folder in folders for name in (resolved(folder), resolved(folder.parent) / folder.name)}
    found: list[str] = []
    for name in sorted(names, key=lambda name: name.rstrip(os.sep) + os.sep):
        if not found or not name.startswith(found[-1].rstrip(os.sep) + os.sep):
            found.append(name)
    return found
