"""What is shown of an unfinished text: always a beginning of what the whole text is shown as."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fastcoder_lsp.decode.stop import stop_rule
from fastcoder_lsp.postprocess import finish, useful, whole_lines
from tests.examples import examples

BODY = "def f(items):\n    "


def show(said: str, before: str = BODY, after: str = "\n", language: str = "python") -> str:
    return useful(said, before, after, language, stop_rule(before, after, language).cut)


def test_whole_statements_are_useful() -> None:
    """The last line is shown as soon as the next one begins a statement; till then it might go on."""
    assert show("total = 0\n") == "total = 0"
    assert show("total = 0\n    for item in") == "total = 0"
    assert show("total = 0\n    count = 1\n    fo") == "total = 0\n    count = 1"
    assert show("total = 0\n    count = 1\n") == "total = 0"


def test_what_is_open_is_not_shown() -> None:
    """A call that goes on, half a line, a string of several lines: nothing, or what stands before it."""
    assert show("total = sum(\n        1,\n") == ""
    assert show("total = sum(it") == ""
    assert show('total = 0\n    text = """one\n    two\n') == "total = 0"


def test_a_block_that_goes_on_is_shown_without_its_end() -> None:
    """Post-processing would close it; more lines are to come."""
    before = "function f(items) {\n  "
    shown = show("if (items) {\n    go();\n    stop();\n    wa", before, "\n}\n", "typescript")
    assert shown == "if (items) {\n    go();\n    stop();"


def test_lines_that_may_go_again_are_not_shown() -> None:
    """What repeats a line above may be a loop; what stands below the cursor may be all that follows."""
    assert show("go()\n    go()\n    x") == "go()"
    assert show("go()\n    stop()\n    x", after="\n    stop()\n") == "go()"


LINES = st.sampled_from(
    [
        *(
            "x = 1",
            "return b",
            "if a:",
            "else:",
            "foo(",
            "a,",
            ")",
            "}",
            "if (a) {",
            "} else {",
            "for i in b:",
            "",
            "pass",
        ),
        *("# c", "bar(a, [1,", "2])", "{", "]", "end", "def f(x):", 'print("a")', '"""doc', '"""', "'''", "`t", "<li>"),
    ]
)
LINE = st.builds(str.__add__, st.sampled_from(["", "    ", "    ", "        ", "  ", "\t", "\t\t"]), LINES)
LANGUAGE = st.sampled_from(["python", "typescript", "rust", "go", "html", "ruby", "lua", "plaintext"])


def code(lines: int) -> st.SearchStrategy[str]:
    return st.lists(LINE, max_size=lines).map("\n".join)


@given(code(14), code(6), st.sampled_from(["", "", ")", "]", "}"]), code(6), LANGUAGE)
@settings(max_examples=examples(120))
def test_the_beginning_of_whatever_is_shown_in_the_end(
    said: str, before: str, right: str, below: str, language: str
) -> None:
    """Letter by letter, up to where the stop rule ends it; a string that is open below the cursor is left out."""
    assume(not any(quote in below for quote in ("'''", '"""', "`")))
    after = f"{right}\n{below}"
    cut = stop_rule(before, after, language).cut
    ends = [cut(said[:length]) for length in range(len(said) + 1)]
    stopped = next((length for length, end in enumerate(ends) if end is not None), None)
    if stopped is None:
        whole, stopped = whole_lines(said, before), len(said)
    else:
        whole = said[: ends[stopped]]
    shown = finish(whole, before, after, language)
    for length in range(stopped):
        if "\n" in said[:length] and (said[length - 1] == "\n" or length % 3 == 0):
            assert shown.startswith(useful(said[:length], before, after, language, cut))
