"""The questions: infilling and repository tasks, in suites of one kind each."""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.bench.datasets import infilling, repoeval
from fastcoder_lsp.bench.datasets.folder import require
from fastcoder_lsp.bench.datasets.spread import spread
from fastcoder_lsp.bench.quality.arms import Question


@dataclass(frozen=True, slots=True)
class Suite:
    """Questions of one kind with their answers: `body` for whole functions, else the rest of a line."""

    name: str
    questions: tuple[Question, ...]
    expected: Mapping[str, str]
    body: bool


def suites_of(arguments: argparse.Namespace) -> Iterator[Suite]:
    """The suites that the options say, cut down to their limit.

    Raises:
        UsageError: a suite's data is not on this machine.
    """
    for name in arguments.suites.split(","):
        if name == "repoeval":
            yield _repoeval(arguments.tasks / name if arguments.tasks else require(name), arguments.limit)
        else:
            folder = "humaneval_infilling"
            cases = infilling.load(arguments.tasks / folder if arguments.tasks else require(folder), name)
            kept = spread(cases, arguments.limit or None)
            questions = tuple(Question(case.id, case.before, case.after) for case in kept)
            yield Suite(name, questions, {case.id: case.expected for case in kept}, body=False)


def _repoeval(folder: Path, limit: int | None) -> Suite:
    """The bodies of functions; the target's body is in no other file's text and cut out of its own."""
    tasks = repoeval.load(folder)
    questions, expected = [], {}
    for task in spread(tasks.tasks, limit):
        text = tasks.files[task.repo][task.path]
        others = {path: other for path, other in tasks.files[task.repo].items() if path != task.path}
        questions.append(Question(task.id, text[: task.start], text[task.end :], task.path, others))
        expected[task.id] = text[task.start : task.end]
    return Suite("repoeval", tuple(questions), expected, body=True)
