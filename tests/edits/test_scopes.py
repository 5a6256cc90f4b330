"""Trees, and the names that they bind and use."""

import time

import pytest

from fastcoder_lsp.core import Change
from fastcoder_lsp.core.differences import whole_lines
from fastcoder_lsp.edits.analogy import analogous
from fastcoder_lsp.edits.minimal import apply
from fastcoder_lsp.edits.names import scopes_of
from fastcoder_lsp.edits.syntax_tree import GRAMMARS, MOST_S, MOST_TEXT, parsed, quoting
from fastcoder_lsp.edits.values import EditQuestion


def unbound(text: str, language: str) -> list[str]:
    scopes = scopes_of(text, language)
    assert scopes is not None
    return [one.name for one in scopes.unbound()]


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("python", "import a.b\ndef f(c, *d: E, g=h, **i) -> J:\n    return [c.n(o=k, l=l) for l in m]\n", "E h J k m"),
        (
            "python",
            "class A:\n    b = 1\n    def c(self):\n        global d\n        return b, d, 'e', f'{g}'\n",
            "b g",
        ),
        ("python", "try:\n    pass\nexcept A as e:\n    print(e)\nmatch b:\n    case C(d=x): x\n", "A print b C"),
        (
            "javascript",
            "import a, { b as c } from 'd'; function f({ g, h: i }, ...j) { k(i.l, { m, n: o }); }",
            "k m o",
        ),
        ("typescript", "class A<T> extends B<T> { c: D; e(f: T): f is G { return this.h; } }", "B D G"),
        ("typescriptreact", "const A = ({ b }: C) => <D e={b} f><g>{h} i</g></D>;", "C D h D"),
    ],
)
def test_names_that_nothing_binds(language: str, text: str, wanted: str) -> None:
    assert unbound(text, language) == wanted.split()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_offsets_count_characters(end: str) -> None:
    text = f"\ufeffé = '𝒳 ünïcödé\u2028'{end}größe = é + \0 straße{end}# 日本 x{end}"
    scopes = scopes_of(text, "python")
    assert scopes is not None
    assert [text[one.at : one.at + len(one.name)] for one in scopes.names()] == ["é", "größe", "é", "straße"]
    is_quoted = quoting(text, "python")
    assert is_quoted(text.index("日"))
    assert not is_quoted(text.index("straße"))


def test_texts_without_a_tree() -> None:
    assert parsed("x = 1\n", "plaintext") is None
    assert parsed("x" * (MOST_TEXT + 1), "python") is None
    assert quoting("x = 'a'  # b", "toml")(6)


@pytest.mark.parametrize("language", sorted({*GRAMMARS} - {"javascriptreact", "typescript", "cuda-cpp"}))
@pytest.mark.parametrize("part", ["(", "{", "a.b(", "x=[", "){", "if x:\n", "'", "`${", "<a>", "\0"])
def test_hostile_texts_cost_little(language: str, part: str) -> None:
    """The parser stops in time; its steps are small."""
    text = part * (MOST_TEXT // len(part))
    started = time.monotonic()
    if (scopes := scopes_of(text, language)) is not None:
        scopes.names("a", "x")
    assert time.monotonic() - started < 20 * MOST_S


BROKEN = [
    ("python", "def f(price):\n    return price\n\n\ndef g(\n", True),
    ("python", "class A:\n    def f(self, price):\n        x = price\n        y = price.\n", False),
    ("python", "def f(price):\n    x = (price\n    return price\n", False),
    ("python", "def f(price):\n    if (x:\n        return price\n    return price\n", False),
    ("javascript", "function f(price) {\n  use(price);\n}\nconst a = {\n", True),
    ("javascript", "function f(price) {\n  use(price);\n  if (x) {\n}\nfunction g() { return price; }\n", False),
    ("typescript", "function f(price: number) {\n  x.\n  return price;\n}\n", False),
    ("go", "func f(price int) int {\n\treturn price\n}\nfunc g( {\n", True),
    ("rust", "fn f(price: u8) -> u8 {\n    price\n}\nfn g(x: {\n", True),
    ("java", "class A {\n  int f(int price) {\n    return price;\n  }\n  int g(\n}\n", None),
    (
        "lua",
        "local function f(price)\n  local functon g()\n    return 1\n  end\n  return price\nend\nprint(price)\n",
        False,
    ),
    ("php", "<?php\nfunction f($price) {\n  return $price;\n}\nfunction g( {\n", None),
    ("kotlin", "fun f(price: Int): Int {\n    return price\n}\nfun g(x: {\n", None),
]


@pytest.mark.parametrize(("language", "text", "renamed"), BROKEN)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_broken_document_is_renamed_right_or_not_at_all(
    language: str, text: str, renamed: bool | None, end: str
) -> None:
    """`renamed`: whether the grammar's recovery is good enough; None where that is left open."""
    text = text.replace("\n", end)
    after = text.replace("price", "amount", 1)
    line = text.count("\n", 0, text.index("price"))
    old, new = (whole_lines(one)[line] for one in (text, after))
    asked = EditQuestion(1, "a", "a", language, 1, after, 0, (Change("a", line, old, new),))
    offered = analogous(asked)
    assert apply(after, offered) == (text.replace("price", "amount") if offered else after)
    assert renamed is None or bool(offered) is renamed


@pytest.mark.parametrize("letters", ["", "é", "𝒳", "日本", "\u2028"])
def test_other_letters_move_no_place(letters: str) -> None:
    """Offsets count code points, whatever the widths in UTF-8 and UTF-16."""
    text = f"def f(price):  # {letters}\n    x = '{letters}', price\n    größe{letters.strip(chr(0x2028))} = price\n"
    after = text.replace("price", "amount", 1)
    old, new = (whole_lines(one)[0] for one in (text, after))
    asked = EditQuestion(1, "a", "a.py", "python", 1, after, 0, (Change("a.py", 0, old, new),))
    assert apply(after, analogous(asked)) == text.replace("price", "amount")


def test_a_very_long_line_is_renamed_in_time() -> None:
    text = f"function f(price) {{ return [{'x => x + 1, ' * 40_000}price]; }}\n"
    started = time.monotonic()
    scopes = scopes_of(text, "javascript")
    assert scopes is None or len(scopes.names("price")) == 2
    assert time.monotonic() - started < 20 * MOST_S


def test_deep_nesting_ends_no_process() -> None:
    for language, text in {"python": "(" * 50_000 + "a" + ")" * 50_000, "javascript": "[{a:" * 30_000}.items():
        if (scopes := scopes_of(text, language)) is not None:
            scopes.owners(scopes.names("a"))
            scopes.unbound()
