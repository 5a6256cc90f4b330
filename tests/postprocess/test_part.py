"""Where a part of a suggestion may end: marked ▮ in the text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastcoder_lsp.postprocess import TextAround, finish
from fastcoder_lsp.postprocess.part import begun_line, may_end
from tests.examples import examples


@pytest.mark.parametrize(
    ("before", "language", "text"),
    [
        ("x = ", "python", "total▮(a, b)▮"),
        ("x = ", "python", "self▮.items▮[0]▮ +"),
        ("f(", "python", "a▮, key▮=b▮"),
        ("def f(a: list[", "python", "int▮]▮)▮ -> list▮[int]▮:"),
        ("", "python", "x▮ = 'a b'▮"),
        ("x = 'a ", "python", "b▮ c▮"),
        ("x = ", "python", "0.25▮ +"),
        ("x = ", "python", "1.5e3▮, a▮[0]▮.b▮"),
        ('x = f"in ', "python", 'row▮ {seat.row}▮ of▮"▮'),
        ('x = f"in {', "python", "seat▮.row▮}▮ {a"),
        ("x = `in ", "typescript", "row▮ ${seat.row}▮ of▮`▮;▮"),
        ("# say ", "python", "this▮ and▮ that▮"),
        ("", "python", "if x:\n    go()▮\n"),
        ("if ", "python", "x▮ is None▮:\n    go()▮"),
        ("", "python", "go▮()▮\nfor a in b:\n    c▮"),
        ("", "typescript", "const a = () => {\n  b();\n}▮"),
        ("", "java", "case▮ SOFA▮ -> price▮;▮"),
        ("", "rust", "Zone▮::City▮ => Vec▮<u8▮>▮ > x▮"),
        ("import type { ", "typescript", "Boat▮ }▮ from './boat'▮;▮"),
        ("", "python", "a▮ = b▮\n    return c▮"),
        ("", "python", "\n\na▮ = b▮\nreturn c▮\n"),
        ("  ", "go", "if err != nil {\n    return err\n  }▮"),
    ],
)
def test_where_a_part_may_end(before: str, language: str, text: str) -> None:
    """After a word, number or closer, all of its own closed; a header has a body; further lines are whole."""
    pieces = text.split("▮")
    whole, ends, at = "".join(pieces), set[int](), 0
    for piece in pieces[:-1]:
        at += len(piece)
        ends.add(at)
    allowed = may_end(whole, TextAround(before, "", language))
    words = {
        end for end in range(1, len(whole) + 1) if not (whole[end - 1].isalnum() and whole[end : end + 1].isalnum())
    }
    assert {end for end in words if allowed(end)} == ends


@pytest.mark.parametrize(
    ("before", "said", "after", "shown"),
    [
        ("x = ", "alpha", "\n", "alpha"),
        ("x =", " alpha", "\n", " alpha"),
        ("x = ", " alpha", "\n", "alpha"),
        ("f(", "alpha", ")\n", "alpha"),
        ("    ", "alpha", "\n", ""),
        ("x = ", "alpha", " + other\n", ""),
        ("x = '", "alpha", "\n", ""),
        ("f(", "alpha", "alpha)\n", ""),
    ],
    ids=[
        *("a line", "a blank before it", "a blank too many", "before a closer"),
        *("a line of its own", "before code", "in a string", "said already"),
    ],
)
def test_the_beginning_of_a_line_that_goes_on(before: str, said: str, after: str, shown: str) -> None:
    assert begun_line(said, TextAround(before, after, "python")) == shown


PIECES = st.sampled_from(
    ["a", "b.c", "(", ")", "[1, ", "]", " = ", " + ", ", ", "'s'", '"t"', "{", "}", " => ", ":", ";"]
)
LEFTS = st.sampled_from(["x = ", "x =", "f(", "return ", "if a", "    b.", "# c ", "foo(a, [", "const t = {"])


@given(
    st.lists(st.sampled_from(["x = a", "f(a)", "if a:", "    b.c = a", "]", "}"]), max_size=6).map("\n".join),
    LEFTS,
    st.lists(PIECES, min_size=1, max_size=8).map("".join),
    st.sampled_from(["", "\n", ")\n", "])\n", "}\n", "\nx = a\n", "\n}\n"]),
    st.sampled_from(["python", "typescript", "rust", "go", "ruby"]),
)
@settings(max_examples=examples(200))
def test_a_begun_line_goes_on_as_its_whole_line(above: str, left: str, said: str, after: str, language: str) -> None:
    around = TextAround(f"{above}\n{left}", after, language)
    shown, allowed = finish(said, around), may_end(said, around)
    for end in range(1, len(said)):
        assert not allowed(end) or not shown or shown.startswith(begun_line(said[:end], around))
