"""`fastcoder/yanked`: where somebody copied code, told by a client that may say anything."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Yank
from fastcoder_lsp.lsp.requests.context import LAST_LINE, yanked
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.workspace.document import ContentChange, Document
from fastcoder_lsp.workspace.documents import MAX_YANK_CHARACTERS, MAX_YANKS, YANK_TTL_S, Documents
from fastcoder_lsp.workspace.rules import ReadingRules
from tests.lsp.raw_client import Json, initialized

URI, OTHER = "file:///w/a.py", "file:///w/b.py"
SHOWS = Settings(context_enabled=True)
TEXT = "".join(f"line_{number} = {number}\n" for number in range(50))


def session(
    text: str = TEXT, uri: str = URI, *, path: str = "/w/a.py", language: str = "python", given: Settings = SHOWS
) -> tuple[Session, Documents]:
    documents = Documents()
    documents.open(Document(uri, Path(path), language, 1, text))
    documents.open(Document(OTHER, Path("/w/b.py"), "python", 1, "x = 1\n"))
    made = SimpleNamespace(
        documents=documents,
        folder_of=lambda _: None,
        settings=lambda _: given,
        is_enabled=lambda settings: settings.enabled,
        rules=lambda _: ReadingRules((Path("/w"),), given),
    )
    return cast("Session", made), documents


def told(first: object = 3, last: object = 3, behind: object = 5, **document: object) -> Json:
    place = {"start": {"line": first, "character": 2}, "end": {"line": last, "character": behind}}
    return {"textDocument": {"uri": URI, "version": 1, **document}, "range": place}


def lines(documents: Documents) -> list[str]:
    return [one.text for one in documents.yanks]


def test_whole_lines_go_along_from_the_next_version_on() -> None:
    of, documents = session()
    before = documents.snapshot(OTHER)
    yanked(of, told(3, 5, 0))
    assert documents.snapshot(OTHER) is before
    document = documents.get(OTHER)
    assert document is not None
    document.edit(2, [ContentChange("x = 2\n")], cast("Any", None))
    after = documents.snapshot(OTHER)
    assert after is not None
    assert after.yanks == (Yank("/w/a.py", 3, "line_3 = 3\nline_4 = 4"),)


def test_the_last_ones_are_kept_the_newest_first() -> None:
    of, documents = session()
    for line in (1, 2, 3, 2):
        yanked(of, told(line, line))
    assert lines(documents) == ["line_2 = 2", "line_3 = 3"]
    assert len(documents.yanks) == MAX_YANKS
    documents.close(URI)
    assert lines(documents) == ["line_2 = 2", "line_3 = 3"]
    yanked(of, told(7, 7))
    assert lines(documents) == ["line_2 = 2", "line_3 = 3"], "it is not open any more"


def test_a_flood_keeps_no_more() -> None:
    of, documents = session()
    for line in range(5_000):
        yanked(of, told(line % 50, line % 50))
    assert lines(documents) == ["line_49 = 49", "line_48 = 48"]


def test_blank_lines_around_are_left_and_positions_behind_the_end() -> None:
    of, documents = session("\n\n  \nvalue = 1\n\n\n")
    yanked(of, told(0, LAST_LINE))
    assert documents.yanks == (Yank("/w/a.py", 3, "value = 1"),)
    for place in (told(0, 1), told(900, 900), told(LAST_LINE, LAST_LINE)):
        yanked(of, place)
    assert len(documents.yanks) == 1


@pytest.mark.parametrize(
    "text",
    [
        "x" * (MAX_YANK_CHARACTERS + 1),
        "x\n" * MAX_YANK_CHARACTERS,
        f"{TEXT}KEY = '-----BEGIN PRIVATE KEY-----\n",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{TEXT}-----END OPENSSH PRIVATE KEY-----\n",
    ],
)
def test_data_and_what_lies_beside_a_key_is_not_taken(text: str) -> None:
    """Lines in the midst of a key tell nothing of it: the document is asked, before they are cut out."""
    of, documents = session(text)
    yanked(of, told(0, len(text)))
    if "KEY" in text:
        yanked(of, told(3, 4))
    assert documents.yanks == ()


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        7,
        {},
        {"textDocument": {"uri": URI, "version": 1}},
        told() | {"textDocument": "x"},
        told(uri=3),
        told(version="1"),
        told(version=True),
        told(version=1.0),
        told() | {"range": [3, 4]},
        told(first=-1),
        told(first=5, last=3),
        told(first=True),
        told(last="3"),
        told(last=LAST_LINE + 1),
        told(last=10**30),
        told(behind=None),
        told(behind="x" * 1000),
    ],
)
def test_a_malformed_message_changes_nothing(params: object, caplog: pytest.LogCaptureFixture) -> None:
    of, documents = session()
    yanked(of, told())
    with caplog.at_level(logging.WARNING):
        yanked(of, params)
    assert lines(documents) == ["line_3 = 3"]
    assert "ignored fastcoder/yanked" in caplog.text


def test_what_is_of_another_version_or_of_no_file_or_unwanted_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """Without a word: a client may be ahead, and need not know the settings of each folder."""
    with caplog.at_level(logging.WARNING):
        of, documents = session()
        for place in (told(version=0), told(version=2), told(uri="file:///w/closed.py"), told(text="from a register")):
            yanked(of, place)
        assert lines(documents) == ["line_3 = 3"], "what a client says beside the place is not read"
        cells, cell = session(uri="vscode-notebook-cell:/w/a.py#1")
        yanked(cells, told(uri="vscode-notebook-cell:/w/a.py#1"))
        assert cell.yanks == ()
        yanked(of, told(4, 4, version=None))
        assert lines(documents) == ["line_4 = 4", "line_3 = 3"]
    assert not caplog.records


@pytest.mark.parametrize(
    "unwanted",
    [
        {"given": Settings(context_enabled=False)},
        {"given": Settings(context_enabled=True, enabled=False)},
        {"given": Settings(context_enabled=True, languages_exclude=("python",))},
        {"given": Settings(context_enabled=True, read_exclude=("a.py",))},
        {"path": "/w/.env"},
        {"path": "/w/settings", "language": "dotenv"},
    ],
)
def test_nothing_is_taken_where_nothing_is_suggested(unwanted: dict[str, Any]) -> None:
    """An editor may know of a file that it holds secrets where its name does not say so."""
    of, documents = session(**unwanted)
    yanked(of, told())
    assert documents.yanks == ()


def test_what_was_copied_long_ago_is_forgotten() -> None:
    now_s = 0.0
    documents = Documents(lambda: now_s)
    old, new = Yank("/w/a.py", 0, "old = 1"), Yank("/w/a.py", 1, "new = 1")
    documents.yanked(old)
    documents.yanked(new)
    now_s = YANK_TTL_S - 1
    assert lines(documents) == ["new = 1", "old = 1"]
    documents.yanked(old)
    now_s = YANK_TTL_S
    assert lines(documents) == ["old = 1"]
    now_s = 2 * YANK_TTL_S
    assert lines(documents) == []


async def test_over_the_wire() -> None:
    async with initialized("--says", "suggested", initializationOptions={"context": {"enabled": True}}) as client:
        client.open(URI, "x = ")
        for params in (told(0, 0), None, [1], {"range": 3}, told(version={})):
            client.notify("fastcoder/yanked", params)
        assert await client.inline(URI, 0, 4)
        refused = await client.answer(client.ask("fastcoder/yanked", told()))
        assert refused["error"]["code"] == -32601
        assert b"ignored fastcoder/yanked" in client.stderr
        assert not any(message["method"] == "window/showMessage" for message in client.told)
