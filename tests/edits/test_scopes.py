"""Trees, and the names that they bind and use."""

import time

import pytest

from fastcoder_lsp.edits.names import scopes_of
from fastcoder_lsp.edits.syntax_tree import MOST_S, MOST_TEXT, parsed, quoting


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


@pytest.mark.parametrize("language", ["python", "javascript", "typescriptreact"])
@pytest.mark.parametrize("part", ["(", "{", "a.b(", "x=[", "){", "if x:\n", "'", "`${", "<a>", "\0"])
def test_hostile_texts_cost_little(language: str, part: str) -> None:
    """The parser stops in time; its steps are small."""
    text = part * (MOST_TEXT // len(part))
    started = time.monotonic()
    if (scopes := scopes_of(text, language)) is not None:
        scopes.names("a", "x")
    assert time.monotonic() - started < 20 * MOST_S
