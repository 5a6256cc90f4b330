"""Open documents against a naive client, notebooks, folders, URIs, languages, accepts: small parts of the workspace."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastcoder_lsp.lsp.usage import AcceptCounts, Accepts
from fastcoder_lsp.workspace.document import ContentChange, Document, Encoding, Position, position_at
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


@pytest.mark.parametrize(
    ("first", "language"),
    [
        ("%%bash", "shellscript"),
        ("\n%%bash -s x", "shellscript"),
        ("%%!", "shellscript"),
        ("%%sql sqlite://", "sql"),
        ("%%javascript", "javascript"),
        ("%%html --isolated", "html"),
        ("%%script --bg perl", "perl"),
        ("%%writefile src/a.sh", "shellscript"),
        ("%%writefile -a a.py", "python"),
        ("%%unheard of", "plaintext"),
        ("%sql", "sql"),
        ("%%time", "python"),
        ("%%timeit -n 3", "python"),
        ("%sql SELECT 1", "python"),
        ("%matplotlib inline", "python"),
        ("x %% y", "python"),
        ("", "python"),
    ],
)
def test_a_magic_decides_the_language_of_a_cell(first: str, language: str) -> None:
    assert Document("cell:0", None, "python", 1, f"{first}\nx").language == language
    assert Document("file:///a.go", None, "go", 1, f"{first}\nx").language == "go"


def test_only_cells_of_its_language_are_a_cells_context() -> None:
    documents = notebook("import os", "%%bash\nls", "%%time\nx = 1", "%%sh\npwd", "y = 2")
    assert neighbours(documents, "cell:3") == ("%%bash\nls",)
    assert neighbours(documents, "cell:4") == ("import os", "%%time\nx = 1")
    edited = documents.get("cell:3")
    assert edited is not None
    edited.edit(2, [ContentChange("pwd")], Encoding.UTF16)
    assert neighbours(documents, "cell:3") == ("import os", "%%time\nx = 1")


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
    assert accepts.counts == AcceptCounts(1, int(bool(accepted)), sum(accepted))


def test_what_does_not_follow_the_suggestion_is_no_accept() -> None:
    accepts = Accepts()
    accepts.shown("u", "x = \n", 4, "value")
    for text in ("x = other\n", "x\n", "x = \nvalue", "vax = \n"):
        accepts.changed("u", text)
    accepts.closed("u")
    accepts.changed("u", "x = value\n")
    accepts.accept_command(1)
    assert accepts.counts == AcceptCounts(1, 0, 0)


ENCODINGS = st.sampled_from(list(Encoding))
# What breaks naive line rules and naive counting: all three line ends, what only Python takes for one, characters of
# one to four bytes and of two units, a combining mark, half a surrogate pair, and a control token spelled out.
DOCUMENT_PIECES = st.sampled_from(
    [
        *("a", "b", " ", "\n", "\r", "\r\n", "\f", "\v", "\x1c", "\x85", "\u2028", "\u2029", "é", "ß", "中", "😀", "🏳️"),
        *("e\u0301", "\ud83d", "\ude00", "<|fim_prefix|>", "\0", "\t"),
    ]
)
TEXTS = st.lists(DOCUMENT_PIECES, max_size=12).map("".join)
PLACES = st.integers(min_value=0, max_value=14)
POSITIONS = st.builds(Position, PLACES, PLACES)


@dataclass
class NaiveClient:
    """Text as the client holds it: surrogate pairs are one character, lines by the protocol's words."""

    text: str

    def lines(self) -> list[tuple[int, int]]:
        """(start, end) of each line, ends excluded."""
        spans, start = [], 0
        for end in re.finditer("\r\n|\r|\n", self.text):
            spans.append((start, end.start()))
            start = end.end()
        return [*spans, (start, len(self.text))]

    def offset(self, position: Position, encoding: Encoding) -> int:
        lines = self.lines()
        if position.line >= len(lines):
            return len(self.text)
        start, end = lines[position.line]
        units = 0
        for offset in range(start, end):
            units += width(self.text[offset], encoding)
            if units > position.character:
                return offset
        return end

    def edit(self, edit: ContentChange, encoding: Encoding) -> None:
        if edit.start is None or edit.end is None:
            self.text = joined(edit.text)
            return
        start, end = sorted((self.offset(edit.start, encoding), self.offset(edit.end, encoding)))
        self.text = joined(self.text[:start] + edit.text + self.text[end:])


def width(character: str, encoding: Encoding) -> int:
    codec = {Encoding.UTF8: "utf-8", Encoding.UTF16: "utf-16-le", Encoding.UTF32: "utf-32-le"}[encoding]
    return len(character.encode(codec, "surrogatepass")) // {"utf-8": 1, "utf-16-le": 2, "utf-32-le": 4}[codec]


def joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def opened(text: str) -> Document:
    return Document("untitled:1", None, "python", 1, text)


EDITS = st.lists(
    st.one_of(st.builds(ContentChange, TEXTS, POSITIONS, POSITIONS), st.builds(ContentChange, TEXTS)), max_size=8
)


@given(TEXTS, EDITS, ENCODINGS)
@example("a\r", [ContentChange("\n", Position(1, 0), Position(1, 0))], Encoding.UTF16)
@example("a\r\nb", [ContentChange("", Position(0, 1), Position(1, 0))], Encoding.UTF16)
@example("\ud83d", [ContentChange("\ude00", Position(0, 1), Position(0, 1))], Encoding.UTF16)
def test_edits_keep_the_copy_like_the_clients_text(text: str, edits: list[ContentChange], encoding: Encoding) -> None:
    document, client = opened(text), NaiveClient(joined(text))
    assert document.text == client.text
    for version, edit in enumerate(edits, 2):
        document.edit(version, [edit], encoding)
        client.edit(edit, encoding)
        assert document.text == client.text
    assert document.clean_text == re.sub("\r\n|\r", "\n", client.text)
    assert document.longest_line() == max(end - start for start, end in client.lines())


@given(TEXTS, POSITIONS, ENCODINGS)
def test_an_offset_leads_back_to_its_position(text: str, position: Position, encoding: Encoding) -> None:
    document, client = opened(text), NaiveClient(joined(text))
    offset = document.offset_at(position, encoding)
    raw = client.offset(position, encoding)
    assert document.clean_text[:offset] == re.sub("\r\n|\r", "\n", client.text[:raw])
    back = position_at(document.clean_text, offset, encoding)
    assert document.offset_at(back, encoding) == offset
    assert client.offset(back, encoding) == raw
    assert back.line == position.line or position.line >= len(client.lines())


def test_negative_positions_mean_the_start() -> None:
    """What no client should send does not reach around to the end, as Python's indices would."""
    document = opened("ab\ncd")
    document.edit(2, [ContentChange("x", Position(-1, 5), Position(-1, 7))], Encoding.UTF16)
    document.edit(3, [ContentChange("y", Position(1, -4), Position(1, -2))], Encoding.UTF16)
    assert document.text == "xab\nycd"


def test_a_snapshot_stays_as_it_was() -> None:
    document = opened("a\r\nb")
    before = document.snapshot()
    assert document.snapshot() is before
    document.edit(2, [ContentChange("!", Position(1, 1), Position(1, 1))], Encoding.UTF16)
    assert (before.text, before.version, before.edited) == ("a\nb", 1, False)
    after = document.snapshot()
    assert (after.text, after.version, after.edited) == ("a\nb!", 2, True)


def test_a_lost_change_voids_the_copy_until_the_whole_text_comes() -> None:
    document, here = Document("file:///a", None, "python", 1, "x"), Position(0, 0)
    before = document.snapshot()
    document.lose_change()
    assert document.snapshot() is not before, "an open question would still be answered"
    document.edit(3, [ContentChange("y", here, here)], Encoding.UTF16)
    assert document.is_stale
    document.edit(4, [ContentChange("z")], Encoding.UTF16)
    assert not document.is_stale
