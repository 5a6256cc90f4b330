"""The questions: infilling and repository tasks, in suites of one kind each."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.datasets import infilling, repoeval, repositories
from benchmarks.datasets.folder import require
from benchmarks.datasets.repositories import Repository
from benchmarks.datasets.spread import spread
from benchmarks.quality.arms import Question
from benchmarks.quality.lines import line_cases
from benchmarks.quality.repository_words import RepositoryWords

LINES = ("api", "lines")
"""Suites of single lines of whole repositories."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Questions of one kind with their answers: `body` for whole functions, else the rest of a line.

    `by_file`: errors are clustered, for there are several questions of a file.
    """

    name: str
    questions: tuple[Question, ...]
    expected: Mapping[str, str]
    body: bool
    by_file: bool = False


def suites_of(arguments: argparse.Namespace) -> Iterator[Suite]:
    """The suites that the options say, cut down to their limit.

    Raises:
        UsageError: a suite's data is not on this machine.
    """
    for name in arguments.suites.split(","):
        if name == "repoeval":
            yield _repoeval(arguments.tasks / name if arguments.tasks else require(name), arguments.limit)
        elif name in LINES:
            folder = arguments.tasks or require("")
            yield _lines(name, list(repositories.load(folder, arguments.split)), arguments.limit)
        else:
            infill = "humaneval_infilling"
            cases = infilling.load(arguments.tasks / infill if arguments.tasks else require(infill), name)
            kept = spread(cases, arguments.limit or None)
            questions = tuple(Question(case.id, case.before, case.after) for case in kept)
            yield Suite(name, questions, {case.id: case.expected for case in kept}, body=False)


def _lines(name: str, around: Sequence[Repository], limit: int | None) -> Suite:
    """Single lines, as many of each repository as may be."""
    each = -(-limit // len(around)) if limit is not None else None
    cases = [case for one in around for case in spread(line_cases(one, api=name == "api"), each)]
    kept = spread(cases, limit)
    expected = {case.question.id: case.expected for case in kept}
    return Suite(name, tuple(case.question for case in kept), expected, body=False, by_file=True)


def _repoeval(folder: Path, limit: int | None) -> Suite:
    """The bodies of functions; the target's body is in no other file's text and cut out of its own."""
    tasks = repoeval.load(folder)
    questions, expected = [], {}
    around = {name: RepositoryWords(name, files) for name, files in tasks.files.items()}
    for task in spread(tasks.tasks, limit):
        text = tasks.files[task.repo][task.path]
        questions.append(Question(task.id, text[: task.start], text[task.end :], task.path, around[task.repo]))
        expected[task.id] = text[task.start : task.end]
    return Suite("repoeval", tuple(questions), expected, body=True)
