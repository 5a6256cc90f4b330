"""Typed-through answers: what keeps a suggestion, and what must end it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.completion.suggestions import CachedSuffix, CursorContext, Suggestion, SuggestionMemory

URI = "file:///a.py"


def remembered(text: str = "return a + b", replaces: int = 0) -> SuggestionMemory:
    memory = SuggestionMemory()
    memory.remember(URI, Suggestion(CursorContext("def f(a, b):\n    ", "\n"), text, replaces))
    return memory


def ask(memory: SuggestionMemory, before: str, after: str = "\n") -> CachedSuffix | None:
    return memory.recall(URI, CursorContext("def f(a, b):\n    " + before, after))


def test_typing_along_keeps_the_rest() -> None:
    """Each typed letter of the suggestion leaves the rest of it, a word accepted at once too."""
    memory = remembered()
    assert ask(memory, "") == CachedSuffix("return a + b", 0)
    assert ask(memory, "r") == CachedSuffix("eturn a + b", 0)
    assert ask(memory, "return a ") == CachedSuffix("+ b", 0)


def test_deleting_and_typing_again_brings_it_back() -> None:
    """A wrong letter silences it, deleting that letter revives it."""
    memory = remembered()
    assert ask(memory, "rx") is None
    assert ask(memory, "r") == CachedSuffix("eturn a + b", 0)


@pytest.mark.parametrize(("before", "after"), [("x", "\n"), ("", "\n\n"), ("return a + b", "\n"), ("", "x\n")])
def test_other_text_ends_it(before: str, after: str) -> None:
    """Other letters, a change below the cursor, and the whole suggestion typed leave nothing to show."""
    assert ask(remembered(), before, after) is None


def test_an_edit_above_ends_it() -> None:
    """The suggestion was made for other text."""
    assert remembered().recall(URI, CursorContext("def g(a, b):\n    r", "\n")) is None


def test_a_bracket_that_the_editor_closed_is_replaced() -> None:
    """`print(` typed, `)` added by the editor: the rest of the suggestion brings its own and covers that one."""
    memory = remembered("print(a, b)")
    assert ask(memory, "print(", ")\n") == CachedSuffix("a, b)", 1)
    assert ask(memory, "print(", "]\n") is None


def test_the_latest_suggestion_answers_first() -> None:
    """Two suggestions hold for the same place: the newer one is shown."""
    memory = remembered("return a - b")
    memory.remember(URI, Suggestion(CursorContext("def f(a, b):\n    ret", "\n"), "urn a * b"))
    assert ask(memory, "retu") == CachedSuffix("rn a * b", 0)
    assert ask(memory, "re") == CachedSuffix("turn a - b", 0)


def test_it_belongs_to_its_document() -> None:
    """Renamed documents keep it, closed ones lose it, others never had it; only so many documents are remembered."""
    memory = remembered()
    memory.rename(URI, "file:///b.py")
    assert ask(memory, "") is None
    assert memory.recall("file:///b.py", CursorContext("def f(a, b):\n    ", "\n")) is not None
    memory.forget("file:///b.py")
    assert memory.recall("file:///b.py", CursorContext("def f(a, b):\n    ", "\n")) is None
    small = SuggestionMemory(documents=2)
    for name in "abc":
        small.remember(name, Suggestion(CursorContext("", ""), "text"))
    assert [small.recall(name, CursorContext("", "")) is not None for name in "abc"] == [False, True, True]


@given(st.text("ab(\n", max_size=6), st.text("ab)\n", max_size=6), st.text("ab()\n", min_size=1, max_size=8), st.data())
def test_whatever_is_recalled_completes_the_same_text(before: str, after: str, text: str, data: st.DataObject) -> None:
    """Inserted where it is recalled, the rest gives exactly the text that the whole suggestion would have given."""
    memory = SuggestionMemory()
    memory.remember(URI, Suggestion(CursorContext(before, after), text))
    typed = data.draw(st.text("ab()\n", max_size=8))
    closers = data.draw(st.sampled_from(["", ")", "))"]))
    recalled = memory.recall(URI, CursorContext(before + typed, closers + after))
    if recalled is not None:
        assert before + typed + recalled.text + (closers + after)[recalled.replaces :] == before + text + after
