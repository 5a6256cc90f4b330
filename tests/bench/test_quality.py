"""`bench quality`: its tasks, its arithmetic, and that a stopped run goes on where it ended."""

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.datasets import INFILLING, Repository, load_repositories
from benchmarks.quality import Suite, evaluate
from benchmarks.questions import (
    InfillQuestion,
    LineCase,
    arm,
    line_cases,
    prompt_of,
    recorded_cases,
)
from fastcoder_lsp.errors import UsageError
from tests.bench.keystroke.made_up import write_history
from tests.prompt.toy_tokenizers import of_family

ROWS = [
    {
        "task_id": f"t/{number}",
        "prompt": "def f(a):\n",
        "canonical_solution": f"    return a + {number}\n",
        "suffix": "x = 1\n",
    }
    for number in range(30)
]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / INFILLING).write_bytes(gzip.compress(lines.encode()))
    return tmp_path


def test_evaluation() -> None:
    """Exact by the rest of the line, shown by what the product would insert, pairs over shared tasks only."""
    suite = Suite(
        "start", (InfillQuestion("a", "x = ", "\n"), InfillQuestion("b", "f(", ")\n")), {"a": "1", "b": "2"}, body=False
    )
    result = evaluate(suite, {"left": {"a": "1", "b": "2)"}, "right": {"a": "0"}})
    assert result["arms"]["left"]["exact"]["mean"] == 0.5
    assert result["arms"]["left"]["shown_exact"]["mean"] == 1.0
    exact = next(pair for pair in result["pairs"] if pair["measure"] == "exact")
    assert (exact["mean"], exact["tasks"]) == (-1.0, 1)


LIB = "def open_store(path):\n    return path + '.store'\n\n\nclass Reader:\n    def read_rows(self):\n        pass\n"

MAIN = """import lib

# open_store(here)
def main(path):
    \"\"\"Calls open_store(path) in a text.\"\"\"
    store = lib.open_store(path)
    own_function(store, twice=True)
    rows = Reader(store).read_rows()
    return rows[0] or own_function(1)


def own_function(store, twice=False):
    return store.append(twice or 12)
"""

SCRIPT = """import { openStore } from "./lib";

export function main(path: string): Store {
  const store = openStore(path, 1);
  return store.something.else;
}
"""

FILES = {
    "lib.py": LIB,
    "main.py": MAIN,
    "src/lib.ts": "export function openStore(path: string): Store {\n  return new Store(path);\n}\n",
    "src/main.ts": SCRIPT,
    "README.md": "open_store(x)\n",
}


def said(files: dict[str, str], *, api: bool) -> list[str]:
    return [case.expected.strip() for case in line_cases(Repository("r", files), api=api)]


def test_copied_code_is_no_question() -> None:
    """A line below the same line as in another file would be an answer that stands in the prompt."""
    copied = FILES | {"other/main.py": MAIN.replace("def main", "def another").replace("own_function", "mine")}
    assert "rows = Reader(store).read_rows()" in said(copied, api=True)
    assert "store = lib.open_store(path)" not in said(copied, api=True)


def test_no_prompt_holds_the_line() -> None:
    case = line_cases(Repository("r", FILES), api=True)[1]
    tokenizer = of_family("Qwen2.5-Coder")
    prompt = tokenizer.decode(prompt_of(arm("words"), tokenizer, case.question).tokens)
    assert case.expected.strip() not in prompt
    assert "def read_rows" in prompt


def test_repositories_are_split(tmp_path: Path) -> None:
    for name in ("zod-1", "httpx-2"):
        (tmp_path / "repositories" / name).mkdir(parents=True)
        (tmp_path / "repositories" / name / "a.py").write_bytes(b"x = 1\r\n")
        (tmp_path / "repositories" / name / "b.rs").write_text("fn f() {}\n")
        (tmp_path / "repositories" / name / "a.txt").write_text("no code")
    (held_out,) = load_repositories(tmp_path, "held-out")
    assert (held_out.name, dict(held_out.files)) == ("httpx-2", {"a.py": "x = 1\n", "b.rs": "fn f() {}\n"})
    assert [one.name for one in load_repositories(tmp_path, "development")] == ["zod-1"]
    with pytest.raises(UsageError):
        list(load_repositories(tmp_path / "none", "held-out"))
    with pytest.raises(UsageError):
        list(load_repositories(tmp_path, "other"))


OLD = (
    "import os\n\n\ndef first(rows):\n    return open_store(rows)\n\n\ndef second(rows):\n    return open_store(rows)\n"
)


@pytest.fixture
def recorded(tmp_path: Path) -> list[LineCase]:
    """Two recorded changes of one kind, in two files."""
    line = "    return open_store(rows)\n"
    steps = [
        {"kind": "edit", "path": path, "offset": OLD.index(line), "delete": len(line), "typed": True}
        | {"text": f"    return make_store(os.{number})\n"}
        for number, path in enumerate(("a.py", "b.py"))
    ]
    write_history(tmp_path, "toy", {"a.py": OLD, "b.py": OLD}, steps)
    return list(recorded_cases(tmp_path, "toy"))


def test_recorded_lines_are_asked_as_they_were_typed(recorded: list[LineCase]) -> None:
    first, _ = recorded
    assert (first.question.id, first.expected) == ("toy/a.py:0.0", "    return make_store(os.0)")
    assert first.question.before + first.question.after == OLD.replace("    return open_store(rows)\n", "\n", 1)
