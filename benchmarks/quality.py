"""`bench quality`: the same tasks asked in several ways on several engines, and the answers compared pairwise.

Answers are kept, so a run that was stopped goes on where it ended, and arms can be added later.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, cast

from benchmarks.datasets import infilling, repoeval, repositories, require, spread
from benchmarks.datasets.repositories import Repository
from benchmarks.harness import Answers, Mean, Reported, decode_request, edit_similarity, key, line_end, paired, write
from benchmarks.questions import (
    ARMS,
    InfillQuestion,
    PromptVariant,
    RepositoryFiles,
    arm,
    file_of,
    line_cases,
    prompt_of,
)
from fastcoder_lsp.bench.model import BenchModel, find_model
from fastcoder_lsp.bench.report import print_table, shown
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.core import Engine
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.draft.suffix import SuffixDrafter
from fastcoder_lsp.postprocess import finish
from fastcoder_lsp.prompt import Prompt
from fastcoder_lsp.tokenizer import Tokenizer

EXAMPLE = "quality --suites boundary,word --arms plain,anchored --limit 100"
LINES = ("api", "lines")
"""Suites of single lines of whole repositories."""
OUTSIDE = "llama.cpp"
"""The name of answers that came from another program (--import)."""
LINE_TOKENS = 64
BODY_TOKENS = 256
CONTEXT = 2560


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Ask infilling and repository tasks in several ways and compare the answers pairwise, with standard errors.

    Answers are kept in --answers: a stopped run goes on where it ended.
    """

    tasks: Path | None = option("folder with the suites' data", None, metavar="DIR")
    suites: str = option("of start, boundary, word, repoeval, api, lines", "start,boundary,word,repoeval")
    split: Literal["held-out", "development"] = option(
        "repositories of api and lines: for fitting, or kept aside", "held-out"
    )
    arms: str = option(f"of {ARMS}", "plain,anchored")
    engines: str = option("kinds of engine, as the setting `engine`", "auto")
    model: str = option("as the setting `model`", "auto")
    limit: int | None = option("take N tasks of each suite, evenly spread", None, metavar="N")
    answers: Path | None = option("where answers are kept (default: in the cache)", None, metavar="FILE")
    export: Path | None = option("write the first arm's prompts, and do no more", None, metavar="FILE")
    outside: Path | None = option("answers of another program to these", None, flags=("--import",), metavar="FILE")


@dataclass(frozen=True, slots=True)
class Suite:
    """Questions of one kind with their answers: `body` for whole functions, else the rest of a line.

    `by_file`: errors are clustered, for there are several questions of a file.
    """

    name: str
    questions: tuple[InfillQuestion, ...]
    expected: Mapping[str, str]
    body: bool
    by_file: bool = False


def run(options: Options) -> int:
    """Run the benchmark."""
    model = find_model(options.model)
    arms = [arm(name) for name in options.arms.split(",")]
    suites = list(suites_of(options))
    if options.export:
        _export(options.export, suites, arms[0], model.tokenizer)
        return 0
    answers = Answers(options.answers or model.cache / "bench" / "quality.jsonl")
    given: dict[str, dict[str, dict[str, str]]] = {suite.name: {} for suite in suites}
    for kind in options.engines.split(","):
        asked = AskedModel(model, kind, answers)
        for suite in suites:
            for way in arms:
                given[suite.name][f"{way.name} {kind}"] = asked.ask(suite, way)
        asked.close()
    if options.outside:
        _import(options.outside, given)
    results = {suite.name: evaluate(suite, given[suite.name]) for suite in suites}
    _print(results)
    write(options, "quality", {"model": model.files.source, "suites": results})
    return 0


def _print(results: Mapping[str, Any]) -> None:
    rows = [
        [f"{suite} {column}", measure, score["tasks"], 100 * score["mean"], 100 * score["standard_error"]]
        for suite, result in results.items()
        for column, measures in result["arms"].items()
        for measure, score in measures.items()
    ]
    print_table("Quality, percent", ["suite, arm, engine", "measure", "tasks", "mean", "s.e."], rows)
    pairs = [
        [f"{suite} {pair['left']} → {pair['right']}", pair["measure"], 100 * pair["mean"], 100 * pair["standard_error"]]
        for suite, result in results.items()
        for pair in result["pairs"]
    ]
    if pairs:
        print_table("Differences, points", ["pair", "measure", "difference", "s.e."], pairs)


def _export(path: Path, suites: list[Suite], way: PromptVariant, tokenizer: Tokenizer) -> None:
    """Prompts for another program: a line each with suite, id, tokens, ends and max_tokens.

    Prompts with healing are left out: the other program cannot be held to it.
    """
    with path.open("w", encoding="utf-8") as file:
        for suite in suites:
            for question in suite.questions:
                prompt = prompt_of(way, tokenizer, question)
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


def suites_of(options: Options) -> Iterator[Suite]:
    """The suites that the options say, cut down to their limit.

    Raises:
        UsageError: a suite's data is not on this machine.
    """
    for name in options.suites.split(","):
        if name == "repoeval":
            yield _repoeval(options.tasks / name if options.tasks else require(name), options.limit)
        elif name in LINES:
            folder = options.tasks or require("")
            yield _lines(name, list(repositories.load(folder, options.split)), options.limit)
        else:
            infill = "humaneval_infilling"
            cases = infilling.load(
                options.tasks / infill if options.tasks else require(infill), cast("infilling.Cut", name)
            )
            kept = spread(cases, options.limit or None)
            questions = tuple(InfillQuestion(case.id, case.before, case.after) for case in kept)
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
    around = {name: RepositoryFiles(name, files) for name, files in tasks.files.items()}
    for task in spread(tasks.tasks, limit):
        text = tasks.files[task.repo][task.path]
        questions.append(InfillQuestion(task.id, text[: task.start], text[task.end :], task.path, around[task.repo]))
        expected[task.id] = text[task.start : task.end]
    return Suite("repoeval", tuple(questions), expected, body=True)


class AskedModel:
    """One model on one kind of engine, which is loaded when the first answer is not known yet."""

    def __init__(self, model: BenchModel, kind: str, answers: Answers) -> None:
        self._model, self._kind, self._answers = model, kind, answers
        self._engine: Engine | None = None

    def ask(self, suite: Suite, way: PromptVariant) -> dict[str, str]:
        """task → what the model said."""
        said = {}
        with shown(f"{suite.name} {way.name} {self._kind}", len(suite.questions)) as tell:
            for done, question in enumerate(suite.questions, 1):
                prompt = prompt_of(way, self._model.tokenizer, question)
                name = key(f"{self._model.files.digest} {self._kind}", prompt, "body" if suite.body else "line")
                known = self._answers.get(name)
                if known is None:
                    known = self._decode(prompt, body=suite.body)
                    self._answers.put(name, known)
                said[question.id] = known
                tell(done)
        return said

    def close(self) -> None:
        """Give the engine's memory back."""
        if self._engine is not None:
            self._engine.close()

    def _decode(self, prompt: Prompt, *, body: bool) -> str:
        engine = self._engine = self._engine or self._model.engine(self._kind, CONTEXT)
        request = decode_request(
            self._model.tokenizer,
            prompt.tokens,
            BODY_TOKENS if body else LINE_TOKENS,
            cut=repoeval.function_end if body else line_end,
            healing=prompt.healing,
        )
        # Drafts change the speed only: they shorten the long answers.
        return decode(engine, SuffixDrafter() if body else NoDrafter(), request, lambda: False).text


def evaluate(suite: Suite, given: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Each column's means, and the differences of each pair of columns over the tasks that both have."""
    questions = {question.id: question for question in suite.questions}
    files = {name: file_of(name) for name in questions} if suite.by_file else None
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for column, texts in given.items():
        exact, shown, similar = {}, {}, {}
        for task, text in texts.items():
            wanted, question = suite.expected[task], questions[task]
            exact[task] = float(text.strip() == wanted.strip() if suite.body else text.rstrip() == wanted)
            similar[task] = edit_similarity(text.strip(), wanted.strip())
            if not suite.body:
                shown[task] = float(finish(text, question.before, question.after, question.language).rstrip() == wanted)
        scores[column] = {"exact": exact, "edit_similarity": similar} | ({"shown_exact": shown} if shown else {})
    return {
        "arms": {
            column: {measure: _mean(values, files).to_json() for measure, values in measures.items()}
            for column, measures in scores.items()
        },
        "pairs": [
            {"left": left, "right": right, "measure": measure, **difference.to_json()}
            for left, right in combinations(scores, 2)
            for measure in scores[left]
            if (difference := paired(scores[left][measure], scores[right][measure], files)) is not None
        ],
    }


def _mean(values: Mapping[str, float], files: Mapping[str, str] | None) -> Mean:
    return Mean.of(list(values.values()), [files[task] for task in values] if files is not None else None)
