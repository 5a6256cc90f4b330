"""What is shown of a finished text: the rules one by one and together, in short files and long."""

import pytest

from fastcoder_lsp.postprocess import TextAround, covered, finish, whole_lines
from tests.postprocess.cases import Case, of_tables

LONG = 'def total(prices):\n    return sum(p[0] for p in prices) + {"a": (1, 2)}["a"][0]\n\n\n' * 600
C_LONG = 'int total(int *a, int n) {\n    if (a && (n > 0)) { return f(a[0], "x"); }\n    return 0;\n}\n\n' * 500
FAR = {"python": LONG, "c": C_LONG, "typescript": C_LONG.replace("int *a, int n", "a, n").replace("int ", "function ")}
"""So much code of a language that a document with it above and below is not read whole."""


def check(case: Case) -> None:
    """What was said is finished into what is shown, and finishing that changes nothing."""
    _, said, _ = case.parts()
    shown = finish(said, case.around())
    assert case.document(shown) == case.shown
    assert finish(shown, case.around()) == shown


@of_tables(
    "brackets",
    "fit",
    "indentation",
    "overlap",
    "overwrite",
    "overwrite_not",
    "overwrite_doubled",
    "again",
    "rubbish",
    "all_rules",
)
def test_what_is_shown(case: Case) -> None:
    check(case)


@of_tables("overwrite", "overwrite_not", "overwrite_doubled")
def test_closers_in_a_long_file(case: Case) -> None:
    if case.language in FAR:
        check(case.within(FAR[case.language], FAR[case.language]))


@pytest.mark.parametrize("entries", [1, 5000], ids=["short file", "long file"])
def test_a_bracket_that_is_opened_too_far_above(entries: int) -> None:
    above, below = "DATA = [\n" + '    {"k": call(1)},\n' * entries, "]\n"
    before, said, after = above + '    {"k": f(', 'a)}, {"k": g(b)', ")},\n" + below
    around = TextAround(before, after, "python")
    assert finish(said, around) == said
    assert covered(said, around) == 1


def test_a_partly_read_document_keeps_its_closer() -> None:
    for text, replaced in (("order.items", 0), ("order])", 1)):
        assert covered(text, TextAround("foo(bar[", f")\n{LONG}", "python")) == replaced


def test_line_ends() -> None:
    around = TextAround("def f():", "\n", "python")
    assert finish("\r\n    a()\r\n    b()", around) == "\n    a()\n    b()"
    assert finish("\r    a()", around) == "\n    a()"


@pytest.mark.parametrize(
    ("text", "before", "expect"),
    [
        ("a = 1\nb = fo", "", "a = 1"),
        ("a = foo.ba", "", "a = foo."),
        ("\n    ret", "def f():", ""),
        ("return x\n    y", "    ", "return x"),
    ],
)
def test_unfinished_text_ends_at_a_whole_line(text: str, before: str, expect: str) -> None:
    assert whole_lines(text, before).rstrip() == expect.rstrip()
