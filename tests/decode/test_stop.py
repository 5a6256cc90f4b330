"""Where a completion ends: tables of code with a cursor mark, and the rule's promise of never changing its mind."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastcoder_lsp.decode import stop
from fastcoder_lsp.decode.stop import LineRule, stop_rule
from fastcoder_lsp.syntax import Lexed, lex

CURSOR = "▮"


def check(code: str, said: str, expect: str, language: str = "python") -> None:
    """Of the endless text `said` at the cursor mark of `code`, `expect` is kept, whatever the steps it grows by.

    Its line end is kept too by the rule that ends at one, and by no other.
    """
    before, _, after = code.partition(CURSOR)
    rule = stop_rule(before, after, language)
    lengths = [rule.cut(said[:end]) for end in range(len(said) + 1)]
    known = [length for length in lengths if length is not None]
    assert known, "the end was never found"
    line_end = "\n" if isinstance(rule, LineRule) and said[len(expect)] == "\n" else ""
    assert said[: known[0]] == expect + line_end
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
            "if x:\n        a()\n    return b",
            "python",
        ),
        ("if x:\n    ▮\n", "a()\nelse:\n    b()\nc()\n", "a()\nelse:\n    b()", "python"),
        ("fn f() {\n    ▮\n", "let a = 1;\n    g(a)\n}\n\nfn h() {\n", "let a = 1;\n    g(a)\n}", "rust"),
        ("func f() {▮\n", "\n\ta()\n}\n\nfunc g() {\n", "\n\ta()\n}", "go"),
        ("func f() {▮\n}\n", "\n\ta()\n}\n\nfunc g() {\n", "\n\ta()", "go"),
        ("foo(\n    ▮\n", "a,\n    b,\n)\nbar()\n", "a,\n    b,\n)", "python"),
        ("<div>▮</div>\n", "\n  <b>y</b>\n</div>\n<p>\n", "\n  <b>y</b>\n</div>", "html"),
        ("<li>▮</li>\n", "a</li>\n<li>b</li>\n", "a</li>", "html"),
        ("<td>▮</td><td></td>\n", "a</td>\n<td>b\n", "a</td>", "html"),
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
    check(code, said, expect, language)


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
    before, _, after = code.partition(CURSOR)
    length = stop_rule(before, after, "python").cut(said)
    assert length is not None
    assert said[:length] == expect


@pytest.mark.parametrize(
    "control", ["\x1b", "\x07", "\b", "\0", "\x9b", "\u202e", "\u2066", "\u200b", "\ud800", "\U000e0001"]
)
@pytest.mark.parametrize(("before", "after"), [("x = ", ")\n"), ("def f():\n    ", ""), ("# a ", ""), ("", "")])
def test_a_text_ends_before_a_control_character(control: str, before: str, after: str) -> None:
    check(f"{before}{CURSOR}{after}", f"one{control}two\n", "one")
    check(f"{before}{CURSOR}{after}", f"{control}]0;title\n", "")
    if not after and not before.startswith("#"):
        check(f"{before}{CURSOR}", f"g(\n    1,{control}2)\n", "g(\n    1,")
        check(f"{before}{CURSOR}", f"return 1\n\n\ndef g():\n{control}", "return 1")


@pytest.mark.parametrize(
    "word",
    [
        "👩\u200d🚀",
        "👩🏽\u200d💻",
        "🏳️\u200d🌈",
        "👨\u200d👩\u200d👧\u200d👦",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "می\u200cخواهم",
        "کار\u200cها",
        "र्\u200dय",
        "क्\u200cष",
        "ක්\u200dෂ",
        "র\u200d্যাম",
        "ന്\u200d",
    ],
)
@pytest.mark.parametrize(("before", "after"), [("x = ", ")\n"), ("def f():\n    ", ""), ("# a ", ""), ("", "")])
def test_a_joiner_with_an_effect_is_text(word: str, before: str, after: str) -> None:
    check(f"{before}{CURSOR}{after}", f'"{word}" + {word[0]}\nx = 1\n', f'"{word}" + {word[0]}')
    check(f"{before}{word[0]}{CURSOR}{after}", f"{word[1:]}\nx = 1\n", word[1:])


@pytest.mark.parametrize(
    "word",
    [
        *(
            "user\u200dname",
            "pay\u200cpal",
            "a\xadb",
            "👩\u200d",
            "👩\u200dx",
            "1\u200d🚀",
            "می\u200c",
            "می\u200cx",
            "न\u200dx",
        ),
        *("f\U000e0067\U000e007f", "\U0001f3f4\U000e0067\U000e007f", "\U0001f3f4" + "\U000e0061" * 7 + "\U000e007f"),
    ],
)
@pytest.mark.parametrize(("before", "after"), [("x = ", ")\n"), ("def f():\n    ", ""), ("# a ", ""), ("", "")])
def test_a_line_with_a_hidden_joiner_is_not_shown(word: str, before: str, after: str) -> None:
    check(f"{before}{CURSOR}{after}", f'"{word}" + 1\n', "")
    if not after and not before.startswith("#"):
        check(f"{before}{CURSOR}", f"g(\n    1,\n    {word})\n", "g(\n    1,")


def test_a_soft_hyphen_is_text_in_markup() -> None:
    check(f"<p>{CURSOR}</p>\n", "Wort\xadteil\n<p>\n", "Wort\xadteil", "html")
    check(f"<p>{CURSOR}</p>\n", "Wort \xadteil\n", "", "html")


@pytest.mark.parametrize(
    ("before", "said", "expect", "language"),
    [
        ("", "# \x1b]0;title\n", "", "python"),
        ("# sum of a\nx = ", "y  # \x1b", "y", "python"),
        ("def f():\n    ", "# a\n    # \x1b", "# a", "python"),
        ("", "/**\n * \x1b", "", "typescript"),
        ("x = '#", " \x1b", " ", "python"),
        ("# ", "\x1b", "", "python"),
    ],
)
def test_no_bare_comment_mark_before_a_control_character(before: str, said: str, expect: str, language: str) -> None:
    check(f"{before}{CURSOR}\n", said, expect, language)
    if "\n" not in said.partition("\x1b")[0]:
        check(f"{before}{CURSOR} and b\n", said, expect, language)


def test_a_loop_ends() -> None:
    check(f"if a:\n    x.{CURSOR}\n", "f()\n    x.f()\n    x.f()\n    x.f()\n", "f()")


def test_a_block_too_long_ends_between_its_statements() -> None:
    said = "a()\n" + "    if b:\n        c()\n        d()\n" * 8
    check(f"def f():\n    x()\n    {CURSOR}\n", said, "a()" + "\n    if b:\n        c()\n        d()" * 2)
    style = "<style>\n" + "  a {\n    b: c\n  }\n" * 3 + "  </style>\n"
    check(f"<head>\n  <title>T</title>\n  {CURSOR}\n", style + "  <p>\n", style.rstrip(), "html")


@pytest.mark.parametrize(
    ("code", "said", "expect", "language"),
    [
        (
            "class A:▮\n",
            '\n    """A."""\n\n    def f(self):\n        return 1\n\n    # Two.\n    @cached\n    def g(self):\n',
            '\n    """A."""\n\n    def f(self):\n        return 1',
            "python",
        ),
        ("class A:▮\n", "\n    x = 1\n    y = 2\n\n    # Two.\n    def f(self):\n", "\n    x = 1\n    y = 2", "python"),
        ("struct A {▮\n};\n", "\n  int a;\n  int f() {\n", "\n  int a;", "cpp"),
        (
            "▮\n",
            "class A:\n    def f(self):\n        return 1\n\n    async def g(self):\n",
            "class A:\n    def f(self):\n        return 1",
            "python",
        ),
        (
            "class A {\n  f() {\n  }\n\n  ▮\n}\n",
            "g(): void {\n    a();\n  }\n  static async h<T>(x: T = 1): Promise<T> {\n",
            "g(): void {\n    a();\n  }",
            "typescript",
        ),
        (
            "impl A {▮\n}\n",
            "\n    pub fn f() {\n        a()\n    }\n\n    fn g() {\n",
            "\n    pub fn f() {\n        a()\n    }",
            "rust",
        ),
        # Branches, calls and fields are no definitions.
        (
            "def f():▮\n",
            "\n    def g():\n        a()\n\n    if b:\n        c()\n    return g\n\n\n",
            "\n    def g():\n        a()\n\n    if b:\n        c()\n    return g",
            "python",
        ),
        (
            "void f() {▮\n}\n",
            "\n  if (a) {\n    b();\n  }\n  while (c) {\n    d();\n  }\n}\n",
            "\n  if (a) {\n    b();\n  }\n  while (c) {\n    d();\n  }",
            "c",
        ),
    ],
)
def test_a_text_ends_after_one_definition(code: str, said: str, expect: str, language: str) -> None:
    check(code, said, expect, language)


def test_numbers_end_somewhere() -> None:
    numbers = ", ".join(str(2**power) for power in range(40))
    expect = ", ".join(str(2**power) for power in range(16))
    check(f"POWERS = [{CURSOR}\n", numbers, expect)
    check(f"POWERS = [{CURSOR}]\n", f"\n    {numbers}\n", f"\n    {expect}")
    check(f"f(a, {CURSOR}, b)\n", numbers + "\n", numbers)


def test_no_end_no_limit() -> None:
    said = "".join(f"    a{number}()\n" for number in range(100))
    before, _, after = f"def f():\n{CURSOR}".partition(CURSOR)
    length = stop_rule(before, after, "python").cut(said)
    assert length is not None
    assert 5 < said[:length].count("\n") < 40
    assert said[length] == "\n"


def test_a_growing_text_is_followed_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned = list[str]()

    def counted(text: str, language: str) -> Lexed:
        scanned.append(text)
        return lex(text, language)

    monkeypatch.setattr(stop, "lex", counted)
    follow = stop_rule("def f(x):\n    ", "", "python").follow()
    assert all(follow("\n" * said) is None for said in range(300))
    assert 0 < len(scanned) < 1_000


@example(["a", "#", "(", "\x1b"], "x = ", "", "python")
@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                "if x:",
                "    ",
                "\n",
                "\n",
                "(",
                ")",
                "{",
                "}",
                "else:",
                '"',
                "#",
                "  b",
                "return",
                "\x1b",
                "\u200d",
                "👩",
            ]
        )
    ),
    st.sampled_from(["def f(x):\n    ", "x = ", "if (a) {\n  ", "    a = 1\n    ", "", "foo(\n  1,\n  "]),
    st.sampled_from(["", "\n", "\n}\n", ")\n", "\n    b\n", " and c\n"]),
    st.sampled_from(["python", "typescript", "rust", "html", "ruby", "plaintext"]),
)
def test_an_end_once_known_stays(parts: list[str], before: str, after: str, language: str) -> None:
    said = "".join(parts)
    rule = stop_rule(before, after, language)
    known: int | None = None
    follow = rule.follow()
    for end in range(len(said) + 1):
        length = rule.cut(said[:end])
        assert known is not None or follow(said[:end]) == length
        if known is not None:
            assert length == known
        elif length is not None:
            known = length
            assert 0 <= length <= end
            rest = said[length:]
            # A comment's marks without a word go with the control character that cuts them short.
            assert (
                not rest
                or "\n" in said[length - 1 : length + 1]
                or length == 0
                or re.match(r"\s*(#[^\w\x1b]*)?\x1b", rest)
            )
