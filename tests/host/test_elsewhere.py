"""Searches of other files while their folder is still being read."""

import queue
import threading
from pathlib import Path

import pytest

from fastcoder_lsp.completion.protocol import FoundElsewhere, SearchElsewhere
from fastcoder_lsp.completion.question import Answer
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Change
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.host.elsewhere import ElsewhereSearches, FolderFiles
from fastcoder_lsp.host.shared_process import DesiredState
from fastcoder_lsp.index.terms import Terms
from fastcoder_lsp.runtime.context import ReadableFolder
from fastcoder_lsp.runtime.folder_words import FolderWords
from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.paths import uri_of
from fastcoder_lsp.workspace.rules import ReadingRules

WAIT_S = 20
NET = "def fetch(url):\n    return url\n"


class Reading:
    """A folder of two files, and its searches; its index waits for `go`."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (root / "net.py").write_text(NET)
        (root / "cart.py").write_text("from net import load\n")
        self.go, self._root = threading.Event(), root
        of = Terms.of
        monkeypatch.setattr(Terms, "of", lambda terms, text: self.go.wait(WAIT_S) and of(terms, text))
        rules = ReadingRules((root,), Settings())
        words, folder = FolderWords(root, rules), ReadableFolder(root, rules, None)
        texts = OpenTexts()
        texts.put(root / "net.py", NET)

        def files_at(path: Path) -> FolderFiles:
            words.follow(rules)
            return FolderFiles(words, lambda _: folder, {})

        self.found = queue.Queue[FoundElsewhere]()
        self._searches = ElsewhereSearches(files_at, texts, self.found.put)

    def ask(self, number: int, patience_s: float) -> None:
        changes = (Change("net.py", 0, "def load(url):\n", "def fetch(url):\n"),)
        uri = uri_of(self._root / "net.py")
        question = EditQuestion(number, uri, "net.py", "python", 1, "", 0, changes)
        self._searches.begin(SearchElsewhere(question, patience_s=patience_s))


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(tmp_path, monkeypatch)


def test_a_patient_search_has_the_files_of_a_folder_that_is_being_read(reading: Reading) -> None:
    reading.ask(1, WAIT_S)
    with pytest.raises(queue.Empty):
        reading.found.get(timeout=0.2)
    reading.go.set()
    found = reading.found.get(timeout=WAIT_S)
    assert found.complete
    assert [one.path for one in found.files] == ["cart.py"]


def test_a_search_without_patience_says_that_files_are_missing(reading: Reading) -> None:
    reading.ask(1, 0)
    assert reading.found.get(timeout=WAIT_S) == FoundElsewhere(1, complete=False)
    reading.go.set()


def test_a_newer_search_ends_the_wait_of_an_older_one(reading: Reading) -> None:
    reading.ask(1, WAIT_S)
    reading.ask(2, 0)
    both = {(one.number, one.complete) for one in (reading.found.get(timeout=WAIT_S) for _ in range(2))}
    assert both == {(1, False), (2, False)}
    reading.go.set()


def test_a_search_waits_for_the_host_that_is_being_reached() -> None:
    state = DesiredState(Settings(), {}, True, OpenTexts())
    search = SearchElsewhere(EditQuestion(3, "file:///a.py", "a.py", "python", 1, "", 0, ()))
    state.apply(search)
    assert list(state.commands())[-1] == search
    assert not state.close(FoundElsewhere(2))
    assert state.close(FoundElsewhere(3))
    assert search not in state.commands()
    state.apply(search)
    assert state.take_all() == [search]
    assert search.refused(Answer.failed(None)) == FoundElsewhere(3, complete=False)
