"""Where a part of a suggestion may end: marked ▮ in the text."""

import pytest

from fastcoder_lsp.postprocess import TextAround
from fastcoder_lsp.postprocess.part import may_end


@pytest.mark.parametrize(
    ("before", "language", "text"),
    [
        ("x = ", "python", "total▮(a, b)▮"),
        ("x = ", "python", "self▮.items▮[0]▮ +"),
        ("f(", "python", "a▮, key▮=b▮"),
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
