"""What is shown of what the model said: tables of code with a cursor mark, over languages."""

import pytest

from fastcoder_lsp.postprocess import finish, replaces, whole_lines

CURSOR = "▮"


def check(code: str, said: str, expect: str, language: str = "python") -> None:
    """`said` at the cursor mark of `code` is finished into `expect`, and finishing that changes nothing."""
    before, _, after = code.partition(CURSOR)
    shown = finish(said, before, after, language)
    assert shown == expect
    assert finish(shown, before, after, language) == shown


def check_document(code: str, said: str, expect: str, language: str = "python") -> None:
    """With the suggestion accepted, what it overwrites gone, the document reads `expect`."""
    before, _, after = code.partition(CURSOR)
    shown = finish(said, before, after, language)
    assert before + shown + after[replaces(shown, before, after, language) :] == expect


@pytest.mark.parametrize(
    ("code", "said", "expect"),
    [
        ("x = ▮\n", "1  \n", "1"),
        ("def f(x):▮\n", "\n    return x   \n\n\n", "\n    return x"),
        ("def f(x):\n    ▮\n", "return x\t\n    ", "return x"),
        ("x = 1▮", "   \n\n  ", ""),
    ],
)
def test_no_trailing_blanks(code: str, said: str, expect: str) -> None:
    """Lines and the whole end without blanks; blanks alone are nothing."""
    check(code, said, expect)


@pytest.mark.parametrize(
    ("code", "said", "expect"),
    [
        ("foo(▮)\n", "a, b)", "a, b"),
        ("foo(▮)\n", "bar(a)", "bar(a)"),
        ("foo(▮)\n", "bar(a))", "bar(a)"),
        ("foo([▮])\n", "1, 2])", "1, 2"),
        ('print("hel▮")\n', 'lo")', "lo"),
        ('print("hel▮")\n', "lo", "lo"),
        ("total = a ▮ + c\n", "+ b + c", "+ b"),
        ("if ▮ and ready:\n", "x > 1 and ready:", "x > 1"),
        ("return ▮self.name\n", "self.title or self.name", "self.title or "),
        ("x = s▮s\n", "s", ""),
    ],
)
def test_rest_of_the_line_is_not_repeated(code: str, said: str, expect: str) -> None:
    """What stands right of the cursor is dropped from the suggestion's end; a chance letter is not."""
    check(code, said, expect)


@pytest.mark.parametrize(
    ("code", "said", "expect", "language"),
    [
        ("def f(x):\n    ▮\n    return y\n", "y = x + 1\n    return y", "y = x + 1", "python"),
        ("def f(x):\n    ▮\n    return y\n", "    return y", "", "python"),
        (
            "a = 1\n▮\nc = 3\nd = 4\n",
            "b = 2\nc = 3\nd = 4\ne = 5",
            "b = 2",
            "python",
        ),
        ("function f() {\n  ▮\n}\n", "return 1;\n}", "return 1;", "typescript"),
        ("function f() {▮\n}\n", "\n  return 1;\n}", "\n  return 1;", "typescript"),
        ("fn f() {\n    if a {\n        ▮\n    }\n}\n", "b();\n    }\n}", "b();", "rust"),
        ("<ul>\n  ▮\n</ul>\n", "<li>a</li>\n</ul>", "<li>a</li>", "html"),
    ],
)
def test_lines_below_are_not_repeated(code: str, said: str, expect: str, language: str) -> None:
    """What the next lines say already is dropped, closing lines too."""
    check(code, said, expect, language)


@pytest.mark.parametrize(
    ("code", "said", "expect", "language"),
    [
        ("foo(▮", "a, b)", "a, b)", "python"),
        ("foo(▮", "a, [b", "a, [b]", "python"),
        ("x = ▮\n", '"abc', '"abc"', "python"),
        ("x = ▮\n", "f(a) + g(b))", "f(a) + g(b)", "python"),
        ("x = ▮\n", 'f(")")', 'f(")")', "python"),
        ("if (a) {▮", "\n  b();", "\n  b();", "typescript"),
        ("class A {\n  f() {\n    ▮\n", "g();\n  }\n}", "g();\n  }\n}", "typescript"),
        ("class A {\n  f() {\n    ▮\n}\n", "g();\n  }\n}", "g();\n  }", "typescript"),
        ("func f() {\n\t▮\n}\n", "g(func() {\n\t\th()", "g(func() {\n\t\th()\n\t})", "go"),
        ("let x: &'a str = ▮\n", "foo('(');", "foo('(');", "rust"),
        ("x = 1  # it's (▮\n", "fine", "fine", "python"),
    ],
)
def test_brackets_balance(code: str, said: str, expect: str, language: str) -> None:
    """A suggestion closes what it opens and what is open before it, and never what is closed below."""
    check(code, said, expect, language)


@pytest.mark.parametrize(
    ("code", "said", "expect"),
    [
        ("def f(▮)\n", "a, b):\n    return a", "def f(a, b):\n    return a\n"),
        ("def f(▮)\n", "a, b", "def f(a, b)\n"),
        ("def f(▮)\n", "a, b)", "def f(a, b)\n"),
        ('x = d["▮"]\n', 'key"].upper()', 'x = d["key"].upper()\n'),
        ('x = d["▮"]\n', "key", 'x = d["key"]\n'),
        ("foo(▮);\n", "a, (b)", "foo(a, (b));\n"),
    ],
)
def test_closers_of_the_editor_are_written_over(code: str, said: str, expect: str) -> None:
    """A closer that the editor typed by itself stands once in the end, whether the model says it or not."""
    check_document(code, said, expect)


@pytest.mark.parametrize(
    ("code", "said", "expect", "language"),
    [
        ("def f(x):\n    ▮\n", "    return x", "return x", "python"),
        ("def f(x):\n▮\n", "    return x", "    return x", "python"),
        ("def f(x):\n    if x:\n        y()\n▮\n", "    return x", "    return x", "python"),
        ("def f(x):\n    y = x\n▮\n", "       return y", "return y", "python"),
        ("x = ▮\n", " 1", "1", "python"),
        ("func f() {\n\tif a {\n\t\t▮\n", "b()\n        c()", "b()\n\t\tc()", "go"),
        ("def f():\n  if a:\n    ▮\n", "b()\n\tc()", "b()\n  c()", "python"),
        (
            "def f(x):\n    ▮\n",
            "if x:\n        return 1\n    return 2",
            "if x:\n        return 1\n    return 2",
            "python",
        ),
    ],
)
def test_indentation_is_the_documents(code: str, said: str, expect: str, language: str) -> None:
    """A line begins at a depth that the code above allows, with tabs or spaces as the document has them."""
    check(code, said, expect, language)


@pytest.mark.parametrize(
    ("code", "said", "expect"),
    [
        ("▮\n", "a = 1\na = 1\na = 1\na = 1", "a = 1"),
        ("▮\n", "x()\ny()\nx()\ny()\nx()\ny()", "x()\ny()"),
        ("x = ▮\n", "ab, ab, ab, ab, ab, ab, ab, ab, ab, ab, ", "ab,"),
        ("x = ▮\n", "1<|fim_prefix|>foo", "1"),
        ("x = ▮\n", "<｜end▁of▁sentence｜>", ""),
        ("x = y▮\n", ")", ""),
        ("foo(▮)\n", ")", ""),
        ("foo(a)\n▮\n", "foo(a)", ""),
        ("foo(▮\n", ")", ")"),
        ("MARK = '<|fim_prefix|>'\nx = ▮\n", "'<|fim_prefix|>'", "'<|fim_prefix|>'"),
    ],
)
def test_nothing_rather_than_rubbish(code: str, said: str, expect: str) -> None:
    """Loops are cut, control tokens spelt out end the text, and what says nothing new is not shown."""
    check(code, said, expect)


def test_line_ends() -> None:
    r"""Whatever the model says, line ends are `\n`."""
    check("def f():▮\n", "\r\n    a()\r\n    b()", "\n    a()\n    b()")


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
    """Cut off by a deadline, the last line is dropped, or half a word of the only one."""
    assert whole_lines(text, before).rstrip() == expect.rstrip()
