"""The smallest edits: they give the new text, and cover what differs and no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.edits.minimal import MOST_DIFFERENCES, apply, minimal
from fastcoder_lsp.edits.values import MOST_EDITS

TEXT = st.text("ab_ \n\r.ß", max_size=40)


@given(TEXT, TEXT, st.data())
def test_the_edits_give_the_new_text(text: str, new: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    edits = minimal(text, start, end, new)
    assert apply(text, edits) == text[:start] + new + text[end:]
    assert bool(edits) == (text[start:end] != new)
    bounds = [bound for edit in edits for bound in (edit.start, edit.end)]
    assert bounds == sorted(bounds)
    assert all(start <= bound <= end for bound in bounds)
    assert not any(text[start:end][bound - start - 1 : bound - start + 1] == "\r\n" for bound in bounds)


@pytest.mark.parametrize(
    ("old", "new", "edits"),
    [
        ("    user = fetch(a)\n", "    user = await fetch(a)\n", [("", "await ")]),
        ("a\n    b\n", "a\n    x\n    b\n", [("", "    x\n")]),
        ("a\n    x\n    b\n", "a\n    b\n", [("    x\n", "")]),
        ("group_by_cat(i)", "group_by_category(i)", [("", "egory")]),
        ("map[x]", "mop[x]", [("map", "mop")]),
        ("a", "a\nx", [("", "\nx")]),
        ("f(a)\n\n\ng(a)\n", "f(b)\n\n\ng(b)\n", [("a)\n\n\ng(a", "b)\n\n\ng(b")]),
        ("f(a)\n\n\n\ng(a)\n", "f(b)\n\n\n\ng(b)\n", [("a", "b"), ("a", "b")]),
        ("a\r\nb\r\n", "a\nb\r\n", [("\r\n", "\n")]),
    ],
)
def test_the_edits_cover_what_differs(old: str, new: str, edits: list[tuple[str, str]]) -> None:
    assert [(old[edit.start : edit.end], edit.text) for edit in minimal(old, 0, len(old), new)] == edits


def test_hostile_texts_cost_little_and_give_few_edits() -> None:
    many = "".join(f"{line}\n\n\n\n" for line in range(MOST_DIFFERENCES))
    for old, new in (
        ("a\nb\n" * 50_000, "b\nc\n" * 50_000),
        ("x" * 1_000_000, "y" * 1_000_000),
        ("a\n" * 50_000, "a\n" * 50_100 + "b"),
        (many, many.replace("1", "2", MOST_EDITS * 2)),
    ):
        edits = minimal(old, 0, len(old), new)
        assert len(edits) <= MOST_EDITS
        assert apply(old, edits) == new
