"""One store: a folder of segments, and the files in memory that belong to it.

Every public method is thread-safe; `seal`, `merge` and `add_segment` may take long and never delay the methods of
`HeldFiles`.
"""

import errno
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import filelock

from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.core.files import private_folder
from fastcoder_lsp.index import merge as merging
from fastcoder_lsp.index.held_files import HeldFiles, PartKind
from fastcoder_lsp.index.part import FileRecord, IndexedFile, build_part
from fastcoder_lsp.index.segment import DamagedError, SegmentDraft, write_segment
from fastcoder_lsp.index.stored import (
    Manifest,
    SegmentEntry,
    delete_all,
    delete_unnamed,
    folder_size,
    load,
    new_segment_path,
    read_manifest,
)

LOCK_NAME = "writer.lock"


class WriterLock:
    """The lock in a store's folder, which decides the process that may write. Never waits.

    A lock whose file was deleted guards nothing: other processes make a new one and write.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_NAME
        self._lock = filelock.FileLock(self._path, mode=0o600, thread_local=False)
        self._file: tuple[int, int] | None = None

    @property
    def held(self) -> bool:
        """Whether this process has taken it."""
        return bool(self._lock.is_locked)

    def take(self) -> bool:
        """Take the lock if it is free; returns whether it was taken. Raises OSError if the lock file cannot be made."""
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            return False
        self._file = self._named()
        return True

    def release(self) -> None:
        """Release the lock, so that other processes can take it."""
        self._lock.release()

    def guards(self) -> bool:
        """Whether the locked file is still the one that other processes would lock."""
        return self._file is not None and self._named() == self._file

    def _named(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Sizes of a store: live files and their tokens; tokens of each segment, and bytes on the disk."""

    folder: Path
    source: str
    complete: bool
    files: int
    tokens: int
    segments: tuple[int, ...]
    bytes: int


log = logging.getLogger(__name__)

MOST_SEGMENTS = 16  # with more segments, as while a large repository is first read, adding one merges at once


class Store(HeldFiles):
    """Files that outlive the program. Open with `Store.open`.

    One process at a time may write (`writable`); another that opens the same folder reads what the first has sealed
    (`follow`) and keeps its own edits in memory.
    """

    def __init__(self, folder: Path, identity: str, source: str, notice: Callable[[str], None]) -> None:
        super().__init__()
        self.folder = folder
        self._identity, self._source, self._notice = identity, source, notice
        self._disk = threading.RLock()
        self._writer = WriterLock(folder)
        self._manifest = Manifest(identity, source)

    @classmethod
    def open(
        cls,
        folder: Path,
        identity: str,
        source: str = "",
        notice: Callable[[str], None] = log.warning,
        *,
        reader: bool = False,
    ) -> "Store":
        """Open the store in `folder`, or begin one.

        Args:
            folder: private to this store; made if missing, if this process may write.
            identity: the tokenizer's.
            source: what is indexed, for people.
            notice: receives a message if the stored index cannot be used and is rebuilt.
            reader: do not write before `take_over`, even if no other process does.

        Raises:
            OSError: this process should write, but the folder or its lock cannot be made or read.
        """
        store = cls(folder, identity, source, notice)
        if not reader:
            store.take_over()
        if not store.writable:
            store.follow()
        return store

    @property
    def writable(self) -> bool:
        """Whether this process is the writer."""
        return self._writer.held

    @property
    def complete(self) -> bool:
        """Whether all files were read once (`mark_complete`)."""
        return self._manifest.complete

    def take_over(self) -> bool:
        """Become the writer if no process is. Returns whether this process has just become it.

        Raises:
            OSError: the folder or the lock cannot be made, or what is stored can't be read now; nothing has changed.
        """
        if self.writable:
            return False
        private_folder(self.folder)
        if not self._writer.take():
            return False
        try:
            with self._disk:
                self._begin()
        except BaseException:
            self._writer.release()
            raise
        return True

    def reclaim(self) -> bool:
        """Recover if the folder, or the lock in it, was deleted while this process was the writer.

        The files held are written again, unless another process has begun the store again; then its files hold. Returns
        whether that happened, so that everything must be scanned. After an OSError this process is no longer the
        writer.
        """
        if not self.writable or self._writer.guards():
            return False
        self._writer.release()
        log.warning("%s was deleted or taken over by another process; rebuilding it", self.folder)
        if not self.take_over():
            self.follow()
        return True

    def follow(self) -> bool:
        """As a reader, load what the writer has sealed. Returns whether there was anything new."""
        if self.writable:
            return False
        with self._disk:
            try:
                manifest = read_manifest(self.folder)
                if manifest is None or manifest.generation == self._manifest.generation:
                    return False
                self._load()
            except (DamagedError, OSError) as damage:
                log.info("%s cannot be read: %s", self.folder, damage)
                return False
        return True

    def add_segment(self, documents: Sequence[IndexedFile]) -> None:
        """Write files as read from the disk into a segment; those changed since `begin_reading` stay newer."""
        if not self.writable:
            self.save(documents)
        elif documents:
            part = build_part(documents)
            with self._disk:
                mapped = write_segment(part, new_segment_path(self.folder), self._identity)
                self._add(mapped, PartKind.SEGMENT)
                self._write_manifest()
                crowded = len(self._state.of(PartKind.SEGMENT)) > MOST_SEGMENTS
            if crowded:
                self.merge()

    def seal(self) -> None:
        """Write saved files that are only in memory to a segment; does nothing in a reader."""
        if not self.writable:
            return
        with self._disk:
            with self._lock:
                tail = self._state.of(PartKind.SAVED)
            if tail:
                self._weave(tail, PartKind.SEGMENT, self._segment_room)
            with self._lock:
                dead = self._state.dead_by_segment()
            if tail or dead != {segment.name: set(segment.dead) for segment in self._manifest.segments}:
                self._write_manifest()

    def merge(self, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Merge segments once, if the policy says so. Returns whether anything was merged."""
        if not self.writable:
            return False
        with self._disk:
            with self._lock:
                segments = self._state.of(PartKind.SEGMENT)
                sizes = [holding.part.size for holding in segments]
                chosen = [
                    segments[i] for i in merging.segments_to_merge(sizes, [holding.dead_size() for holding in segments])
                ]
            if not chosen or not self._weave(chosen, PartKind.SEGMENT, self._segment_room, should_stop):
                return False
            self._write_manifest()
        return True

    def mark_complete(self) -> None:
        """Record that all files were read once."""
        with self._disk:
            if self.writable and not self._manifest.complete:
                self._write_manifest(replace(self._manifest, complete=True))

    def status(self) -> StoreStatus:
        """The sizes of the store now."""
        with self._lock:
            homes = {**self._state.saved, **self._state.unsaved}
            tokens = sum(len(holding.part.tokens_of(file)) for holding, file in homes.values())
            sizes = sorted((holding.part.size for holding in self._state.of(PartKind.SEGMENT)), reverse=True)
        size, complete = folder_size(self.folder), self._manifest.complete
        return StoreStatus(self.folder, self._source, complete, len(homes), tokens, tuple(sizes), size)

    def clear(self) -> None:
        """Forget every saved file and delete the stored ones; unsaved texts stay."""
        with self._disk, self._lock:
            if self.writable:
                self._restart()

    def close(self) -> None:
        """Seal saved files and let another process write; snapshots stay. After an OSError it reads them again."""
        try:
            self.seal()
        finally:
            self._writer.release()

    def abandon(self) -> None:
        """Delete the stored files, which are no longer needed, and let another process write."""
        with self._disk:
            if self.writable:
                delete_all(self.folder)
            self._writer.release()

    def _begin(self) -> None:
        """As the new writer, load the stored files; if they were deleted, write those in memory."""
        try:
            stored = self._load()
        except DamagedError as damage:
            self._notice(f"Rebuilding the index in {self.folder}: {damage}.")
            self._restart()
            return
        if not stored:
            # Deleted segments are still mapped.
            for holding in self._state.of(PartKind.SEGMENT):
                self._weave([holding], PartKind.SEGMENT, self._segment_room)
            if self._state.of(PartKind.SEGMENT):
                self._write_manifest()
        delete_unnamed(self.folder, self._manifest)

    def _segment_room(self, starts: Int64s, records: tuple[FileRecord, ...], entries: int) -> SegmentDraft:
        return SegmentDraft(new_segment_path(self.folder), self._identity, starts, records, entries)

    def _load(self) -> bool:
        """Load the store on the disk, if there is one; files that are only in memory stay."""
        with self._lock:
            known = {holding.part.name: holding.part for holding in self._state.of(PartKind.SEGMENT)}
        manifest, parts = load(self.folder, self._identity, known)
        if manifest is None:
            return False
        with self._lock:
            self._manifest = manifest
            dead = [segment.dead for segment in manifest.segments]
            self._state = self._state.reloaded(list(zip(parts, dead, strict=True)))
            self._publish()
        return True

    def _restart(self) -> None:
        with self._lock:
            self._state = self._state.reloaded([])
            self._write_manifest(Manifest(self._identity, self._source, self._manifest.generation))
            self._publish()

    def _write_manifest(self, now: Manifest | None = None) -> None:
        """Write the manifest `now` with the present state's segments, and delete segments that it does not name."""
        with self._lock:
            self._state.drop_dead_segments()
            dead = self._state.dead_by_segment()
        entries = tuple(SegmentEntry(name, tuple(sorted(files))) for name, files in dead.items())
        now = now or self._manifest
        now = replace(now, segments=entries, source=self._source, generation=now.generation + 1)
        if not self._writer.guards():
            raise FileNotFoundError(errno.ENOENT, "the index was deleted while it was written", str(self.folder))
        now.write(self.folder)
        # Last, so that a failed write is tried again
        self._manifest = now
        delete_unnamed(self.folder, now)
