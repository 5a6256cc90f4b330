"""Open documents and notebooks, folders, URIs, languages, accepts: the small parts of the workspace."""

from pathlib import Path, PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.lsp.usage import AcceptCounts, Accepts
from fastcoder_lsp.workspace.document import ContentChange, Document, Encoding, Position
from fastcoder_lsp.workspace.documents import Cell, Documents
from fastcoder_lsp.workspace.folders import Folders
from fastcoder_lsp.workspace.languages import is_known, language_of
from fastcoder_lsp.workspace.paths import path_of, uri_of

NOTEBOOK = "file:///n.ipynb"


def notebook(*texts: str, prose: tuple[int, ...] = ()) -> Documents:
    """A notebook with one cell a text; those at `prose` are no code."""
    documents = Documents()
    documents.open_notebook(NOTEBOOK, [Cell(f"cell:{n}", is_code=n not in prose) for n in range(len(texts))])
    for number, text in enumerate(texts):
        documents.open(Document(f"cell:{number}", None, "python", 1, text))
    return documents


def neighbours(documents: Documents, uri: str) -> tuple[str, ...]:
    snapshot = documents.snapshot(uri)
    assert snapshot is not None
    return snapshot.neighbours


def test_the_code_cells_above_are_context_nearest_last() -> None:
    documents = notebook("import os\r\n", "# Title", "x = 1", "y = 2", prose=(1,))
    assert neighbours(documents, "cell:0") == ()
    assert neighbours(documents, "cell:2") == ("import os\n",)
    assert neighbours(documents, "cell:3") == ("import os\n", "x = 1")
    before = documents.snapshot("cell:3")
    assert documents.snapshot("cell:3") is before
    edited = documents.get("cell:2")
    assert edited is not None
    edited.edit(2, [ContentChange("x = 5")], Encoding.UTF16)
    assert neighbours(documents, "cell:3") == ("import os\n", "x = 5")
    documents.splice_cells(NOTEBOOK, 0, 1, [])
    assert neighbours(documents, "cell:3") == ("x = 5",)
    documents.splice_cells(NOTEBOOK, 99, 99, [Cell("cell:0", is_code=True)])
    assert neighbours(documents, "cell:0") == ("x = 5", "y = 2")
    documents.close_notebook(NOTEBOOK)
    assert neighbours(documents, "cell:3") == ()


def test_a_document_that_is_not_open_has_no_snapshot() -> None:
    documents = Documents()
    assert documents.snapshot(Path(__file__).as_uri()) is None
    assert documents.close("file:///never") is None


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///project/a.py", "/project/a.py"),
        ("file:///project/a%20b%23%C3%A9.py", "/project/a b#é.py"),
        ("FILE:///project/a.py", "/project/a.py"),
        ("vscode-notebook-cell:/project/n.ipynb#W0sZm", "/project/n.ipynb"),
        ("untitled:Untitled-1", None),
        ("untitled:/project/new.py", None),
        ("git:/project/a.py?ref", None),
        ("file://[", None),
        ("file:relative", None),
        ("file:///a%00b", None),
        ("", None),
    ],
)
def test_paths_behind_uris(uri: str, path: str | None) -> None:
    assert path_of(uri) == (None if path is None else Path(path))


@given(st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=8))
def test_paths_come_back_from_their_uris(name: str) -> None:
    path = Path("/project") / name
    assert path_of(uri_of(path)) == path


def test_the_innermost_folder_holds_a_file() -> None:
    folders = Folders(["file:///project", "file:///project/inner", "vscode-vfs://github/x"])
    assert len(folders.paths()) == 2
    for path, uri in (("/project/inner/a.py", "file:///project/inner"), ("/project/innermost.py", "file:///project")):
        holding = folders.containing(Path(path))
        assert holding is not None
        assert holding.uri == uri
    assert folders.containing(Path("/elsewhere")) is None
    assert folders.containing(None) is None
    folders.change(added=[], removed=["file:///project", "file:///never"])
    assert folders.containing(Path("/project/a.py")) is None


def test_languages_by_file_name() -> None:
    named = {"a.py": "python", "A.TSX": "typescriptreact", "Dockerfile": "dockerfile", "CMakeLists.txt": "cmake"}
    assert {name: language_of(PurePath(name)) for name in named} == named
    assert language_of(PurePath("no.such")) == "plaintext"
    assert not is_known(PurePath("no.such"))


PIECES = st.lists(st.integers(min_value=1, max_value=4), min_size=1, max_size=8)


@given(PIECES)
def test_accepts_are_counted_by_the_size_of_edits(pieces: list[int]) -> None:
    suggestion = "abcdefgh" * 4
    document = Document("u", None, "python", 1, "x = \n")
    accepts = Accepts()
    accepts.shown("u", document.clean_text, 4, suggestion)
    taken = 0
    for size in pieces:
        place = Position(0, 4 + taken)
        document.edit(2, [ContentChange(suggestion[taken : taken + size], place, place)], Encoding.UTF16)
        accepts.changed("u", document.clean_text)
        taken += size
    accepted = [size for size in pieces if size > 1]
    assert accepts.counts() == AcceptCounts(1, int(bool(accepted)), sum(accepted))


def test_what_does_not_follow_the_suggestion_is_no_accept() -> None:
    accepts = Accepts()
    accepts.shown("u", "x = \n", 4, "value")
    for text in ("x = other\n", "x\n", "x = \nvalue", "vax = \n"):
        accepts.changed("u", text)
    accepts.closed("u")
    accepts.changed("u", "x = value\n")
    accepts.accept_command(1)
    assert accepts.counts() == AcceptCounts(1, 0, 0)
