"""What all rules do together, and what none of them owns: line ends, blanks at the ends of lines, half a text."""

import pytest

from fastcoder_lsp.postprocess import finish, whole_lines
from tests.postprocess.cases import Case, cases, check, name

CASES = cases("""
--- python: the end of a line has no blanks
x = ▮1▮  ▮
--- python: lines have none at their ends, and the text none at its own
def f(x):▮
    return x▮···


▮
--- python: a tab at the end of a line goes too
def f(x):
    ▮return x▮→
    ▮
--- python: blanks alone are nothing
x = 1▮▮···

  ▮¶
--- typescript: blanks at the ends of a block's lines
function f() {▮··
  a();··
··
  b();→
}▮
>>>
function f() {▮
  a();

  b();
}▮
--- go: a blank line of tabs is an empty one
func f() {
→▮a()
→→
→b()→▮
}
>>>
func f() {
→▮a()

→b()▮
}
--- rust: one blank stays before text right of the cursor
let x = ▮a + ▮b;
--- ruby: an empty line within a block stays
def f
  ▮a

  b▮  ▮
end
--- html: the blanks behind a tag go
<p>▮a</p>▮···
▮
--- python: one rule's work is the next one's: a loop is cut, and what is left closed
x = ▮[f(a), f(a), f(a), f(a), f(a), f(a), f(a), f(a), f(a), f(a), ▮
>>>
x = ▮[f(a), ]▮
--- typescript: a control token ends the text, its lines below are cut, and the bracket stays the document's
function f() {
  ▮return g(1);▮
}<|endoftext|>▮
}
""")


@pytest.mark.parametrize("case", CASES, ids=name)
def test_finished(case: Case) -> None:
    check(case)


def test_line_ends() -> None:
    assert finish("\r\n    a()\r\n    b()", "def f():", "\n", "python") == "\n    a()\n    b()"
    assert finish("\r    a()", "def f():", "\n", "python") == "\n    a()"


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
