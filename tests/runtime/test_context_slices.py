"""A search for context is work in small parts, whatever lies in a workspace, and several of them may be under way."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fastcoder_lsp.core import Pieces, Snapshot, at_once
from fastcoder_lsp.index import terms
from fastcoder_lsp.prompt import PromptContext
from fastcoder_lsp.runtime.context import RepositoryContext
from tests.runtime.context_folder import finder, main

SIZE = 90_000
LINES: dict[str, Callable[[int], str]] = {
    "names": lambda at: " ".join(f"store_{at}_{number}Put" for number in range(8)),
    "long": lambda at: f"store.put({at}) " * 300,
    "short": lambda _: "xy",
    "empty": lambda _: "",
    "secret": lambda at: f'api_key = "x{at}store"',
}
"""Lines of files that take long to read, by their number."""


def hostile(root: Path, kind: str, size: int = SIZE) -> None:
    made, line = list[str](), LINES[kind]
    while sum(map(len, made)) + len(made) < size:
        made += [line(len(made) + number) for number in range(500)]
    for number in range(10):
        text = "\n".join(made)[:size]
        (root / f"src/app/hostile_{number}.py").write_text(f"store = Store({number})\n{text}\n")


def search(context: RepositoryContext, here: Snapshot) -> Pieces[PromptContext]:
    return context.find(here, len(here.text), (0, len(here.text)))


@pytest.mark.parametrize("kind", LINES)
def test_a_part_of_a_search_is_small(root: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Between two yields the words of few characters are numbered, which takes most of the time."""
    hostile(root, kind)
    opened = {path: path.read_text() for path in sorted(root.glob("src/app/hostile_*.py"))[:2]}
    context, numbered = finder(root, opened), [0]
    at_once(search(context, main(root)))
    context._opened.clear()
    usual = terms.Terms.of_lines

    def counting(self: terms.Terms, text: str) -> terms.LineTerms:
        numbered[-1] += len(text)
        return usual(self, text)

    monkeypatch.setattr(terms.Terms, "of_lines", counting)
    numbered.extend(0 for _ in search(context, main(root)))
    assert sum(numbered) > SIZE
    assert max(numbered) <= 2 * terms._PIECE


@pytest.mark.parametrize("parts", range(2, 14))
@pytest.mark.parametrize(("kind", "sooner"), [("names", 0), ("short", 1)])
def test_what_two_searches_hold_lacks_no_word(root: Path, kind: str, sooner: int, parts: int) -> None:
    """The second begins while the first reads a file: it reads it too, or allows names that the first has no more."""
    hostile(root, kind, 40_000)
    context, here = finder(root), main(root)
    searches = [search(context, here), search(context, here)]
    for _ in range(parts):
        next(searches[0])
    next(searches[1])
    assert at_once(searches[sooner]).snippets
    assert at_once(searches[1 - sooner]).snippets
    words = context.words_at(root / "src")
    assert words is not None
    for _, file in words._held.values():
        assert file.lines.terms_W.tolist() == terms.Terms().of(file.text).tolist()
    assert words._characters == sum(len(file.text) for _, file in words._held.values())
