"""The data that benchmarks read: RepoEval's functions, whole repositories, lines to infill, cases of next edits.

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

from fastcoder_lsp.core import Change
from fastcoder_lsp.edits.values import Edit
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
    """Read `tasks.jsonl` and the code of `repos.tar.gz`; raises UsageError where they are not there."""
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
            content = archive.extractfile(member) if member.isfile() and Path(path).suffix in _SUFFIXES else None
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
            "Run scripts/fetch_data.py --repositories FOLDER, then name that folder: FASTCODER_DATA=FOLDER",
        )


def _read(place: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(place.rglob("*")):
        if path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size <= _LARGEST:
            yield path.relative_to(place).as_posix(), _line_feeds(path.read_text(encoding="utf-8", errors="replace"))


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


Cut = Literal["start", "boundary", "word"]
"""The cursor: where the line begins, between two words of it, or inside a word."""
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


def humaneval_prompts(folder: Path) -> dict[str, str]:
    """HumanEval's 164 prompts by problem: the text before the first line of each solution that the suite has."""
    prompts = dict[str, str]()
    for row in infilling_rows(folder):
        prompts.setdefault(row["task_id"].rpartition("/")[0].partition("/")[2], row["prompt"])
    return prompts


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


EDIT_CASES = "cases.jsonl"
"""Next edits with recorded answers of published models: cursortab.nvim's evaluation, MIT."""
_ENDS = ("start", "end")


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """A prompt and its answer: text, or from a service `edits` of the case's text; `finish`: why it ended."""

    prompt: str
    output: str
    edits: tuple[Edit, ...] = ()
    finish: str = "stop"

    @property
    def complete(self) -> bool:
        return self.finish != "length"


@dataclass(frozen=True, slots=True)
class EditCase:
    """A place where a next edit is asked for.

    Attributes:
        text, offset: the document and the cursor.
        history: the earlier changes; those of other texts have line 0.
        modified: whether the user has changed the document.
        steps: `request`, `request manual` and `accept`.
        after: the wanted text; None where no edit is wanted.
        answers: model → its answers, the first request's first.
    """

    id: str
    language: str
    path: str
    text: str
    offset: int
    history: tuple[Change, ...]
    modified: bool
    steps: tuple[str, ...]
    after: str | None
    answers: Mapping[str, Sequence[RecordedAnswer]]


@dataclass(frozen=True, slots=True)
class PublishedScore:
    """A model's figures over all published cases, all in percent."""

    shown: float
    quiet: float
    delta_chrf: float


PUBLISHED = {
    "zeta-2": PublishedScore(88, 96, 61.5),
    "mercuryapi": PublishedScore(100, 80.8, 64.4),
    "sweep-next-edit-7B": PublishedScore(64, 40, 45.2),
    "sweep-next-edit-1.5B": PublishedScore(68, 36, 41.9),
    "sweep-next-edit-0.5B": PublishedScore(52, 40, 23.0),
    "sweepapi": PublishedScore(32, 100, 16.4),
    "copilot": PublishedScore(40, 100, 22.3),
    "qwen3.5-27B": PublishedScore(76, 68, 32.2),
    "qwen3.5-4B": PublishedScore(76, 60, 27.1),
    "qwen3.5-2B": PublishedScore(84, 44, 29.4),
    "qwen3.5-0.8B": PublishedScore(84, 44, 31.4),
}
"""cursortab.nvim's `server/eval/baseline.json`, over its 25 quality and 25 quiet cases."""


def load_edit_cases(path: Path) -> tuple[EditCase, ...]:
    """The cases of a file; raises UsageError where it is not there, or holds none."""
    try:
        return tuple(_case(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{path} holds no cases of next edits: {error}", "Its README describes the form.") from error


def _case(row: Mapping[str, Any]) -> EditCase:
    text = row["before"]
    answers: dict[str, list[RecordedAnswer]] = {}
    for output in sorted(row["outputs"], key=lambda output: int(output["interaction"])):
        answers.setdefault(output["model"], []).append(_answer(output, text))
    return EditCase(
        id=row["id"],
        language=row["language"],
        path=row["path"],
        text=text,
        offset=_offset(text, row["cursor"]["line"], row["cursor"]["col"]),
        history=tuple(_change(change, text) for change in row["history"]),
        modified=row["modified"],
        steps=tuple(row["steps"]),
        after=row["after"] if row["should_show"] else None,
        answers=answers,
    )


def _offset(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    return sum(map(len, lines[:line])) + line + min(column, len(lines[line]))


def _change(row: Mapping[str, str], text: str) -> Change:
    place = f"\n{text}\n".find(f"\n{row['new']}\n")
    line = text.count("\n", 0, place) if place >= 0 else 0
    old, new = (f"{side}\n" if side else "" for side in (row["old"], row["new"]))
    return Change(row["path"], line, old, new)


def _answer(row: Mapping[str, Any], text: str) -> RecordedAnswer:
    edits = tuple(edit for edit in (_edit(edit, text) for edit in row.get("edits") or ()) if edit is not None)
    return RecordedAnswer(row["prompt"] or "", row.get("output") or "", edits, row.get("finish") or "")


def _edit(row: Mapping[str, Any], text: str) -> Edit | None:
    """A service's edit: a range as in LSP, or offsets; None where it changes nothing."""
    if "range" in row:
        start, end = (_offset(text, place["line"], place["character"]) for place in (row["range"][e] for e in _ENDS))
        return Edit(start, end, row["text"])
    edit = Edit(row["start_index"], row["end_index"], row["completion"])
    return edit if text[edit.start : edit.end] != edit.text else None
