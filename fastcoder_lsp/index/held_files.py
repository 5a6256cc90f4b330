"""The present files of a store, and the snapshot of them that searchers pin.

The memory side of a store: saved and unsaved texts arrive one after the other in parts, and many small parts are merged
into one. A file has at most one *saved* home (the text on the disk) and one *unsaved* home (the editor's text), which
hides the saved one while it exists. `pin` is free; other methods cost as much as sorting the given files. Every public
method of `HeldFiles` is thread-safe, and none touches the disk.
"""

import os
import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.index import merge as merging
from fastcoder_lsp.index.part import FileRecord, IndexedFile, Liveness, Part, build_part, liveness
from fastcoder_lsp.index.searcher import NOTHING, LivePart, StoreSnapshot

_FEW = 64  # up to so many keys are inserted one by one; more are merged at once


class SortedKeys:
    """Sorted keys that are paths. Not thread-safe."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    def add(self, keys: Sequence[str]) -> None:
        """Insert new keys, each once."""
        if len(keys) <= _FEW:
            for key in keys:
                insort(self._keys, key)
        else:
            self._keys += sorted(keys)
            self._keys.sort()  # two sorted runs, which the sort merges in one pass

    def discard(self, keys: Sequence[str]) -> None:
        """Remove present keys."""
        if len(keys) <= _FEW:
            for key in keys:
                del self._keys[bisect_left(self._keys, key)]
        else:
            gone = set(keys)
            self._keys = [key for key in self._keys if key not in gone]

    def below(self, folder: str) -> list[str]:
        """The keys of the files in a folder and its subfolders."""
        prefix = folder.rstrip(os.sep) + os.sep
        start = bisect_left(self._keys, prefix)
        return self._keys[start : bisect_left(self._keys, prefix[:-1] + chr(ord(os.sep) + 1), start)]


class PartKind(Enum):
    """The origin of a part's texts, and whether it is on the disk."""

    SEGMENT = "segment"
    SAVED = "saved"
    UNSAVED = "unsaved"


@dataclass(slots=True, eq=False)
class HeldPart:
    """A part that the store holds. `dead` files are gone for good, `hidden` ones have an unsaved text."""

    part: Part
    kind: PartKind
    dead: set[int] = field(default_factory=set)
    hidden: set[int] = field(default_factory=set)
    busy: bool = False  # the part is being merged into another one and must stay in its place
    entry: LivePart | None = None

    def refresh(self) -> LivePart:
        """The part as a snapshot shows it now; the same object as before if nothing changed."""
        gone = frozenset(self.dead | self.hidden)
        if self.entry is None or self.entry.dead != gone:
            live: Liveness | None = None
            # A part that is all dead is not searched, so it needs no bits.
            if gone and len(gone) < len(self.part.records):
                was = (None, frozenset[int]()) if self.entry is None else (self.entry.live, self.entry.dead)
                live = liveness(self.part.order_M, self.part.starts, gone, was)
            self.entry = LivePart(self.part, gone, live, self.kind is not PartKind.SEGMENT)
        return self.entry

    def dead_size(self) -> int:
        """How many of the part's tokens are dead."""
        return sum(int(self.part.starts[file + 1] - self.part.starts[file]) - 1 for file in self.dead)


Home = tuple[HeldPart, int]


class State:
    """All holdings, oldest first, and the homes of all files."""

    def __init__(self) -> None:
        self.holdings: list[HeldPart] = []
        self.saved: dict[str, Home] = {}
        self.unsaved: dict[str, Home] = {}
        self.keys = SortedKeys()  # of `saved`
        self.touched: set[str] | None = None  # keys saved or removed since a bulk read began; None: none runs
        self._generation = 0

    def snapshot(self) -> StoreSnapshot:
        """A snapshot of the present state."""
        entries = [holding.refresh() for holding in reversed(self.holdings)]
        shown = [entry for entry in entries if len(entry.dead) < len(entry.part.records)]
        shown.sort(key=lambda entry: not entry.recent)
        self._generation += 1
        return StoreSnapshot(tuple(shown), self._generation)

    def add(self, part: Part, kind: PartKind, dead: Sequence[int] = ()) -> None:
        """Add a part; its live files replace those under the same keys, except keys `touched` since its reading."""
        holding = HeldPart(part, kind, set(dead))
        self.holdings.append(holding)
        late = (self.touched or set()) if kind is PartKind.SEGMENT else set()
        if kind is PartKind.SAVED:
            self._touch([record.key for record in part.records])
        if kind is not PartKind.UNSAVED:
            keys = dict.fromkeys(r.key for file, r in enumerate(part.records) if file not in holding.dead)
            self.keys.add([key for key in keys if key not in self.saved and key not in late])
        for file, record in enumerate(part.records):
            if file in holding.dead:
                continue
            if record.key in late:
                holding.dead.add(file)
            elif kind is PartKind.UNSAVED:
                self._leave(self.unsaved, record.key)
                self.unsaved[record.key] = (holding, file)
                if record.key in self.saved:
                    saved, index = self.saved[record.key]
                    saved.hidden.add(index)
            else:
                self._leave(self.saved, record.key)
                self.saved[record.key] = (holding, file)
                if record.key in self.unsaved:
                    holding.hidden.add(file)
        self._sweep()

    def remove(self, keys: Iterable[str]) -> bool:
        """Remove files that are gone from the disk. Returns whether the store had any of them."""
        gone = list(keys)
        self._touch(gone)
        found = [key for key in gone if self._leave(self.saved, key)]
        self.keys.discard(found)
        self._sweep()
        return bool(found)

    def uncover(self, key: str) -> bool:
        """Remove the unsaved text, which uncovers the saved one. Returns whether there was any."""
        if not self._leave(self.unsaved, key):
            return False
        if key in self.saved:
            holding, index = self.saved[key]
            holding.hidden.discard(index)
        self._sweep()
        return True

    def replace(self, old: Sequence[HeldPart], part: Part, dead: Sequence[frozenset[int]], kind: PartKind) -> None:
        """Replace `old` by `part`, which was merged from them while the files `dead` of each were dead.

        Files that died or were hidden meanwhile are so in the new part too.
        """
        new = HeldPart(part, kind)
        at = 0
        for holding, out in zip(old, dead, strict=True):
            for file, record in enumerate(holding.part.records):
                if file in out:
                    continue
                if file in holding.dead:
                    new.dead.add(at)
                if file in holding.hidden:
                    new.hidden.add(at)
                for homes in (self.saved, self.unsaved):
                    if homes.get(record.key) == (holding, file):
                        homes[record.key] = (new, at)
                at += 1
        where = self.holdings.index(old[-1])
        self.holdings[where] = new
        gone = {id(holding) for holding in old}
        self.holdings = [holding for holding in self.holdings if id(holding) not in gone]
        self._sweep()

    def reloaded(self, segments: Sequence[tuple[Part, Sequence[int]]]) -> "State":
        """The state with these segments (and their dead files) instead of its own.

        It keeps all unsaved files, and those saved ones in memory that the segments lack, or have with another text.
        Only the disk can tell which of two texts is current.
        """
        new = State()
        new._generation = self._generation
        entries = {holding.part.name: holding.entry for holding in self.of(PartKind.SEGMENT)}
        for part, dead in segments:
            new.add(part, PartKind.SEGMENT, dead)
            new.holdings[-1].entry = entries.get(part.name)
        stored = new.records()
        for kind in (PartKind.SAVED, PartKind.UNSAVED):
            for holding in self.of(kind):
                records = enumerate(holding.part.records)
                known = {i for i, record in records if kind is PartKind.SAVED and _same(record, stored.get(record.key))}
                new.add(holding.part, kind, sorted(holding.dead | known))
        new.touched = self.touched
        return new

    def drop_dead_segments(self) -> None:
        """Drop segments without live files."""
        self.holdings = [holding for holding in self.holdings if len(holding.dead) < len(holding.part.records)]

    def of(self, kind: PartKind) -> list[HeldPart]:
        """The holdings of one kind, oldest first."""
        return [holding for holding in self.holdings if holding.kind is kind]

    def dead_by_segment(self) -> dict[str, set[int]]:
        """Name of each segment, oldest first → its dead files, as they are now."""
        return {holding.part.name: set(holding.dead) for holding in self.of(PartKind.SEGMENT)}

    def records(self) -> dict[str, FileRecord]:
        """key → record of every saved file."""
        return {key: holding.part.records[file] for key, (holding, file) in self.saved.items()}

    def _touch(self, keys: Iterable[str]) -> None:
        if self.touched is not None:
            self.touched.update(keys)

    @staticmethod
    def _leave(homes: dict[str, Home], key: str) -> bool:
        home = homes.pop(key, None)
        if home is None:
            return False
        home[0].dead.add(home[1])
        home[0].hidden.discard(home[1])
        return True

    def _sweep(self) -> None:
        """Drop parts in memory without live files; segments stay until the manifest has dropped them."""
        self.holdings = [
            holding
            for holding in self.holdings
            if holding.busy or holding.kind is PartKind.SEGMENT or len(holding.dead) < len(holding.part.records)
        ]


def _same(record: FileRecord, stored: FileRecord | None) -> bool:
    return stored is not None and record.digest == stored.digest


TAIL_PARTS = 6  # most parts of one kind in memory; beyond them, all but the newest are merged into one


class HeldFiles:
    """Saved texts, unsaved ones that hide them, and their parts: in memory, and segments of the disk."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._state, self._snapshot = State(), NOTHING

    def pin(self) -> StoreSnapshot:
        """The present state, which does not change while it is pinned."""
        return self._snapshot

    def save(self, documents: Sequence[IndexedFile]) -> None:
        """Store files as they are on the disk now. For a few files; for many see `add_segment`."""
        if documents:
            self._add(build_part(documents), PartKind.SAVED)

    def overlay(self, document: IndexedFile) -> None:
        """Store a file's unsaved text, which hides the one on the disk."""
        self._add(build_part([document]), PartKind.UNSAVED)

    def keep_unsaved(self, record: FileRecord) -> bool:
        """Use the unsaved text as the disk's, because it was saved unchanged; False without one of this digest."""
        with self._lock:
            home = self._state.unsaved.get(record.key)
            if home is None or home[0].part.records[home[1]].digest != record.digest:
                return False
            document = replace(home[0].part.document(home[1]), record=record)
            single = len(home[0].part.records) == 1
            part = replace(home[0].part, records=(record,)) if single else build_part([document])
            self._add(part, PartKind.SAVED)
        return True

    def remove(self, keys: Iterable[str]) -> None:
        """Remove files that are gone from the disk."""
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
        """The digest of a file's unsaved text; None if there is none."""
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
            return [key for key, (holding, _) in self._state.saved.items() if holding.kind is PartKind.SAVED]

    def begin_reading(self) -> None:
        """Begin to read files for `add_segment`."""
        with self._lock:
            self._state.touched = set()

    def end_reading(self) -> None:
        """End reading: no files wait for `add_segment` any longer."""
        with self._lock:
            self._state.touched = None

    def _add(self, part: Part, kind: PartKind) -> None:
        with self._lock:
            self._state.add(part, kind)
            crowded = [h for h in self._state.of(kind)[:-1] if not h.busy] if kind is not PartKind.SEGMENT else []
            if len(crowded) >= TAIL_PARTS:
                self._weave(crowded, kind, merging.MemoryRoom)
            self._publish()

    def _publish(self) -> None:
        self._snapshot = self._state.snapshot()

    def _weave(
        self,
        old: Sequence[HeldPart],
        kind: PartKind,
        room: Callable[[Int64s, tuple[FileRecord, ...], int], merging.MergeTarget],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Merge holdings, unlocked, into one part of another kind; False, unchanged, if `should_stop` ended it."""
        with self._lock:
            # Hidden files are merged too: they may be uncovered.
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
