"""What would go along with a prompt, without a model: how many of the names that a line calls are shown.

`python -m benchmarks.quality.called_names --tasks FOLDER`. The *api* lines of the development repositories,
what fits into 2,000 characters, paired against the pieces by words alone; beside it the same where the window's own
names count as shown. The editor's other servers are played by the repository's own definitions: of the names near the
cursor, those that one or two files of the language define.
"""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from statistics import fmean
from typing import Final, TypeAlias

from benchmarks.datasets import repositories
from benchmarks.datasets.folder import require
from benchmarks.datasets.spread import spread
from benchmarks.quality.arms import Question
from benchmarks.quality.lines import LineCase, definition_lines, file_of, line_cases
from benchmarks.quality.repository_words import RepositoryWords
from benchmarks.quality.scores import clustered_error
from fastcoder_lsp.bench import report
from fastcoder_lsp.core import Definition, Snapshot
from fastcoder_lsp.prompt.context import ContextSnippet
from fastcoder_lsp.prompt.counterparts import counterpart_of, outline
from fastcoder_lsp.prompt.definitions import heads
from fastcoder_lsp.prompt.retrieval import question_at, retrieve

ROOM: Final = 2_000
"""Characters of what goes along."""
ABOVE, BELOW = 2_800, 1_100
"""Characters of the window."""
NEAR_ABOVE, NEAR_BELOW, NEAR = 6, 2, 8
"""Lines around the cursor, and names in them, that a client asks for."""
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
Snippets: TypeAlias = tuple[ContextSnippet, ...]
Way: TypeAlias = Callable[[LineCase], Snippets]


def main() -> int:
    """Print the shares of names, and the likeness of the most alike line, by way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, metavar="DIR", help="folder with the repositories")
    parser.add_argument("--split", default="development", choices=repositories.SPLITS)
    parser.add_argument("--limit", type=int, default=60, metavar="N", help="lines of each repository")
    arguments = parser.parse_args()
    around = list(repositories.load(arguments.tasks or require(""), arguments.split))
    cases = [case for one in around for case in spread(line_cases(one, api=True), arguments.limit)]
    _print("All lines", cases, {"words": by_words, "and definitions": with_definitions})
    young = [case for case in map(_begun, cases) if _counterpart(case.question)]
    _print("An empty document that has tests, or is one", young, {"words": by_words, "its counterpart": of_counterpart})
    return 0


def by_words(case: LineCase) -> Snippets:
    """Pieces that are like the code at the cursor."""
    return _retrieved(case.question)


def with_definitions(case: LineCase) -> Snippets:
    """These, and heads of definitions of names near the cursor."""
    question, pieces = case.question, _retrieved(case.question)
    around = _around(question)
    ask = question_at(question.before + question.after, len(question.before), around.index, around.terms)
    return (*pieces, *heads(ask, list(_defined(question)), pieces, around.words.get, around.terms))


def of_counterpart(case: LineCase) -> Snippets:
    """What the file tests, or what tests it."""
    other = _counterpart(case.question)
    return (*_retrieved(case.question), ContextSnippet(other, outline(_around(case.question).files[other]), 0.0, other))


def _retrieved(question: Question) -> Snippets:
    text, offset, around = question.before + question.after, len(question.before), _around(question)
    here = Snapshot("bench", question.path, question.language, 1, text)
    shown = max(offset - ABOVE, 0), min(offset + BELOW, len(text))
    ask = question_at(text, offset, around.index, around.terms)
    return retrieve(ask, here, offset, shown, around.index, around.terms, around.words.get)


def _defined(question: Question) -> Iterator[Definition]:
    """What the editor's other servers would say of the names near the cursor."""
    above = question.before.split("\n")[-NEAR_ABOVE - 1 :]
    below = question.after.split("\n")[1 : NEAR_BELOW + 1]
    near = dict.fromkeys(name for line in (*reversed(above), *below) for name in reversed(_NAME.findall(line)))
    known = definition_lines(_around(question).files, question.language)
    count = 0
    for name in near:
        places = known.get(name, [])
        files = {path for path, _ in places}
        if 1 <= len(files) <= 2 and question.path not in files and count < NEAR:
            count += 1
            yield Definition(name, *places[0])


def _print(title: str, cases: Sequence[LineCase], ways: Mapping[str, Way]) -> None:
    scores = {name: [_score(case, way(case)) for case in cases] for name, way in ways.items()}
    base = next(iter(scores.values()))
    files = [file_of(case.question.id) for case in cases]
    rows = []
    for name, got in scores.items():
        row: list[object] = [name, len(got)]
        for which in range(3):
            gained = [one[which] - other[which] for one, other in zip(got, base, strict=True)]
            row += [fmean(one[which] for one in got), fmean(gained), clustered_error(gained, files)]
        rows.append(row)
    head = [
        "shown",
        "lines",
        "names, %",
        "gained",
        "s.e.",
        "or window, %",
        "gained",
        "s.e.",
        "alike, %",
        "gained",
        "s.e.",
    ]
    report.print_table(title, head, rows)


def _score(case: LineCase, found: Snippets) -> tuple[float, float, float]:
    """Percent of the names that the line calls which are shown; or in the window; likeness of the most alike line."""
    text, room = "", ROOM
    for snippet in sorted(found, key=lambda one: -one.score):
        taken = len(snippet.text) + len(snippet.path) + 2
        if taken <= room:
            text, room = f"{text}\n{snippet.text}", room - taken
    held, wanted = set(_NAME.findall(text)), case.expected.strip()
    lines = {line.strip() for line in text.split("\n")} - {""}
    alike = max((SequenceMatcher(None, wanted, line, autojunk=False).ratio() for line in lines), default=0.0)
    window = set(_NAME.findall(f"{case.question.before[-ABOVE:]}\n{case.question.after[:BELOW]}"))
    shown, seen = (sum(name in names for name in case.names) / len(case.names) for names in (held, held | window))
    return 100 * shown, 100 * seen, 100 * alike


def _begun(case: LineCase) -> LineCase:
    return replace(case, question=replace(case.question, before="", after=""))


def _counterpart(question: Question) -> str:
    return counterpart_of(question.path, _around(question).files) or ""


def _around(question: Question) -> RepositoryWords:
    assert question.repository is not None
    return question.repository


if __name__ == "__main__":
    raise SystemExit(main())
