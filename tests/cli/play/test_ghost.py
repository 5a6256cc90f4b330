"""The pure parts of `play`: ghost text, edits, indentation."""

from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.cli.play.screen import indent_unit, new_line, shortened, tab
from fastcoder_lsp.client.client import Ghost, ReceivedSuggestion, difference, ghost_of

TEXT = st.text(alphabet="ab \n(é🦀", max_size=20)


@given(TEXT, TEXT)
def test_the_difference_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    """Replacing what the difference names gives the new text, and nothing equal is sent along at either end."""
    start, end, text = difference(before, after)
    assert before[:start] + text + before[end:] == after
    removed = before[start:end]
    assert not (removed and text and (removed[0] == text[0] or removed[-1] == text[-1]))


@given(TEXT, TEXT, TEXT, st.integers(0, 20))
def test_accepting_word_by_word_equals_accepting_at_once(
    before: str, after: str, suggested: str, replaces: int
) -> None:
    """Whatever is taken in parts adds up to the whole, the replaced characters included."""
    end = len(before) + min(replaces, len(after))
    ghost = ghost_of(ReceivedSuggestion(suggested, len(before), end), before + after, len(before))
    if ghost is None:
        assert suggested in ("", after[: end - len(before)])
        return
    whole = ghost.accept(before + after, len(before))
    text, cursor = before + after, len(before)
    while (word := ghost.word()) != ghost.text:
        text, cursor = text[:cursor] + word + text[cursor:], cursor + len(word)
        rest = ghost.after_typing(word)
        assert rest is not None
        ghost = rest
    assert ghost.accept(text, cursor) == whole


def test_a_suggestion_that_begins_before_the_cursor_shows_what_is_left_of_it() -> None:
    """The server may replace the word before the cursor by one that begins with it; nothing else can be drawn there."""
    shown = ghost_of(ReceivedSuggestion("total(x)", 2, 6), "a tot)", 5)
    assert shown is not None
    assert (shown.text, shown.replaces) == ("al(x)", 1)
    assert ghost_of(ReceivedSuggestion("sum(x)", 2, 5), "a tot", 5) is None
    assert ghost_of(ReceivedSuggestion("x", 7, 7), "a tot = ", 5) is None


def test_other_letters_end_the_ghost_text() -> None:
    """It stays while exactly its letters are typed; typing all of it leaves nothing to show."""
    ghost = Ghost("abc", 0, ReceivedSuggestion("abc", 0, 0))
    assert ghost.after_typing("ab") == Ghost("c", 0, ghost.suggestion)
    assert ghost.after_typing("ax") is None
    assert ghost.after_typing("abc") is None


def test_enter_indents_as_the_file_does() -> None:
    """A line keeps the indentation above it, one step more behind what opens a block, in the file's own unit."""
    assert indent_unit("def f():\n  pass\n") == "  "
    assert indent_unit("if x {\n\ty\n}") == "\t"
    assert indent_unit("") == "    "
    assert new_line("  for x in y:", "  ") == "\n    "
    assert new_line("  x = 1", "  ") == "\n  "


def test_backspace_takes_one_step_of_indentation() -> None:
    """Down to the stop before, inside the indentation alone."""
    assert shortened("        ", "    ") == 4
    assert shortened("      ", "    ") == 2
    assert shortened("    x", "    ") == 1
    assert shortened("", "    ") == 1
    assert tab("  ", "    ") == "  "
