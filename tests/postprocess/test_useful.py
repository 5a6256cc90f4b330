"""What is shown of an unfinished text: always a beginning of what the whole text is shown as."""

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fastcoder_lsp.decode.stop import stop_rule
from fastcoder_lsp.postprocess import finish, useful, whole_lines
from tests.examples import examples
from tests.postprocess.cases import Case, cases, name

CASES = cases("""
--- python: the first line is whole
def f(items):
    ▮total = 0▮
▮
--- python: a line, and the next statement begins
def f(items):
    ▮total = 0▮
    for item in▮
--- python: two lines, and the next statement begins
def f(items):
    ▮total = 0
    count = 1▮
    fo▮
--- python: two lines, of which the second might go on
def f(items):
    ▮total = 0▮
    count = 1
▮
--- python: a call that goes on
def f(items):
    ▮▮total = sum(
        1,
▮
--- python: half a line
def f(items):
    ▮▮total = sum(it▮
--- python: a string of several lines
def f(items):
    ▮total = 0▮
    text = \"\"\"one
    two
▮
--- python: what is begun may be a branch of the block
def f(items):
    ▮if items:
        go()▮
    el▮
--- python: what repeats a line above may be a loop
def f(items):
    ▮go()▮
    go()
    x▮
--- python: what stands below the cursor may be all that follows
def f(items):
    ▮go()▮
    stop()
    x▮
    stop()
--- typescript: a block that goes on is shown without its end
function f(items) {
  ▮if (items) {
    go();
    stop();▮
    wa▮
}
--- typescript: a block behind the editor's closer
on("a", (▮b) => {
  go();
  st▮)
>>>
on("a", (▮b) => {
  go();▮
--- typescript: a template string that is open
function f() {
  ▮const a = 1;▮
  const b = `one
  tw▮
}
--- rust: a statement, and the next one begins
fn f() {
    ▮let a = 1;▮
    let b▮
}
--- go: a letter that a branch may begin with keeps the line above it
func f() {
→▮a := 1▮
→b := 2
→c▮
}
--- go: a letter that no branch begins with does not
func f() {
→▮a := 1
→b := 2▮
→x▮
}
--- go: spaces that may become tabs hang on what follows
func f() {
→x()
→▮▮if a {
        b()
        c()
        d▮
}
--- c: a comment of several lines
int f(void) {
    ▮a();▮
    /* one
    two▮
}
--- ruby: the same letter in another language
def f
  ▮a▮
  b
  c▮
end
--- lua: what is begun may be a branch of the block
function f()
  ▮if a then
    b()▮
  el▮
end
--- html: a tag, and the next one begins
<ul>
  ▮<li>a</li>
  <li>b</li>▮
  <l▮
</ul>
""")


@pytest.mark.parametrize("case", CASES, ids=name)
def test_useful(case: Case) -> None:
    before, said, after = case.parts()
    shown = useful(said, before, after, case.language, stop_rule(before, after, case.language).cut)
    assert case.document(shown) == case.shown


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


@example(")\n# c\nx = 1\nx = 1", "bar(a, [1,", ")", "", "python")
@example("} else {\n}\nx = 1", "if (a) {\nx = 1", "", "}", "typescript")
@given(code(14), code(6), st.sampled_from(["", "", ")", "]", "}"]), code(6), LANGUAGE)
@settings(max_examples=examples(120))
def test_the_beginning_of_whatever_is_shown_in_the_end(
    said: str, before: str, right: str, below: str, language: str
) -> None:
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
