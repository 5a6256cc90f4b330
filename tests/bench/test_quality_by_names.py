"""Context: what of other files is offered to the model."""

from benchmarks.quality.by_names import definition, related
from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt import ContextSnippet

STORE = '''import os

LIMIT = 3


class Store:
    """Keeps things."""

    size: int = 0

    def put(self, key: str, value: bytes) -> None:
        path = os.path.join("x", key)
        write(path, value)

    def get(self, key: str) -> bytes:
        return read(key)


def open_store(path: str) -> Store:
    return Store()
'''
TYPESCRIPT = (
    "export interface User {\n  name: string;\n}\n\nexport function load(id: number): User {\n  return get(id);\n}\n"
)


def check(files: dict[str, str], path: str, language: str, text: str, expect: list[tuple[str, str]]) -> None:
    """At the end of `text` the snippets are of these files and hold these words, in this order."""
    snippets = related(Snapshot("u", path, language, 0, text), len(text), files)
    assert [snippet.path for snippet in snippets] == [name for name, _ in expect]
    for snippet, (_, word) in zip(snippets, expect, strict=True):
        assert word in snippet.text


def test_definitions_behind_imports() -> None:
    """What the file imports and names near the cursor: heads without bodies; absolute, relative, and in TypeScript."""
    files = {"app/store.py": STORE, "app/other.py": "def unused():\n    pass\n"}
    use = "store = open_store('x')\nstore."
    for imports in ("from app.store import open_store, LIMIT\n", "from .store import (\n    open_store,\n)\n"):
        check(files, "app/main.py", "python", imports + use, [("app/store.py", "def open_store(path: str) -> Store:")])
    check(
        {"src/lib/user.ts": TYPESCRIPT},
        "src/app/main.ts",
        "typescript",
        'import { load, User } from "../lib/user";\nconst user: User = load(',
        [("src/lib/user.ts", "function load(id: number): User"), ("src/lib/user.ts", "name: string")],
    )


def test_heads_of_definitions() -> None:
    """A class is shown by its fields and its methods' signatures; an unknown name by nothing."""
    head = definition(STORE, "Store")
    assert "size: int = 0" in head
    assert "def put(self, key: str, value: bytes) -> None:" in head
    assert "os.path.join" not in head
    assert definition(STORE, "Nothing") == ""


def test_similar_chunks() -> None:
    """The chunk that shares most names with the code at the cursor; nothing of a file that shares none."""
    text = (
        "def put_all(self, values):\n    for key, value in values:\n        path = os.path.join(x, key)\n        write("
    )
    check(
        {"a.py": STORE, "b.py": "print('hello world')\n" * 30},
        "main.py",
        "python",
        text,
        [("a.py", "write(path, value)")],
    )


def test_recent_places_are_merged_by_score() -> None:
    """Places edited lately come in with the score that the caller gave them."""
    recent = (ContextSnippet("c.py", "edited", 2.0),)
    snippets = related(Snapshot("u", "m.py", "python", 0, "x = 1"), 5, {}, recent)
    assert snippets == recent
