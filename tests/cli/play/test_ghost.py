"""The pure parts of `play`: ghost text, edits, indentation, and the account of an answer's time."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.cli.play.pane import tabs, work_of
from fastcoder_lsp.cli.play.screen import indent_unit, new_line, shortened, tab
from fastcoder_lsp.cli.play.session import AnswerSummary, OpenFile, PlaySession
from fastcoder_lsp.client.client import Ghost, Params, ReceivedSuggestion, difference, ghost_of

TEXT = st.text(alphabet="ab \n(é🦀", max_size=20)


@given(TEXT, TEXT)
def test_the_difference_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    start, end, text = difference(before, after)
    assert before[:start] + text + before[end:] == after
    removed = before[start:end]
    assert not (removed and text and (removed[0] == text[0] or removed[-1] == text[-1]))


@given(TEXT, TEXT, TEXT, st.integers(0, 20))
def test_accepting_by_words_equals_accepting_at_once(before: str, after: str, suggested: str, replaces: int) -> None:
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


def test_a_suggestion_from_before_the_cursor_shows_its_rest() -> None:
    """The server may replace the word before the cursor by one that begins with it; nothing else can be drawn there."""
    shown = ghost_of(ReceivedSuggestion("total(x)", 2, 6), "a tot)", 5)
    assert shown is not None
    assert (shown.text, shown.replaces) == ("al(x)", 1)
    assert ghost_of(ReceivedSuggestion("sum(x)", 2, 5), "a tot", 5) is None
    assert ghost_of(ReceivedSuggestion("x", 7, 7), "a tot = ", 5) is None


def test_other_letters_end_the_ghost_text() -> None:
    ghost = Ghost("abc", 0, ReceivedSuggestion("abc", 0, 0))
    assert ghost.after_typing("ab") == Ghost("c", 0, ghost.suggestion)
    assert ghost.after_typing("ax") is None
    assert ghost.after_typing("abc") is None


def test_enter_indents_as_the_file_does() -> None:
    assert indent_unit("def f():\n  pass\n") == "  "
    assert indent_unit("if x {\n\ty\n}") == "\t"
    assert indent_unit("") == "    "
    assert new_line("  for x in y:", "  ") == "\n    "
    assert new_line("  x = 1", "  ") == "\n  "


def test_backspace_takes_one_step_of_indentation() -> None:
    assert shortened("        ", "    ") == 4
    assert shortened("      ", "    ") == 2
    assert shortened("    x", "    ") == 1
    assert shortened("", "    ") == 1
    assert tab("  ", "    ") == "  "


ANSWERED = {
    "finish": "stop",
    "ms": {"queue": 900.0, "prompt": 10.0, "prefill": 1400.0, "draft": 20.0, "verify": 360.0, "post": 10.0},
    "tokens": 12,
    "steps": 3,
    "prefilled": 812,
}
READ, MADE = "read 812 prompt tokens", "12 tokens in 3 steps"


@pytest.mark.parametrize(
    ("ms", "told", "late", "says"),
    [
        (1840.0, {}, False, [f"{READ} in 1,400 ms", MADE]),
        (4800.0, {}, False, [f"{READ} in 1,400 ms", MADE, "waited 3,000 ms for other work"]),
        (120.0, {"ms": {}}, False, [READ, MADE]),
        (
            80.0,
            {"ms": {}, "prefilled": 1, "tokens": 1, "steps": 1},
            False,
            ["read 1 prompt token", "1 token in 1 step"],
        ),
        (3.0, {"finish": "typed-through"}, False, []),
        (5000.0, {"finish": "typed-through"}, True, [READ, MADE, "made in the background"]),
    ],
    ids=["its own work", "other work between", "a short one", "one of each", "known", "late"],
)
def test_an_answers_time_is_accounted_for(ms: float, told: Params, late: bool, says: list[str]) -> None:
    assert work_of(AnswerSummary.of(ms, {**ANSWERED, **told}, shown=True, late=late)) == says


def test_a_server_that_reports_nothing() -> None:
    assert work_of(AnswerSummary.of(40.0, {}, shown=True, late=False)) == []


NAMES = ("reports.py", "chart.ts", "storage.py", "models.py", "api.ts", "types.ts", "test_reports.py")


@pytest.mark.parametrize("width", [200, 80, 79, 40, 12])
@pytest.mark.parametrize("current", range(len(NAMES)))
def test_tabs_fit_and_the_current_one_is_among_them(width: int, current: int) -> None:
    files = [OpenFile(name, Path(name), "python", "", 0) for name in NAMES]
    session = PlaySession(files, lambda: None)
    session.show(files[current])
    drawn = tabs(session, width)
    text = "".join(fragment[1] for fragment in drawn)
    shown = [fragment[1].strip() for fragment in drawn if fragment[1].strip("‹› ")]
    assert len(text) <= width
    assert NAMES[current][: width - 3] in shown
    assert text.startswith("‹") == (shown[0] != NAMES[0][: width - 3])
    assert text.endswith("›") == (shown[-1] != NAMES[-1][: width - 3])
    if width == 200:
        assert tuple(shown) == NAMES
