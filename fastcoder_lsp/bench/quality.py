"""`fastcoder-lsp bench quality`: what each choice in asking the model does to its answers, with standard errors.

Asks the same tasks in several ways (`bench/arms.py`) on several engines and compares them pairwise. Answers are kept,
so a run that was stopped goes on where it ended, and arms can be added later.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from rich.progress import Progress

from fastcoder_lsp import engine as engines
from fastcoder_lsp import model as models
from fastcoder_lsp.bench import infilling, repoeval, report
from fastcoder_lsp.bench.answers import Answers, key
from fastcoder_lsp.bench.arms import ARMS, Arm, Question, prompt_of
from fastcoder_lsp.bench.data import require
from fastcoder_lsp.bench.scores import Mean, edit_similarity, paired
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.core import Engine
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.draft.suffix import SuffixDrafter
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.postprocess import finish
from fastcoder_lsp.prompt import Prompt, allowed
from fastcoder_lsp.tokenizer import Tokenizer

LINE_TOKENS = 64
BODY_TOKENS = 256
OUTSIDE = "llama.cpp"
"""The name of answers that came from another program (--import)."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Questions of one kind with their answers: `body` for whole functions, else the rest of a line."""

    name: str
    questions: tuple[Question, ...]
    expected: Mapping[str, str]
    body: bool


def add_parser(benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the benchmark."""
    parser = benchmarks.add_parser(
        "quality",
        help="exact match and edit similarity of each way of asking, compared pairwise",
        description="Ask infilling and repository tasks in several ways and compare the answers pairwise, with "
        "standard errors. Answers are kept in --answers: a stopped run goes on where it ended.",
        epilog="Example: fastcoder-lsp bench quality --suites boundary,word --arms plain,anchored --limit 100",
    )
    parser.add_argument("--tasks", type=Path, metavar="DIR", help="folder with humaneval_infilling/ and repoeval/")
    parser.add_argument("--suites", default="start,boundary,word,repoeval", help="of start, boundary, word, repoeval")
    parser.add_argument("--arms", default="plain,anchored", help=f"of {', '.join(ARMS)}")
    parser.add_argument("--engines", default="auto", help="kinds of engine, as the setting `engine`")
    parser.add_argument("--model", default="auto", help="as the setting `model`")
    parser.add_argument("--limit", type=int, metavar="N", help="take N tasks of each suite, evenly spread")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="where answers are kept (default: in the cache)")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the first arm's prompts, and do no more")
    parser.add_argument(
        "--import", dest="outside", type=Path, metavar="FILE", help="answers of another program to these"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results to FILE")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the benchmark."""
    files = models.find(arguments.model, cache_folder())
    tokenizer = Tokenizer.load(files.folder)
    arms = [ARMS[name] for name in arguments.arms.split(",")]
    suites = list(_suites(arguments))
    if arguments.export:
        _export(arguments.export, suites, arms[0], tokenizer)
        return 0
    answers = Answers(arguments.answers or cache_folder() / "bench" / "quality.jsonl")
    given: dict[str, dict[str, dict[str, str]]] = {suite.name: {} for suite in suites}
    for kind in arguments.engines.split(","):
        asked = _Asked(files, tokenizer, kind, answers)
        for suite in suites:
            for arm in arms:
                given[suite.name][f"{arm.name} {kind}"] = asked.ask(suite, arm)
        asked.close()
    if arguments.outside:
        _import(arguments.outside, given)
    results = {suite.name: evaluate(suite, given[suite.name]) for suite in suites}
    _print(results)
    if arguments.json:
        settings = {name: str(value) for name, value in vars(arguments).items() if name != "run"}
        report.write_json(arguments.json, "quality", settings, {"model": files.source, "suites": results})
    return 0


def _suites(arguments: argparse.Namespace) -> Iterator[Suite]:
    for name in arguments.suites.split(","):
        if name == "repoeval":
            yield _repoeval(arguments.tasks / name if arguments.tasks else require(name), arguments.limit)
        else:
            folder = "humaneval_infilling"
            cases = infilling.load(arguments.tasks / folder if arguments.tasks else require(folder), name)
            kept = [
                cases[i * len(cases) // count]
                for count in [min(arguments.limit or len(cases), len(cases))]
                for i in range(count)
            ]
            questions = tuple(Question(case.id, case.before, case.after) for case in kept)
            yield Suite(name, questions, {case.id: case.expected for case in kept}, body=False)


def _repoeval(folder: Path, limit: int | None) -> Suite:
    """The bodies of functions; the target's body is in no other file's text and cut out of its own."""
    tasks = repoeval.load(folder)
    questions, expected = [], {}
    for task in repoeval.spread(tasks.tasks, limit):
        text = tasks.files[task.repo][task.path]
        others = {path: other for path, other in tasks.files[task.repo].items() if path != task.path}
        questions.append(Question(task.id, text[: task.start], text[task.end :], task.path, others))
        expected[task.id] = text[task.start : task.end]
    return Suite("repoeval", tuple(questions), expected, body=True)


class _Asked:
    """One engine, loaded when the first answer is not known yet."""

    def __init__(self, files: ModelFiles, tokenizer: Tokenizer, kind: str, answers: Answers) -> None:
        self._files, self._tokenizer, self._kind, self._answers = files, tokenizer, kind, answers
        self._engine: Engine | None = None

    def ask(self, suite: Suite, arm: Arm) -> dict[str, str]:
        """task → what the model said."""
        said = {}
        with Progress(transient=True, disable=not sys.stdout.isatty()) as progress:
            bar = progress.add_task(f"{suite.name} {arm.name} {self._kind}", total=len(suite.questions))
            for question in suite.questions:
                prompt = prompt_of(arm, self._tokenizer, question)
                name = key(f"{self._files.digest} {self._kind}", prompt, "body" if suite.body else "line")
                known = self._answers.get(name)
                if known is None:
                    known = self._decode(prompt, body=suite.body)
                    self._answers.put(name, known)
                said[question.id] = known
                progress.advance(bar)
        return said

    def close(self) -> None:
        """Give the engine's memory back."""
        if self._engine is not None:
            self._engine.close()

    def _decode(self, prompt: Prompt, *, body: bool) -> str:
        engine = self._engine = self._engine or self._load()
        request = DecodeRequest(
            prompt=prompt.tokens,
            max_tokens=BODY_TOKENS if body else LINE_TOKENS,
            end_ids=self._tokenizer.end_ids,
            piece=self._tokenizer.piece,
            allow=lambda remaining: allowed(self._tokenizer, remaining),
            cut=repoeval.function_end if body else _line_end,
            healing=prompt.healing,
        )
        # Drafts change the speed only: they shorten the long answers.
        return decode(engine, SuffixDrafter() if body else NoDrafter(), request, lambda: False).text

    def _load(self) -> Engine:
        return engines.load(
            self._files.folder,
            name=self._files.name,
            source=self._files.source,
            digest=self._files.digest,
            options=engines.EngineOptions(kind=self._kind, context=2560),  # type: ignore[arg-type] # checked there
            cache=cache_folder(),
            progress=lambda _share, _what: None,
        )


def _line_end(text: str) -> int | None:
    end = text.find("\n")
    return end if end >= 0 else None


def evaluate(suite: Suite, given: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Each column's means, and the differences of each pair of columns over the tasks that both have."""
    questions = {question.id: question for question in suite.questions}
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for column, texts in given.items():
        exact, shown, similar = {}, {}, {}
        for task, text in texts.items():
            wanted, question = suite.expected[task], questions[task]
            exact[task] = float(text.strip() == wanted.strip() if suite.body else text.rstrip() == wanted)
            similar[task] = edit_similarity(text.strip(), wanted.strip())
            if not suite.body:
                shown[task] = float(finish(text, question.before, question.after, "python").rstrip() == wanted)
        scores[column] = {"exact": exact, "edit_similarity": similar} | ({"shown_exact": shown} if shown else {})
    return {
        "arms": {
            column: {measure: Mean.of(list(values.values())).to_json() for measure, values in measures.items()}
            for column, measures in scores.items()
        },
        "pairs": [
            {"left": left, "right": right, "measure": measure, **difference.to_json()}
            for left, right in combinations(scores, 2)
            for measure in scores[left]
            if (difference := paired(scores[left][measure], scores[right][measure])) is not None
        ],
    }


def _print(results: Mapping[str, Any]) -> None:
    rows = [
        [f"{suite} {column}", measure, score["tasks"], 100 * score["mean"], 100 * score["standard_error"]]
        for suite, result in results.items()
        for column, measures in result["arms"].items()
        for measure, score in measures.items()
    ]
    report.print_table("Quality, percent", ["suite, arm, engine", "measure", "tasks", "mean", "s.e."], rows)
    pairs = [
        [f"{suite} {pair['left']} → {pair['right']}", pair["measure"], 100 * pair["mean"], 100 * pair["standard_error"]]
        for suite, result in results.items()
        for pair in result["pairs"]
    ]
    if pairs:
        report.print_table("Differences, points", ["pair", "measure", "difference", "s.e."], pairs)


def _export(path: Path, suites: list[Suite], arm: Arm, tokenizer: Tokenizer) -> None:
    """Prompts for another program: a line each with suite, id, tokens, ends and max_tokens.

    Prompts with healing are left out: the other program cannot be held to it.
    """
    with path.open("w", encoding="utf-8") as file:
        for suite in suites:
            for question in suite.questions:
                prompt = prompt_of(arm, tokenizer, question)
                if prompt.healing or suite.body:
                    continue
                row = {"suite": suite.name, "id": question.id, "tokens": prompt.tokens, "max_tokens": LINE_TOKENS}
                file.write(json.dumps(row | {"ends": sorted(tokenizer.end_ids)}) + "\n")


def _import(path: Path, given: dict[str, dict[str, dict[str, str]]]) -> None:
    """Take in what another program said: lines with suite, id and text."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["suite"] in given:
            given[row["suite"]].setdefault(OUTSIDE, {})[row["id"]] = row["text"].partition("\n")[0]
