"""The files that a store holds right now, and the snapshot of them that searchers pin.

Owns the memory side of a store: saved and unsaved texts as they come, one after the other, in parts that become one
where they are many. Every public method may be called from any thread; `pin` costs nothing, the others what sorting
the handed files costs.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.index import merge as merging
from fastcoder_lsp.index.liveness import liveness
from fastcoder_lsp.index.part import Document, FileRecord, Part, build_part
from fastcoder_lsp.index.searcher import NOTHING, StoreSnapshot
from fastcoder_lsp.index.state import Holding, Kind, State

TAIL_PARTS = 6
"""Parts of one kind in memory; where there are more, all but the newest become one."""


class HeldFiles:
    """Saved texts, unsaved ones that hide them, and what both are in: parts in memory, and segments of the disk."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._state, self._snapshot = State(), NOTHING

    def pin(self) -> StoreSnapshot:
        """The present state, which stays as it is while it is held."""
        return self._snapshot

    def save(self, documents: Sequence[Document]) -> None:
        """Files as they are on the disk now. For a few files; for many see `add_segment`."""
        if documents:
            self._add(build_part(documents), Kind.SAVED)

    def overlay(self, document: Document) -> None:
        """A file's unsaved text, which hides what is on the disk."""
        self._add(build_part([document]), Kind.UNSAVED)

    def keep_unsaved(self, record: FileRecord) -> bool:
        """The unsaved text was saved as it is: it becomes the file's text on the disk too, at no cost.

        Returns:
            False where the store has no unsaved text with this digest.
        """
        with self._lock:
            home = self._state.unsaved.get(record.key)
            if home is None or home[0].part.records[home[1]].digest != record.digest:
                return False
            document = replace(home[0].part.document(home[1]), record=record)
            single = len(home[0].part.records) == 1
            part = replace(home[0].part, records=(record,)) if single else build_part([document])
            self._add(part, Kind.SAVED)
        return True

    def remove(self, keys: Iterable[str]) -> None:
        """Files that are gone from the disk."""
        with self._lock:
            if self._state.remove(keys):
                self._publish()

    def drop_overlay(self, key: str) -> None:
        """The editor has closed the file: the disk's text holds again."""
        with self._lock:
            if self._state.uncover(key):
                self._publish()

    def records(self) -> dict[str, FileRecord]:
        """key → record of every file, as it was when its saved text was read."""
        with self._lock:
            return self._state.records()

    def record(self, key: str) -> FileRecord | None:
        """The record of one file, as in `records`."""
        with self._lock:
            home = self._state.saved.get(key)
            return None if home is None else home[0].part.records[home[1]]

    def unsaved_digest(self, key: str) -> str | None:
        """What tells a file's unsaved text from another; None where there is none."""
        with self._lock:
            home = self._state.unsaved.get(key)
            return None if home is None else home[0].part.records[home[1]].digest

    def below(self, folder: str) -> list[str]:
        """The keys of the saved files below a folder."""
        with self._lock:
            return self._state.keys.below(folder)

    def in_memory(self) -> list[str]:
        """The keys of the saved files that are in no segment."""
        with self._lock:
            return [key for key, (holding, _) in self._state.saved.items() if holding.kind is Kind.SAVED]

    def begin_reading(self) -> None:
        """From now on files are read that `add_segment` will store."""
        with self._lock:
            self._state.touched = set()

    def end_reading(self) -> None:
        """End reading: nothing that was read waits for `add_segment` any longer."""
        with self._lock:
            self._state.touched = None

    def _add(self, part: Part, kind: Kind) -> None:
        with self._lock:
            self._state.add(part, kind)
            crowded = [h for h in self._state.of(kind)[:-1] if not h.busy] if kind is not Kind.SEGMENT else []
            if len(crowded) >= TAIL_PARTS:
                self._weave(crowded, kind, merging.MemoryRoom)
            self._publish()

    def _publish(self) -> None:
        self._snapshot = self._state.snapshot()

    def _weave(
        self,
        old: Sequence[Holding],
        kind: Kind,
        room: Callable[[npt.NDArray[np.int64], tuple[FileRecord, ...], int], merging.Room],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Weave holdings into one; the lock is not held meanwhile, unless the caller holds it.

        Args:
            old: the holdings.
            kind: of the one that takes their place.
            room: makes the place where it is written.
            should_stop: asked between pieces of work; True: nothing is changed.

        Returns:
            False where it was stopped.
        """
        with self._lock:
            # Files that are hidden are woven too: they may be uncovered.
            dead = [frozenset(holding.dead) for holding in old]
            for holding in old:
                holding.busy = True
        try:
            live = [
                liveness(holding.part.order_M, holding.part.starts, out) for holding, out in zip(old, dead, strict=True)
            ]
            part = merging.weave([holding.part for holding in old], dead, live, room, should_stop)
            if part is None:
                return False
            with self._lock:
                self._state.replace(old, part, dead, kind)
                self._publish()
        finally:
            with self._lock:
                for holding in old:
                    holding.busy = False
        return True
