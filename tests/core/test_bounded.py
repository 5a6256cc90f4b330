"""Work on the event loop and on the model's thread reads a bounded part of a document."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastcoder_lsp
from fastcoder_lsp.core.bounded import line_above, near, number_of_line

PACKAGE = Path(fastcoder_lsp.__file__).parent
SHARED = ("lsp", "prompt", "runtime", "scheduling", "host", "remote", "team", "completion", "http")
"""The packages that run on the event loop or on the model's thread."""
TEXTS = {
    "text": {"snapshot", "here", "document", "question", "request"},
    "clean_text": {"document"},
    "before": {"place", "infill"},
    "after": {"place", "infill"},
}
"""The attributes that are a whole text, and the names of the values that have them."""
SEARCHES = {"split", "rsplit", "splitlines", "count", "findall", "finditer", "sub"}


def whole_texts(tree: ast.AST) -> Iterator[ast.expr]:
    """The documents' whole texts that a module splits, counts in or searches, by a call on them or with them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
            bounded = node.func.attr == "split" and len(node.args) > 1
            yield from (one for one in (node.func.value, *node.args) if is_whole_text(one) and not bounded)


def is_whole_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return is_whole_text(node.left) or is_whole_text(node.right)
    if not isinstance(node, ast.Attribute) or node.attr not in TEXTS:
        return False
    base = node.value
    return (base.id if isinstance(base, ast.Name) else getattr(base, "attr", "")) in TEXTS[node.attr]


@pytest.mark.parametrize(
    "code", ['snapshot.text.split("\\n")', "WORD.findall(question.place.before)", 'here.text.count("\\n", 0, at)']
)
def test_a_search_of_a_whole_document_is_found(code: str) -> None:
    assert list(whole_texts(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ['near(here.text, at)[1].split("\\n")', 'here.text[a:b].count("x")', 'line.split(":")']
)
def test_a_search_of_a_part_is_none(code: str) -> None:
    assert not list(whole_texts(ast.parse(code)))


def test_no_shared_work_searches_a_whole_document() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{one.lineno}: {ast.unparse(one)}"
        for package in SHARED
        for path in sorted((PACKAGE / package).rglob("*.py"))
        for one in whole_texts(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == [], "take a part of the text first: core/bounded.py"


def test_parts_are_whole_lines() -> None:
    text = "".join(f"line {number}\n" for number in range(1_000))
    for at in (0, 5, 4_000, len(text) - 1, len(text)):
        begin, part = near(text, at, 100)
        assert text[begin:].startswith(part)
        assert len(part) <= 200
        assert begin == 0 or text[begin - 1] == "\n"
        assert number_of_line(text, begin) == text[:begin].count("\n")
        assert text[begin:at] in part
    assert near("short\ntext", 3) == (0, "short\ntext")
    assert near("x" * 500, 250, 100)[1] in {"", "x" * 100}


def test_a_line_above() -> None:
    text = "a\nb\n\nc\n"
    assert [line_above(text, len(text) - 1, lines) for lines in range(5)] == [5, 4, 2, 0, 0]
    assert line_above("", 0, 3) == 0
