"""A word index over a workspace folder's files, for finding code of other files.

A thread of low priority reads all files once and ends; a later one, what `changed` names. Where changes are not
reported, a query starts a scan if the last one is old enough. The index is kept in a file, so that a start reads only
changed files. Every text handed out is read anew within the rules, so an outdated index may miss a good place, and
never shows an old text.
"""

import logging
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path

from fastcoder_lsp.core import Pieces
from fastcoder_lsp.index import word_index
from fastcoder_lsp.index.terms import Terms
from fastcoder_lsp.index.word_index import WordIndex
from fastcoder_lsp.prompt.retrieval import FileWords
from fastcoder_lsp.workspace.background import ThreadTimes, lower_priority
from fastcoder_lsp.workspace.inbox import MAX_CHANGES, MAX_REST_S
from fastcoder_lsp.workspace.regular import FileStamp, file_stamp
from fastcoder_lsp.workspace.rules import ReadingRules, resolved
from fastcoder_lsp.workspace.secret_lines import KEYS

log = logging.getLogger(__name__)

LEAST_BETWEEN_S = 60.0  # least time between two scans of a folder whose changes are not reported
LEAST_REPORTED_S = 600.0  # of one whose changes are: ignore files outside the workspace may permit more files
SHARE = 0.01  # largest share of time spent on scans
MOST_HELD = 2_000_000  # characters of file texts kept in memory
MOST_INDEXED = 200_000  # longest indexed file, in characters: longer ones mostly hold data
WORTH_KEEPING = 0.01  # share of files that must change before the index is written; a start reads the others again
KEPT_AFTER = 10_000
"""Changes after which a scan writes the index before its end, so that a short session's work is not lost."""
FEW = 64  # changed files that are too few to merge
GATHERED_S = 0.05  # changes are gathered for this time: most programs write a file in several steps
REST = 4  # and for this many times the CPU time of the last ones: a file may be written without end


class FolderWords:
    """The word index of one workspace folder: one thread uses it, another one fills the index.

    `clock_s`: for the time between scans. `kept`: the index file; None: the index is not kept. `urgent`: scans have
    full priority, because the user waits for them. `cpu`: is told the time of the scans.
    """

    def __init__(
        self,
        root: Path,
        rules: ReadingRules,
        clock_s: Callable[[], float] = time.monotonic,
        kept: Path | None = None,
        *,
        urgent: bool = False,
        cpu: ThreadTimes | None = None,
    ) -> None:
        self._cpu = cpu or ThreadTimes()
        self.root, self.rules, self._clock_s, self._urgent = root, rules, clock_s, urgent
        self._real = resolved(root)  # the rules list by the real path; the folder may be a link
        self.index, self.terms = WordIndex(), Terms()
        self.kept, self._keeping, self._begun, self._changes = kept, kept is not None, False, 0
        self._held: OrderedDict[str, tuple[FileStamp, FileWords]] = OrderedDict()
        self._characters = 0
        self._looked_s = self._spent_s = self._rested_s = 0.0
        self._looked_by: ReadingRules | None = None
        self._read_by: ReadingRules | None = None
        self._files, self._folders, self._everything = set[Path](), set[Path](), False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def follow(self, rules: ReadingRules, *, reported: bool = False) -> None:
        """Start a scan of the folder if one is due, by the current rules; returns at once.

        `reported`: `changed` is called for all changes, so that scans are rarely due.
        """
        if rules is not self.rules:  # texts read by the old rules may break the new ones
            self._held.clear()
            self._characters = 0
        self.rules = rules
        least_s = LEAST_REPORTED_S if reported else LEAST_BETWEEN_S
        with self._lock:
            due_s = self._looked_s + max(least_s, self._spent_s / SHARE)
            self._everything |= self._looked_by is not rules or self._clock_s() >= due_s
            self._start()

    def changed(self, files: Iterable[Path], folders: Iterable[Path] = ()) -> None:
        """Look at these files, and those known below these folders, again; returns at once. Any thread may call.

        `folders` may hold the whole folder. New files below the others are among `files`.
        """
        with self._lock:
            self._files.update(files)
            self._folders.update(folders)
            many = len(self._files) > MAX_CHANGES or len(self._folders) > FEW
            if many or not self._folders.isdisjoint((self.root, self._real)):
                self._everything = True
            if self._everything:
                self._files.clear()
                self._folders.clear()
            self._start()

    @property
    def complete(self) -> bool:
        """Whether a scan by the current rules has reached its end, or none will; for any thread."""
        return self._read_by is self.rules or self._stopping.is_set()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is left to look at; returns whether that came. For tests, benchmarks, single queries."""
        end_s = time.monotonic() + timeout_s
        while True:
            with self._lock:  # under it a thread is started
                thread = self._thread
            left_s = end_s - time.monotonic()
            if thread is None or left_s <= 0:
                return thread is None
            thread.join(left_s)

    def stop(self) -> None:
        """Abandon a scan; the next one goes on with the files read so far."""
        self._stopping.set()

    def load(self, key: str) -> Pieces[FileWords | None]:
        """A file as it is on the disk; None if it may not be read, or is gone."""
        path, rules = self.root / key, self.rules
        stamp, known = file_stamp(path), self._held.get(key)
        if known is not None and known[0] == stamp and rules.may_read(path) is None:
            self._held.move_to_end(key)
            return known[1]
        self._drop(key)
        text = rules.read_text(path)
        if not isinstance(text, str):
            return None
        file, complete = yield from self.words_of(text.replace("\r\n", "\n").replace("\r", "\n"))
        # Words that lack some are found again for the next prompt. Another search may have read the file meanwhile.
        if stamp is not None and len(file.text) <= MOST_HELD and complete and rules is self.rules:
            self._drop(key)
            self._held[key] = stamp, file
            self._characters += len(file.text)
            while self._characters > MOST_HELD:
                self._drop(next(iter(self._held)))
        return file

    def held(self, key: str) -> bool:
        """Whether a file is in memory, so that `load` costs next to nothing unless it has changed."""
        return key in self._held

    def words_of(self, text: str) -> Pieces[tuple[FileWords, bool]]:
        """The beginning of a file and its words, nothing of a file with private keys; and whether no word lacks."""
        if KEYS in text:
            text = ""
        text = text if len(text) <= MOST_INDEXED else text[: text.rfind("\n", 0, MOST_INDEXED) + 1]
        lines, complete = yield from self.terms.by_pieces(text)
        return FileWords(text, lines), complete

    def _drop(self, key: str) -> None:
        known = self._held.pop(key, None)
        if known is not None:
            self._characters -= len(known[1].text)

    def _start(self) -> None:
        if self._thread is None and self._pending():
            self._thread = threading.Thread(target=self._look, name="words", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # too many threads; the next change or query tries again
                self._thread = None
                log.warning("cannot follow the words of %s now: %s", self.root, error)

    def _look(self) -> None:
        if not self._urgent:
            lower_priority()
        try:
            terms = Terms()
            if not self._begun:
                self._take_up()
            while self._has_work():
                if not self._everything or self._looked_by is self.rules:
                    self._stopping.wait(max(GATHERED_S, self._rested_s - time.monotonic()))
                with self._lock:
                    rules, everything, self._everything = self.rules, self._everything, False
                    files, self._files, folders, self._folders = self._files, set(), self._folders, set()
                    if everything:  # none is due meanwhile
                        self._looked_by, self._looked_s = rules, math.inf
                if everything:
                    self._look_at_all(rules, terms)
                else:
                    self._look_at(files, folders, rules, terms)
        except Exception:  # a bug costs other files' code and is logged; suggestions go on
            log.exception("stopped following the words of %s", self.root)
            self._stopping.set()
            self._thread = None

    def _has_work(self) -> bool:
        """Whether the thread goes on; under the lock, so that no change comes between the answer and its end."""
        with self._lock:
            if not self._pending():
                self._thread = None
            return self._thread is not None

    def _pending(self) -> bool:
        return bool(self._everything or self._files or self._folders) and not self._stopping.is_set()

    def _look_at(self, files: set[Path], folders: Iterable[Path], rules: ReadingRules, terms: Terms) -> None:
        began_s = time.thread_time()
        below = tuple(f"{key}/" for folder in folders if (key := _below(folder, self.root, self._real)) is not None)
        if below:
            files.update(self.root / key for key in self.index.known() if key.startswith(below))
        for path in files:
            named = _below(path, self.root, self._real)
            if named is None:
                continue
            key = _below(resolved(path), self._real)
            if key != named:  # a link, which a scan does not list, or another spelling
                self._forget(named)
            if key is not None:
                self._take(key, rules, terms, listed=False)
            if self._stopping.is_set():
                return
        self.index.merge(FEW)
        self._rest(time.thread_time() - began_s)

    def _rest(self, spent_s: float) -> None:
        self._cpu.tell()
        self._rested_s = time.monotonic() + min(REST * spent_s, MAX_REST_S)

    def _look_at_all(self, rules: ReadingRules, terms: Terms) -> None:
        began_s = time.thread_time()
        self._real = resolved(self.root)  # the link may point elsewhere now
        seen = set()
        for path in rules.files():
            if self._stopping.is_set():
                self._keep()
                return
            if (key := _below(path, self._real)) is not None:
                seen.add(key)
                self._take(key, rules, terms)
        for key in set(self.index.known()) - seen:
            self._forget(key)
        self.index.merge(FEW)
        self._read_by = rules
        self._keep()
        with self._lock:
            self._looked_s, self._spent_s = self._clock_s(), time.thread_time() - began_s
        self._rest(self._spent_s)

    def _take(self, key: str, rules: ReadingRules, terms: Terms, *, listed: bool = True) -> None:
        """Read a file if it has changed; `listed`: by a scan, so the rules allow it."""
        self._cpu.tell()
        path = self.root / key
        stamp, known = file_stamp(path), self.index.stamp(key)
        if stamp is not None and known == _number(stamp) and (listed or stamp.settled()):
            if not listed and rules.may_read(path) is not None:
                self._forget(key)
            return
        if known is None and self.index.full():
            return
        text = rules.read_text(path) if stamp is not None else None
        if stamp is None or not isinstance(text, str):
            self._forget(key)
            return
        self.index.put(key, terms.of(text[:MOST_INDEXED] if KEYS not in text else ""), _number(stamp))
        self._changes += 1
        if self.index.due():
            self.index.merge()
        if self._changes >= KEPT_AFTER:
            self._keep()

    def _forget(self, key: str) -> None:
        if key in self.index:
            self.index.remove(key)
            self._changes += 1

    def _take_up(self) -> None:
        self._begun = True
        try:
            words = word_index.read(self.kept) if self.kept is not None else None
        except OSError as error:
            log.info("reading the words of %s again: %s", self.root, error)
            return
        if words is not None:
            self.index.adopt(words)
        elif self.kept is not None and os.path.lexists(self.kept):
            log.warning("%s is not used, because it is damaged or of another version", self.kept)

    def _keep(self) -> None:
        """Write the index if enough has changed, and go on with the mapped file, which takes no memory.

        After a failure it is not written again; the next start scans the files that the index lacks.
        """
        if self.kept is None or not self._keeping or not self._changes:
            return
        if self._changes < WORTH_KEEPING * len(self.index):
            return
        try:
            word_index.write(self.kept, self.index.stored())
            words = word_index.read(self.kept)
        except OSError as error:
            log.info("cannot store the words of %s: %s", self.root, error)
            self._keeping = False
            return
        self._changes = 0
        if words is not None:
            self.index.adopt(words)


def _below(path: Path, *roots: Path) -> str | None:
    """A file's key: its path below one of these folders; None outside of them."""
    return next((path.relative_to(root).as_posix() for root in roots if path.is_relative_to(root)), None)


def _number(stamp: FileStamp) -> int:
    """A stamp in 64 bits, the same in every process."""
    return int.from_bytes(blake2b(repr(stamp[:3]).encode(), digest_size=8).digest(), "little", signed=True)
