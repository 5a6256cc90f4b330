"""Tasks in the form of RepoEval: a repository, a file, and the body of a function to be written.

Owns reading them, the prompt, and where a written body ends. The target's body is in no prompt and in no index that is
made from here (`files_without_body`).
"""

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.tokenizer import Tokenizer

PROMPT_TOKENS = 1400
"""The prompt is the file up to the body, its last tokens if there are more."""


@dataclass(frozen=True, slots=True)
class FunctionTask:
    """One function body to write: characters start…end of `path` in `repo`."""

    id: str
    repo: str
    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TaskSet:
    """`tasks` in their order; `files`: repository → path → text."""

    tasks: tuple[FunctionTask, ...]
    files: Mapping[str, Mapping[str, str]]

    def before(self, task: FunctionTask) -> str:
        return self.files[task.repo][task.path][: task.start]

    def body(self, task: FunctionTask) -> str:
        return self.files[task.repo][task.path][task.start : task.end]

    def without_body(self, task: FunctionTask) -> str:
        """The task's file as an index may hold it: the body taken out."""
        text = self.files[task.repo][task.path]
        return f"{text[: task.start]}\n{text[task.end :]}"


def load(folder: Path) -> TaskSet:
    """Read `tasks.jsonl` and the Python files of `repos.tar.gz`.

    Raises:
        UsageError: the folder does not hold them.
    """
    try:
        lines = (folder / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
        packed = (folder / "repos.tar.gz").read_bytes()
    except OSError as failure:
        raise UsageError(
            f"{folder} holds no tasks: {failure}", "Name a folder with tasks.jsonl and repos.tar.gz."
        ) from failure
    rows = [json.loads(line) for line in lines if line.strip()]
    tasks = [FunctionTask(row["id"], row["repo"], row["path"], row["start"], row["end"]) for row in rows]
    files: dict[str, dict[str, str]] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            repo, _, path = member.name.removeprefix("./").partition("/")
            content = archive.extractfile(member) if member.isfile() and path.endswith(".py") else None
            if content is not None:
                files.setdefault(repo, {})[path] = content.read().decode("utf-8", errors="replace")
    return TaskSet(tuple(tasks), files)


def prompt(tokenizer: Tokenizer, before: str) -> tuple[int, ...]:
    """The prompt of a task: plain text before the body, the last `PROMPT_TOKENS` of it."""
    return (*tokenizer.start_ids, *tokenizer.encode(before)[-PROMPT_TOKENS:])


def function_end(text: str) -> int | None:
    """Where a written body ends: at the first line that stands further left than its first line; None: not yet."""
    indent, offset = -1, 0
    for line in text.split("\n"):
        code = line.lstrip()
        if code:
            depth = len(line) - len(code)
            if indent < 0:
                indent = depth
            elif depth < indent:
                return offset
        offset += len(line) + 1
    return None
