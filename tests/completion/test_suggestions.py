"""Suggestions that answer without the model, what ends them, and requests that share an answer."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.suggestions import (
    CachedSuffix,
    CursorContext,
    OutdatedSuggestions,
    Suggestion,
    SuggestionMemory,
    rest_after,
)
from fastcoder_lsp.core import SelectedCompletion
from fastcoder_lsp.documents import MAX_CLOSED
from tests.completion.simulated import URI, Simulation, script


def remembered(text: str = "return a + b", replaces: int = 0) -> SuggestionMemory:
    memory = SuggestionMemory()
    memory.remember(URI, Suggestion(CursorContext("def f(a, b):\n    ", "\n"), text, replaces))
    return memory


def ask(memory: SuggestionMemory, before: str, after: str = "\n") -> CachedSuffix | None:
    return memory.recall(URI, CursorContext("def f(a, b):\n    " + before, after))


def test_typing_along_keeps_the_rest() -> None:
    memory = remembered()
    assert ask(memory, "") == CachedSuffix("return a + b", 0)
    assert ask(memory, "r") == CachedSuffix("eturn a + b", 0)
    assert ask(memory, "return a ") == CachedSuffix("+ b", 0)


def test_deleting_and_typing_again_brings_it_back() -> None:
    memory = remembered()
    assert ask(memory, "rx") is None
    assert ask(memory, "r") == CachedSuffix("eturn a + b", 0)


@pytest.mark.parametrize(("before", "after"), [("x", "\n"), ("", "\n\n"), ("return a + b", "\n"), ("", "x\n")])
def test_other_text_ends_it(before: str, after: str) -> None:
    assert ask(remembered(), before, after) is None


def test_an_edit_above_ends_it() -> None:
    assert remembered().recall(URI, CursorContext("def g(a, b):\n    r", "\n")) is None


def test_a_bracket_that_the_editor_closed_is_replaced() -> None:
    memory = remembered("print(a, b)")
    assert ask(memory, "print(", ")\n") == CachedSuffix("a, b)", 1)
    assert ask(memory, "print(", "]\n") is None


@pytest.mark.parametrize(
    ("text", "replaces", "typed", "after", "rest"),
    [
        (" {\n  return 1;\n}", 0, " {\n  ", "\n}", "return 1;"),
        (" {\n  return 1;\n}", 0, " {\n  retu", "\n}", "rn 1;"),
        (" {\n  if (a) {\n    b();\n  }\n}", 0, " {\n  ", "\n}", "if (a) {\n    b();\n  }"),
        (" {\n  return 1;\n}\n\nvar b = 2;", 0, " {\n  ", "\n}", "return 1;"),
        (" {\n  return 1;\n}", 0, " {\n  ", "\n  }", None),
        (" {\n  return 1;", 0, " {\n  ", "\n}", None),
        ("\n  return 1;\n", 0, "\n  ", "\n", "return 1;"),
        ("\n  return 1;\n}", 1, "\n  ", "\n", "return 1;"),
        ("\n    a,\n    b,\n}", 1, "\n    ", "\n", "a,\n    b,"),
        ("a, b)", 1, "\n    ", "\n", None),
    ],
)
def test_enter_between_two_brackets_keeps_what_is_above_the_second(
    text: str, replaces: int, typed: str, after: str, rest: str | None
) -> None:
    memory, below = SuggestionMemory(), "})\n" if replaces else "\n"
    memory.remember(URI, Suggestion(CursorContext("f()", below), text, replaces, finish="stop"))
    recalled = memory.recall(URI, CursorContext("f()" + typed, after + below))
    assert recalled == (None if rest is None else CachedSuffix(rest, 0))


def test_the_latest_suggestion_answers_first() -> None:
    memory = remembered("return a - b")
    memory.remember(URI, Suggestion(CursorContext("def f(a, b):\n    ret", "\n"), "urn a * b"))
    assert ask(memory, "retu") == CachedSuffix("rn a * b", 0)
    assert ask(memory, "re") == CachedSuffix("turn a - b", 0)


def test_it_belongs_to_its_document() -> None:
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
    memory = SuggestionMemory()
    memory.remember(URI, Suggestion(CursorContext(before, after), text))
    typed = data.draw(st.text("ab()\n", max_size=8))
    closers = data.draw(st.sampled_from(["", ")", "))"]))
    recalled = memory.recall(URI, CursorContext(before + typed, closers + after))
    if recalled is not None:
        assert before + typed + recalled.text + (closers + after)[recalled.replaces :] == before + text + after


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
    assert rest("return os.stat(path).st_size", typed) == expected


def test_an_edit_above_moves_it() -> None:
    assert rest("return 1", "re", now="import sys\n" + BEFORE) == "turn 1"
    assert rest("return 1", "re", now="def other():\n    pass\n") == ""


def test_it_belongs_to_its_document_and_is_bounded() -> None:
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
    outdated = OutdatedSuggestions()
    outdated.keep(URI, Suggestion(CursorContext(BEFORE, "\n"), "one\ntwo"))
    outdated.keep(URI, Suggestion(CursorContext(BEFORE, "\n"), "one\ntwo\nthree"))
    assert outdated.expected(URI, CursorContext(BEFORE, "\n")) == ("one\ntwo\nthree",)


@given(st.text("ab( \n", max_size=12), st.text("ab( \n", max_size=12), st.text("ab( \n", max_size=60))
def test_it_is_always_the_end_of_the_suggestion(text: str, typed: str, before: str) -> None:
    assert text.endswith(rest(text, typed, before=before, now=before))


SAYS = "value = 1"
MODEL = script(f"{SAYS}\n", "\n")
WAIT_S = 60.0


def test_ghost_text_and_popup_share_an_answer() -> None:
    simulation = Simulation(MODEL, Policy())
    request = simulation.request("y = 3\n")
    first, second = (simulation.service.submit(request, simulation.policy) for _ in range(2))
    assert not first.done()
    first.cancel()
    simulation.work()
    assert second.result(0).text == SAYS
    assert simulation.service.statistics().shown == 1


def test_a_selected_popup_entry_is_continued() -> None:
    simulation = Simulation(script("printer(a)\n", "\n"), Policy())
    request = replace(simulation.request("\npri"), selected=SelectedCompletion(1, 4, "printer"))
    future = simulation.service.submit(request, simulation.policy)
    simulation.work()
    answer = future.result(0)
    assert (answer.text, answer.start, answer.end) == ("printer(a)", 1, 4)


def test_a_closed_document_is_forgotten() -> None:
    simulation = Simulation(MODEL, Policy())
    service = simulation.service

    def finish(uri: str, typed: str = "va") -> str:
        return simulation.answer(f"x = 2\n{typed}", uri=uri).finish

    finish(URI, "")
    service.document_renamed(URI, "file:///c.py")
    assert finish("file:///c.py") == "typed-through"
    service.document_closed("file:///c.py")
    assert finish("file:///c.py") != "typed-through"
    assert simulation.prompts.calls == [("rename", "file:///c.py")]
    service.document_closed("file:///c.py")
    for number in range(MAX_CLOSED):
        finish(f"file:///{number}.py")
        service.document_closed(f"file:///{number}.py")
    finish(URI)
    assert simulation.prompts.calls[1:] == [("forget", "file:///c.py")]


@pytest.mark.parametrize(
    ("text", "after", "replaces", "covers"),
    [
        ('title="t">\n  Yes\n</em>', "></em>;", 6, 1),
        ("a, b)\nfoo()", ")", 1, 1),
        ("a,\n  b)", ")", 1, 0),
        ("row.key)\nfoo()", "row.key", 7, 7),
    ],
)
def test_first_lines_cover_what_they_say(text: str, after: str, replaces: int, covers: int) -> None:
    assert CachedSuffix(text, replaces).first_lines(1, after) == CachedSuffix(text.partition("\n")[0], covers)
