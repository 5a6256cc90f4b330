"""Takes into the stores what the editor and the watcher tell, within milliseconds: a live index's first thread.

Owns what is taken at once and what is left for the thread that does what takes long (`backlog`).
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.index.chunks import ChunkedEncoder, Encoder
from fastcoder_lsp.workspace.backlog import BURST, Backlog
from fastcoder_lsp.workspace.ignore import IGNORE_FILES
from fastcoder_lsp.workspace.inbox import Inbox, Told
from fastcoder_lsp.workspace.intake import Intake
from fastcoder_lsp.workspace.open_stores import OpenStores
from fastcoder_lsp.workspace.rules import resolved
from fastcoder_lsp.workspace.walk import walk
from fastcoder_lsp.workspace.watch import EXCLUDE_FILE, QUIET

FEW = 32
"""Changed files that are taken one by one; more at once are a matter for the second thread."""
_REST = 4
"""After files of the disk were taken in, no more are for this many times as long; documents are."""


class EditFollower:
    """Follows the inbox.

    Args:
        encoder: the tokenizer.
        inbox: what is told.
        backlog: what is to be done, and which folders are wanted.
        stores: where it goes.
    """

    def __init__(self, encoder: Encoder, inbox: Inbox, backlog: Backlog, stores: OpenStores) -> None:
        self._encoder, self._inbox, self._backlog, self._stores = encoder, inbox, backlog, stores

    def run(self) -> None:
        """The thread's life, until the backlog is stopped."""
        encoder = ChunkedEncoder(self._encoder)
        backlog, stores = self._backlog, self._stores
        intake, of = stores.intake, (backlog.wanted, stores.intake)
        while True:
            with backlog.lock:
                # Until the stores are open, what is told waits in the inbox, which stays small.
                backlog.lock.wait_for(lambda: backlog.stopping or stores.intake is not None)
            told = self._inbox.take()
            with backlog.lock:
                if backlog.stopping:
                    return
                wanted, opened = backlog.wanted, stores.intake
            if intake is None or wanted is not of[0] or opened is not of[1]:
                intake, of = opened if wanted is None else self._intake_by(wanted), (wanted, opened)
            assert intake is not None
            began = time.monotonic()
            self._take_in(intake, told, encoder)
            if told.paths or told.folders:
                # A file that is written without end is not read without end.
                self._inbox.rest(_REST * (time.monotonic() - began))
            for seen in told.waiting:
                # Taking something in may have put more into the inbox.
                seen.set() if self._inbox.empty() else self._inbox.wait_for_empty(seen)

    def _intake_by(self, wanted: Mapping[Path, Settings]) -> Intake:
        """By rules that hold from now on, whatever the second thread is at; the stores that are open."""
        folders = {resolved(root): settings for root, settings in wanted.items()}
        stores = {root: store for root, store in self._stores.by_root.items() if root in folders}
        return Intake({root: folders[root] for root in stores}, stores)

    def _take_in(self, intake: Intake, told: Told, encoder: ChunkedEncoder) -> None:
        for path, text in told.documents.items():
            if text is None:
                intake.drop_overlay(path)
            else:
                intake.overlay(path, text, encoder)
        paths = dict.fromkeys((*told.paths, *intake.below(told.folders)))
        for path in _files_in(told.folders):
            if len(paths) > BURST:
                break
            # They may have come before their folder was watched.
            paths[path] = None
        ruled = any(path.name in IGNORE_FILES or path.parts[-3:] == EXCLUDE_FILE for path in paths)
        everything = self._backlog.counts_too_many(len(paths)) or ruled or told.lost
        few = len(paths) <= FEW
        if few:
            intake.take_few(paths, encoder)
        if everything or not few:
            self._backlog.hand_on(() if few else paths, everything=everything, at_once=ruled)
        if ruled or told.lost:
            self._inbox.all_documents()


def _files_in(folders: Iterable[Path]) -> Iterator[Path]:
    """All files below some folders, but those that tools fill."""
    for folder in folders:
        yield from walk(folder, lambda path: path.name not in QUIET)
