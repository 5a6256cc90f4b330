"""Where a completion ends: tables of code with a cursor mark, and the rule's promise of never changing its mind."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastcoder_lsp.decode import stop
from fastcoder_lsp.decode.stop import stop_rule
from fastcoder_lsp.syntax import Lexed, lex

CURSOR = "▮"


def check(code: str, said: str, expect: str, language: str = "python") -> None:
    """Of the endless text `said` at the cursor mark of `code`, `expect` is kept, whatever the steps it grows by."""
    before, _, after = code.partition(CURSOR)
    rule = stop_rule(before, after, language)
    lengths = [rule.cut(said[:end]) for end in range(len(said) + 1)]
    known = [length for length in lengths if length is not None]
    assert known, "the end was never found"
    assert said[: known[0]] == expect
    assert set(known) == {known[0]}


@pytest.mark.parametrize(
    ("code", "said", "expect", "language"),
    [
        # A statement without a bracket, or a finished one: one line.
        ("import ▮\n", "os\nimport sys\n", "os", "python"),
        ("x = 1▮\ny = 2\n", "\nz = 3\n", "", "python"),
        # Outside any block, at the end of a line or on an empty one: one statement, to its last bracket.
        ("x = foo(▮\n", "a,\n    b,\n)\ny = 2\n", "a,\n    b,\n)", "python"),
        (
            "▮\n",
            "def f(x):\n    y = 1\n\n    return x\n\n\ndef g():\n",
            "def f(x):\n    y = 1\n\n    return x",
            "python",
        ),
        ("▮\n", "# a note\nx = 1\ny = 2\n", "# a note\nx = 1", "python"),
        ("▮\n", "@cached\ndef f():\n    return 1\nx = 1\n", "@cached\ndef f():\n    return 1", "python"),
        ("▮\n", "function f(a) {\n  return a;\n}\nf(1);\n", "function f(a) {\n  return a;\n}", "typescript"),
        ("▮\n", "if (a) {\n  b();\n} else {\n  c();\n}\nd();\n", "if (a) {\n  b();\n} else {\n  c();\n}", "c"),
        ("const f = ▮\n", "(a) => {\n  return a;\n};\nf(1);\n", "(a) => {\n  return a;\n};", "typescript"),
        ("x = ▮\n", '"""a\n  b\n"""\ny = 1\n', '"""a\n  b\n"""', "python"),
        # Behind or under the line that opens a block: the block, its own end with it.
        (
            "def f(x):▮\n",
            "\n    if x:\n        a()\n    b()\n\ndef g():\n",
            "\n    if x:\n        a()\n    b()",
            "python",
        ),
        (
            "def f(x):\n    ▮\n",
            "if x:\n        a()\n    return b\n\n    c()\n",
            "if x:\n        a()\n    return b\n",
            "python",
        ),
        ("if x:\n    ▮\n", "a()\nelse:\n    b()\nc()\n", "a()\nelse:\n    b()", "python"),
        ("fn f() {\n    ▮\n", "let a = 1;\n    g(a)\n}\n\nfn h() {\n", "let a = 1;\n    g(a)\n}", "rust"),
        ("func f() {▮\n", "\n\ta()\n}\n\nfunc g() {\n", "\n\ta()\n}", "go"),
        ("func f() {▮\n}\n", "\n\ta()\n}\n\nfunc g() {\n", "\n\ta()", "go"),
        ("foo(\n    ▮\n", "a,\n    b,\n)\nbar()\n", "a,\n    b,\n)", "python"),
        ("<ul>\n  ▮\n", "<li>a</li>\n  <li>b</li>\n</ul>\n<p>\n", "<li>a</li>\n  <li>b</li>\n</ul>", "html"),
        ("def f\n  ▮\n", "a\n  b\nend\n\ndef g\n", "a\n  b\nend", "ruby"),
        # At the end of what a block has: its next lines, to an empty line, its end, or what follows already.
        ("def f(x):\n    y = 1\n    ▮\n", "z = 2\n    w = 3\n\n    v = 4\n", "z = 2\n    w = 3", "python"),
        ("def f(x):\n    y = 1\n    ▮\n\nz = 1\n", "z = 2\n    w = 3\ndef g():\n", "z = 2\n    w = 3", "python"),
        ("def f(x):\n    y = x▮\n", " + 1\n    return y\n    z = 1\n", " + 1\n    return y", "python"),
        ("def f(x):\n    y = x▮\n", "\n    z = y\n\n    w = 1\n", "\n    z = y", "python"),
        ("def f(x):\n    y = x▮\n    return y\n", " + 1\n    foo()\n", " + 1", "python"),
        ("fn f() {\n    a();\n    ▮\n}\n", "b();\n    c();\n}\n", "b();\n    c();", "rust"),
        ("def f():\n    a()\n    ▮\n    return 1\n", "b()\n    return 1\n", "b()", "python"),
    ],
)
def test_a_text_ends(code: str, said: str, expect: str, language: str) -> None:
    check(code, said, expect.rstrip("\n"), language)


@pytest.mark.parametrize(
    ("code", "said", "expect"),
    [
        ("x = foo(▮, 1)\n", "a\nb\n", "a\n"),
        ("if ▮ and y:\n    z()\n", "x > 1\n    foo()\n", "x > 1\n"),
        ("# sum of ▮\n", "squares\nx = 1\n", "squares\n"),
        ("def f(x):▮\n    return x\n", "  # one\n    y = 1\n", "  # one\n"),
        ("▮import time\n", "import shutil\nimport time\n", "import shutil\n"),
        ("    ▮return 1\n", "x = 1\n\n    return x\n", "x = 1\n\n"),
        ("▮def f():\n", "x = 1\n\n\n\n\ndef g():\n", "x = 1\n\n\n"),
    ],
)
def test_a_line_keeps_its_line_end(code: str, said: str, expect: str) -> None:
    """With text on the right, in a comment, above a body that stands there: one line; empty lines before another."""
    check(code, said, expect)


@pytest.mark.parametrize(
    "control", ["\x1b", "\x07", "\b", "\0", "\x9b", "\u202e", "\u2066", "\u200b", "\ud800", "\U000e0001"]
