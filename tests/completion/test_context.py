"""Repository context: which files it looks at, and that it keeps to the reading rules."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.completion.context import ReadableFolder, RepositoryContext, first_difference
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.workspace.rules import ReadingRules

STORE = "class Store:\n    def put(self, key: str) -> None:\n        write(key)\n"
USE = "from app.store import Store\n\nstore = Store()\nstore."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace of a few modules."""
    for name, text in {
        "src/app/store.py": STORE,
        "src/app/main.py": USE,
        "src/app/other.py": "def unlike() -> int:\n    return 1\n",
        "src/app/.env": "Store=1\n",
        "src/app/hidden.py": STORE.replace("Store", "Hidden"),
        ".gitignore": "hidden.py\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def finder(root: Path, opened: Mapping[Path, str] | None = None) -> RepositoryContext:
    """The context of one folder."""
    folder = ReadableFolder(root, ReadingRules((root,), Settings()))
    return RepositoryContext(lambda path: folder if path.is_relative_to(root) else None, lambda: opened or {})


def main(root: Path, text: str = USE) -> Snapshot:
    """The document that is typed in."""
    path = root / "src/app/main.py"
    return Snapshot(path.as_uri(), str(path), "python", 0, text)


def test_what_is_imported_is_found_on_the_disk(root: Path) -> None:
    """A module below `src`, named by its path in the workspace; what shares no names stays away."""
    snippets = finder(root).find(main(root), len(USE))
    assert [snippet.path for snippet in snippets] == ["src/app/store.py"]
    assert "def put(self, key: str)" in snippets[0].text


def test_unsaved_text_wins(root: Path) -> None:
    """An open document is read as it stands in the editor."""
    opened = {root / "src/app/store.py": STORE.replace("put", "insert")}
    (snippet,) = finder(root, opened).find(main(root), len(USE))
    assert "def insert(" in snippet.text


def test_rules_hold(root: Path) -> None:
    """Ignored and secret files are not read, open or not; nor is anything for a document outside."""
    text = USE.replace("store", "hidden").replace("Store", "Hidden")
    hidden = root / "src/app/hidden.py"
    for opened in ({}, {hidden: hidden.read_text()}):
        assert finder(root, opened).find(main(root, text), len(text)) == ()
    outside = root.parent / "main.py"
    assert finder(root).find(Snapshot(outside.as_uri(), str(outside), "python", 0, USE), len(USE)) == ()


def test_places_edited_lately(root: Path) -> None:
    """An edit in one document is offered in another, not in its own."""
    context, other = finder(root), root / "src/app/other.py"
    text = "".join(f"line_{number} = {number}\n" for number in range(60))
    context.observe(Snapshot(other.as_uri(), str(other), "python", 0, text))
    edited = text.replace("line_30 = 30", "line_30 = compute(30)")
    context.observe(Snapshot(other.as_uri(), str(other), "python", 1, edited))
    found = context.find(main(root), len(USE))
    assert any("compute(30)" in snippet.text and "line_5 =" not in snippet.text for snippet in found)
    own = context.find(Snapshot(other.as_uri(), str(other), "python", 1, edited), 0)
    assert not any("compute(30)" in snippet.text for snippet in own)


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_first_difference(same: str, left: str, right: str) -> None:
    """Up to there two texts are equal, and there they are not."""
    at = first_difference(same + left, same + right)
    assert (same + left)[:at] == (same + right)[:at]
    assert at == min(len(same + left), len(same + right)) or (same + left)[at] != (same + right)[at]
