"""The import statements above a document's window, one line each, for the prompt.

They are found by the words that begin an import in each language. The text is the same at every place of a document, so
that an exchange of other pieces leaves it in place.
"""

import re
from collections.abc import Iterator

MAX_CHARACTERS = 700
"""Of all imports, some 200 tokens; the first ones are kept."""
MAX_LINES = 2_000
"""Of a document's beginning that are read."""
MAX_IMPORT_LINES = 40
"""Of one import."""
_BEGINNINGS = {
    "python": ("import ", "from "),
    "javascript": ("import ", "import{", "const ", "var "),
    "go": ("import ",),
    "rust": ("use ", "pub use ", "pub(crate) use ", "pub(super) use ", "extern crate "),
    "java": ("import ",),
    "kotlin": ("import ",),
    "scala": ("import ",),
    "swift": ("import ",),
    "csharp": ("using ",),
    "cpp": ("#include", "using ", "import "),
    "php": ("use ", "require", "include"),
    "ruby": ("require", "load "),
    "dart": ("import ",),
    "elixir": ("import ", "alias ", "use ", "require "),
    "haskell": ("import ",),
}
_LIKE = {
    "javascriptreact": "javascript",
    "typescript": "javascript",
    "typescriptreact": "javascript",
    "c": "cpp",
    "objective-c": "cpp",
    "cuda-cpp": "cpp",
}
_OPEN, _CLOSED = re.compile(r"[({]"), re.compile(r"[)}]")


def imports_above(text: str, end: int, language: str) -> str:
    """The import statements of `text[:end]`, one line each; empty for an unknown language."""
    kept, left = [], MAX_CHARACTERS
    for statement in _statements(text, end, _LIKE.get(language, language)):
        left -= len(statement) + 1
        if left < 0:
            break
        kept.append(statement)
    return "\n".join(kept)


def _statements(text: str, end: int, language: str) -> Iterator[str]:
    beginnings = _BEGINNINGS.get(language)
    if beginnings is None:
        return
    whole = text[: text.rfind("\n", 0, end) + 1]
    statement: list[str] = []
    depth = 0
    for line in whole.split("\n", MAX_LINES)[:MAX_LINES]:
        if not statement and not line.startswith(beginnings):
            continue
        statement.append(line.strip())
        depth += len(_OPEN.findall(line)) - len(_CLOSED.findall(line))
        if depth > 0 and len(statement) < MAX_IMPORT_LINES:
            continue
        if depth <= 0 and _imports(language, statement):
            yield " ".join(filter(None, statement))
        statement, depth = [], 0


def _imports(language: str, statement: list[str]) -> bool:
    """Whether a statement that begins like an import is one; JavaScript's constants begin the same way."""
    return language != "javascript" or statement[0].startswith("import") or "require(" in statement[-1]
