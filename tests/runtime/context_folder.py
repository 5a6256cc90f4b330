"""A workspace of a few modules, and the context of its folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Definition, Snapshot, at_once
from fastcoder_lsp.prompt import ContextSnippet
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.rules import ReadingRules

STORE = "class Store:\n    def put(self, key: str) -> None:\n        write(key)\n"
USE = "from app.store import Store\n\nstore = Store()\nstore."


def make_root(tmp_path: Path) -> Path:
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
    folder = ReadableFolder(root, ReadingRules((root,), Settings()))
    return RepositoryContext(lambda path: folder if path.is_relative_to(root) else None, lambda: opened or {}, 60.0)


def found_at(context: RepositoryContext, snapshot: Snapshot, offset: int) -> tuple[ContextSnippet, ...]:
    """The snippets for a cursor, where the window holds the lines around it."""
    return at_once(context.find(snapshot, offset, (max(0, offset - 200), offset + 100))).snippets


def main(root: Path, text: str = USE) -> Snapshot:
    path = root / "src/app/main.py"
    return Snapshot(path.as_uri(), str(path), "python", 0, text)


def edited(path: Path, context: RepositoryContext, secret: str) -> None:
    """Somebody typed `secret` into the document at `path`."""
    before = "".join(f"line_{number} = {number}\n" for number in range(60))
    for version, text in enumerate((before, before.replace("line_30 = 30", secret))):
        context.observe(Snapshot(path.as_uri(), str(path), language_of(path), version, text))


def shown(context: RepositoryContext, root: Path) -> str:
    return "\n".join(snippet.text for snippet in found_at(context, main(root), len(USE)))


def defined(root: Path, *places: tuple[str, int, str], text: str = USE) -> Snapshot:
    """The document, with definitions that a client told of: (path, line, name)."""
    told = tuple(Definition(name, str(root / path), line) for path, line, name in places)
    return replace(main(root, text), definitions=told)
