"""The data that benchmarks read: RepoEval's functions, whole repositories, lines to infill.

The environment variable FASTCODER_DATA names its folder; `scripts/fetch_data.py` fetches the public sources. A target's
body is in no prompt and in no index that is made from here.
"""

import gzip
import io
import json
import os
import random
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.tokenizer import Tokenizer

Item = TypeVar("Item")


def data_folder() -> Path | None:
    """The folder of benchmark cases: FASTCODER_DATA, else `../shared/data` beside a checkout; None where absent."""
    named = os.environ.get("FASTCODER_DATA")
    folder = Path(named).expanduser() if named else Path(__file__).parents[3] / "shared" / "data"
    return folder if folder.is_dir() else None


def require(name: str) -> Path:
    """The folder `name` of the benchmark data; raises UsageError where it is not on this machine."""
    folder = data_folder()
    if folder is None or not (folder / name).exists():
        raise UsageError(
            f"the benchmark data '{name}' is not on this machine",
            "Run scripts/fetch_data.py, or name the folder that holds it: FASTCODER_DATA=FOLDER",
        )
    return folder / name


def spread(items: Sequence[Item], limit: int | None) -> tuple[Item, ...]:
    """`limit` items evenly spread over all, in their order; all of them without a limit."""
    if limit is None or limit >= len(items):
        return tuple(items)
    return tuple(items[number * len(items) // limit] for number in range(limit))


PROMPT_TOKENS = 1400
"""The prompt of a function's body is the file up to it, its last tokens if there are more."""


@dataclass(frozen=True, slots=True)
class FunctionTask:
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

    def without_body(self, task: FunctionTask) -> str:
        text = self.files[task.repo][task.path]
        return f"{text[: task.start]}\n{text[task.end :]}"


def load_functions(folder: Path) -> TaskSet:
    """Read `tasks.jsonl` and the Python files of `repos.tar.gz`; raises UsageError where they are not there."""
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


def body_prompt(tokenizer: Tokenizer, before: str) -> tuple[int, ...]:
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


@dataclass(frozen=True, slots=True)
class Repository:
    """`files`: path from the repository's folder → text with line feeds."""

    name: str
    files: Mapping[str, str]


SPLITS = ("development", "held-out")
"""Repositories that something may be fitted on, and those kept aside."""
_DEVELOPMENT = ("zod-", "msw-", "scrapy-")
"""Packages that belong to the development repositories, beside RepoEval's."""
_SUFFIXES = frozenset((".py", ".ts", ".tsx", ".rs"))
_LARGEST = 300_000


def load_repositories(folder: Path, split: str) -> Iterator[Repository]:
    """The repositories of a split, by name: RepoEval's and those in the folder `repositories`.

    Raises:
        UsageError: there is no such split, or none of its repositories is in the folder.
    """
    if split not in SPLITS:
        raise UsageError(f"there is no split '{split}'", f"Take one of {', '.join(SPLITS)}.")
    found = False
    if split == "development" and (folder / "repoeval").is_dir():
        for name, files in sorted(load_functions(folder / "repoeval").files.items()):
            found = True
            yield Repository(name, {path: _line_feeds(text) for path, text in sorted(files.items())})
    packages = folder / "repositories"
    for place in sorted(packages.iterdir()) if packages.is_dir() else ():
        if place.is_dir() and place.name.startswith(_DEVELOPMENT) == (split == "development"):
            found = True
            yield Repository(place.name, dict(_read(place)))
    if not found:
        raise UsageError(
            f"there are no {split} repositories in {folder}",
            "Run scripts/fetch_repositories.py, or name the folder that holds them: FASTCODER_DATA=FOLDER",
        )


def _read(place: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(place.rglob("*")):
        if path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size <= _LARGEST:
            yield path.relative_to(place).as_posix(), _line_feeds(path.read_text(encoding="utf-8", errors="replace"))


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


Cut = Literal["start", "boundary", "word"]
"""The cursor: where the line begins, between two words of it, or inside a word."""
CUTS: tuple[Cut, ...] = ("start", "boundary", "word")
INFILLING = "HumanEval-SingleLineInfilling.jsonl.gz"


@dataclass(frozen=True, slots=True)
class LineToInfill:
    """A cursor between `before` and `after`, which begins with the line's end; `expected`: the rest of the line."""

    id: str
    before: str
    after: str
    expected: str


def infilling_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of HumanEval's single lines; raises UsageError where they are not in the folder."""
    try:
        packed = (folder / INFILLING).read_bytes()
    except OSError as failure:
        raise UsageError(f"{folder} holds no {INFILLING}: {failure}", "Name the folder that holds it.") from failure
    return [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()]


def load_lines(folder: Path, cut: Cut) -> tuple[LineToInfill, ...]:
    """The lines cut as asked, the same way in every run; those without such a place are left out."""
    cases = []
    for row in infilling_rows(folder):
        line = row["canonical_solution"].removesuffix("\n")
        at = _place(line, cut, random.Random(row["task_id"]))  # noqa: S311 - a reproducible draw, no secret
        if at is not None:
            before, after = row["prompt"] + line[:at], "\n" + row["suffix"]
            cases.append(LineToInfill(row["task_id"], before, after, line[at:].rstrip()))
    return tuple(cases)


def _place(line: str, cut: Cut, draw: random.Random) -> int | None:
    if cut == "start":
        return 0
    inside = range(len(line) - len(line.lstrip()) + 1, len(line.rstrip()))
    words = re.compile(r"(?<=\w)(?=\w)" if cut == "word" else r"(?<=\w)(?!\w)|(?<!\w)(?=\w)")
    places = [match.start() for match in words.finditer(line) if match.start() in inside]
    return draw.choice(places) if places else None
