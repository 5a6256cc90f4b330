"""What is shown of an unfinished text, and what is held back because the model was not sure of it."""

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fastcoder_lsp.core.certainty import Certainty, Row
from fastcoder_lsp.decode.stop import stop_rule
from fastcoder_lsp.postprocess import TextAround, finish, useful, whole_lines, without_header
from fastcoder_lsp.postprocess.useful import unsure_at
from tests.examples import examples
from tests.postprocess.cases import Case, of_tables


@of_tables("useful")
def test_useful(case: Case) -> None:
    before, said, after = case.parts()
    shown = useful(said, case.around(), stop_rule(before, after, case.language).cut)
    assert case.document(shown) == case.shown


LINES = st.sampled_from(
    [
        *("x = 1", "return b", "if a:", "else:", "foo(", "a,", ")", "}", "if (a) {", "} else {", "for i in b:", ""),
        "pass",
        *("# c", "bar(a, [1,", "2])", "{", "]", "end", "def f(x):", 'print("a")', '"""doc', '"""', "'''", "`t", "<li>"),
    ]
)
LINE = st.builds(str.__add__, st.sampled_from(["", "    ", "    ", "        ", "  ", "\t", "\t\t"]), LINES)
LANGUAGE = st.sampled_from(["python", "typescript", "rust", "go", "html", "ruby", "lua", "plaintext"])


def code(lines: int) -> st.SearchStrategy[str]:
    return st.lists(LINE, max_size=lines).map("\n".join)


@example(")\n# c\nx = 1\nx = 1", "bar(a, [1,", ")", "", "python")
@example('    """doc\n"""\n        x = 1\nx = 1', "", "", "", "python")
@example("} else {\n}\nx = 1", "if (a) {\nx = 1", "", "}", "typescript")
@given(code(14), code(6), st.sampled_from(["", "", ")", "]", "}"]), code(6), LANGUAGE)
@settings(max_examples=examples(120))
def test_a_beginning_of_what_is_shown_in_the_end(said: str, before: str, right: str, below: str, language: str) -> None:
    assume(not any(quote in below for quote in ("'''", '"""', "`")))
    after = f"{right}\n{below}"
    cut = stop_rule(before, after, language).cut
    ends = [cut(said[:length]) for length in range(len(said) + 1)]
    stopped = next((length for length, end in enumerate(ends) if end is not None), None)
    if stopped is None:
        whole, stopped = whole_lines(said, before), len(said)
    else:
        whole = said[: ends[stopped]]
    around = TextAround(before, after, language)
    shown = finish(whole, around)
    for length in range(stopped):
        if "\n" in said[:length] and (said[length - 1] == "\n" or length % 3 == 0):
            assert shown.startswith(useful(said[:length], around, cut))


@pytest.mark.parametrize(
    ("above", "held"),
    [("orders = 1\n", True), ("orders = orderset = 1\n", False), ("", False)],
    ids=["a word of the document", "both are", "neither is"],
)
def test_a_word_that_the_model_did_not_expect(above: str, held: bool) -> None:
    """It goes on with what was typed because it has to: a word of the document is not made one that is none."""
    certainty = Certainty([Row(b"orderset", ((b"total", 1.0),))], b"orders")
    assert (0 in unsure_at("et", certainty, TextAround(f"{above}return orders", "\n", "python"))) is held


def _first(says: str, probable: float, other: str) -> Certainty:
    """Of a text of one token, which the model found so probable, and `other` as the rest."""
    return Certainty([Row(says.encode(), ((says.encode(), probable), (other.encode(), 1 - probable)))], b"")


@pytest.mark.parametrize(
    ("says", "probable", "held"),
    [(")", 0.99, True), ("()", 0.99, True), ("\n    }", 0.99, True), ("...", 0.99, False), ("...", 0.8, True)],
)
def test_few_marks_alone_save_no_key(says: str, probable: float, held: bool) -> None:
    around = TextAround("x = ", "\n", "python")
    assert (0 in unsure_at(says, _first(says, probable, "a"), around)) is held


def test_few_marks_at_the_end_of_what_is_typed_along() -> None:
    text = f"first({'a' * 200})"
    unsure = unsure_at(text, _first(text, 0.99, "b"), TextAround("x = ", "\n", "python"))
    assert unsure == (len(text) - 1,)


@pytest.mark.parametrize(
    ("above", "other", "probable", "held"),
    [
        ("price = 1\n", ":", 0.73, True),
        ("price = 1\n", ":", 0.9, False),
        ("", ":", 0.73, False),
        ("price = 1\n# ", ":", 0.73, False),
        ("price = 1\n", "priced", 0.5, True),
        ("price = prices = 1\n", "priced", 0.5, False),
        ("", ":", 0.6, True),
    ],
    ids=[
        "likely",
        "surely",
        "no word of the file",
        "in prose",
        "to a new word, another was as likely",
        "to one of the file",
        "not twice as likely as its end",
    ],
)
def test_a_word_of_the_file_is_made_longer(above: str, other: str, probable: float, held: bool) -> None:
    """It is a whole word; the model has to be surer than of others, and of a word that is nowhere in the file."""
    said, healing = (b"prices", b"price") if other == "priced" else (b"s", b"")
    certainty = Certainty([Row(said, ((said, probable), (other.encode(), 1 - probable)))], healing)
    assert (0 in unsure_at("s", certainty, TextAround(f"{above}f(price", "\n", "python"))) is held


@pytest.mark.parametrize(
    ("before", "said", "after", "expected", "language"),
    [
        ("", "x = 1\n\ndef f():", "\n", "x = 1", "python"),
        ("class A:\n", "    x = 1\n\n    # Twice.\n    @cached\n    def f(self):\n", "\n", "    x = 1", "python"),
        ("", "a();\nif (b) {\n", "\n", "a();", "javascript"),
        ("", "x = 1\n@cached", "\n", "x = 1", "python"),
        ("", "def f():\n", "\n", "", "python"),
        ("def f(", "x):", "\n", "x):", "python"),
        ("", "x = 1\nif x:", "\n    y()\n", "x = 1\nif x:", "python"),
        ("", "x = 1\n\ny = {}\n", "\n", "x = 1\n\ny = {}\n", "python"),
        ("", "# A list.\n", "\n", "# A list.\n", "python"),
        ("", "x = 1\ny = {", "\n", "x = 1\ny = {", "python"),
        ("def f():", '\n    """Count."""\n    if x:', "\n", '\n    """Count."""', "python"),
    ],
)
def test_no_text_ends_in_a_header(before: str, said: str, after: str, expected: str, language: str) -> None:
    assert without_header(said, TextAround(before, after, language)) == expected


@pytest.mark.parametrize(
    ("before", "said", "share", "held"),
    [
        ("total = count(items)  ", "# TODO: cache", 0.5, True),
        ("total = count(items)  ", "# the sum", 0.95, False),
        ("total = ", "1  # the sum", 0.9, False),
        ("", "# The sum.", 0.9, False),
    ],
)
def test_a_comment_behind_code_needs_a_sure_model(before: str, said: str, share: float, held: bool) -> None:
    row = Row(said.encode(), ((said.encode(), share), (b"\n", 1 - share)))
    assert (0 in unsure_at(said, Certainty([row], b""), TextAround(before, "\n", "python"))) == held
