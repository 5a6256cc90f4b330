"""Suggestions that no longer hold: what of them may still come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.completion.suggestions import CursorContext, OutdatedSuggestions, Suggestion, rest_after

URI = "file:///a.py"
BEFORE = "import os\n\ndef size(path):\n    "


def rest(text: str, typed: str, before: str = BEFORE, now: str = BEFORE) -> str:
    return rest_after(Suggestion(CursorContext(before, "\n"), text), CursorContext(now + typed, "\n"))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", "return os.stat(path).st_size"),
        ("return ", "os.stat(path).st_size"),
        ("return os.lstat", "(path).st_size"),
        ("return os.lstat(", "path).st_size"),
        ("return os.lstat(path", ").st_size"),
        ("result = os.stat", "(path).st_size"),
        ("while True:\n        ", ""),
    ],
)
def test_what_is_left_after_typing(typed: str, expected: str) -> None:
    """Typed along: the rest. Another name, another beginning: what came after the last piece that both have."""
    assert rest("return os.stat(path).st_size", typed) == expected


def test_an_edit_above_moves_it() -> None:
    """Its place is found again by the text before it."""
    assert rest("return 1", "re", now="import sys\n" + BEFORE) == "turn 1"
    assert rest("return 1", "re", now="def other():\n    pass\n") == ""


def test_it_belongs_to_its_document_and_is_bounded() -> None:
    """The newest first, each text once, closed documents forgotten."""
    outdated = OutdatedSuggestions(documents=2, suggestions=2)
    place = CursorContext(BEFORE, "\n")
    for text in ("one", "two", "two", "three"):
        outdated.keep(URI, Suggestion(CursorContext(BEFORE, "\n"), text))
    assert outdated.expected(URI, place) == ("three", "two")
    outdated.rename(URI, "file:///b.py")
    assert outdated.expected(URI, place) == ()
    assert outdated.expected("file:///b.py", place) == ("three", "two")
    outdated.forget("file:///b.py")
    assert outdated.expected("file:///b.py", place) == ()


def test_more_of_the_same_takes_its_place() -> None:
    """The beginning of a suggestion and then all of it are one."""
    outdated = OutdatedSuggestions()
    outdated.keep(URI, Suggestion(CursorContext(BEFORE, "\n"), "one\ntwo"))
    outdated.keep(URI, Suggestion(CursorContext(BEFORE, "\n"), "one\ntwo\nthree"))
    assert outdated.expected(URI, CursorContext(BEFORE, "\n")) == ("one\ntwo\nthree",)


@given(st.text("ab( \n", max_size=12), st.text("ab( \n", max_size=12), st.text("ab( \n", max_size=60))
def test_it_is_always_the_end_of_the_suggestion(text: str, typed: str, before: str) -> None:
    """Whatever was typed."""
    assert text.endswith(rest(text, typed, before=before, now=before))
