"""`bench quality`: the same tasks asked in several ways on several engines, and the answers compared pairwise.

Published suites are asked and compared by a published rule, and stand beside published figures. Answers are kept, so a
run that was stopped goes on where it ended, and arms can be added later.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

from benchmarks import gap, published
from benchmarks.datasets import (
    Cut,
    Repository,
    data_folder,
    function_end,
    histories,
    load_functions,
    load_lines,
    load_repositories,
    require,
    spread,
)
from benchmarks.gap import KIND, ScoreColumn, TransformersReference
from benchmarks.harness import Answers, Mean, Reported, decode_request, edit_similarity, key, line_end, paired, write
from benchmarks.published import RULES, PublishedRule, PublishedTask, written_marks
from benchmarks.questions import (
    ARMS,
    InfillQuestion,
    LineCase,
    PromptVariant,
    RepositoryFiles,
    arm,
    file_of,
    line_cases,
    prompt_of,
    recorded_cases,
)
from benchmarks.typist.ceiling import Tree
from benchmarks.typist.reckoned import Clock, DiskContext
from fastcoder_lsp.bench.model import BenchModel, find_model
from fastcoder_lsp.bench.report import print_table, shown
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.core import Engine
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.draft.suffix import SuffixDrafter
from fastcoder_lsp.engine.architecture import read_config
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model.machine import require_packages
from fastcoder_lsp.postprocess import TextAround, finish
from fastcoder_lsp.prompt import Prompt
from fastcoder_lsp.tokenizer import Tokenizer

EXAMPLE = "quality --suites boundary,word --arms plain,anchored --limit 100"
LINES = ("api", "lines")
"""Suites of single lines of whole repositories."""
RECORDED = "recorded"
"""The suite of lines of recorded histories."""
PRODUCT, PRODUCT_SUITE = "product", "humaneval-fim"
"""The rule by which the product asks, and the published suite whose cursor it can stand at."""
LINE_TOKENS = 64
BODY_TOKENS = 256
CONTEXT = 2560
_LOOKED_AGAIN_MS = 3_600_000.0
"""Reckoned time between the states of a repository, after which its folder is looked through again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Ask infilling and repository tasks in several ways and compare the answers pairwise, with standard errors.

    Published suites (humaneval-fim, crosscodeeval, repoeval-line, repoeval-api) are asked and compared by a published
    rule; a table puts the figures beside those of the model's size, and takes the gap apart. Answers are kept in
    --answers: a stopped run goes on where it ended.
    """

    tasks: Path | None = option("folder with the suites' data", None, flags=("--tasks", "--data"), metavar="DIR")
    suites: str = option(
        f"of start, boundary, word, repoeval, api, lines, {RECORDED}, {', '.join(published.SUITES)}",
        "start,boundary,word,repoeval",
    )
    rule: str = option(
        f"of qwen, official, {PRODUCT} (by --arms), for published suites (default: a suite's own)", "", metavar="RULES"
    )
    languages: str = option("languages of published suites (default: all)", "", metavar="NAMES")
    split: Literal["held-out", "development"] = option(
        "repositories of api and lines: for fitting, or kept aside", "held-out"
    )
    arms: str = option(f"of {ARMS}", "plain,anchored")
    engines: str = option(f"kinds of engine, as the setting `engine`; {KIND} runs the same weights in bfloat16", "auto")
    model: str = option("as the setting `model`", "auto")
    limit: int | None = option("take N tasks of each suite, evenly spread", None, metavar="N")
    answers: Path | None = option("file that keeps the answers (default: in the cache)", None, metavar="FILE")


@dataclass(frozen=True, slots=True)
class Suite:
    """Questions of one kind with their answers: whole functions or the rest of a line; `by_file`: clustered errors."""

    name: str
    questions: tuple[InfillQuestion, ...]
    expected: Mapping[str, str]
    body: bool
    by_file: bool = False


def run(options: Options) -> int:
    model = find_model(options.model)
    arms = [arm(name) for name in options.arms.split(",")]
    names = options.suites.split(",")
    pairs = rules_of(options)
    suites = list(suites_of(options, [name for name in names if name not in published.SUITES]))
    answers = Answers(options.answers or model.cache / "bench" / "quality.jsonl")
    tasks = {pair: _tasks(options, *pair) for pair in pairs}
    given: dict[str, dict[str, dict[str, str]]] = {suite.name: {} for suite in suites}
    columns: dict[str, list[ScoreColumn]] = {name: [] for name, _ in pairs}
    for kind in options.engines.split(","):
        asked = AskedModel(model, kind, answers)
        for suite in suites:
            for way in arms:
                given[suite.name][f"{way.name} {kind}"] = asked.ask(*_asks(suite, way, model.tokenizer))
        for pair in pairs:
            columns[pair[0]] += _columns(asked, *pair, tasks[pair], arms)
        asked.close()
    results = {suite.name: evaluate(suite, given[suite.name]) for suite in suites}
    if suites:
        _print(results)
    of_shape = gap.published_model(read_config(model.files.folder))
    for name, scored in columns.items():
        found = [task for pair in pairs if pair[0] == name for task in tasks[pair]]
        results[name] = gap.compare(name, found, scored, of_shape, whole=not options.languages)
        gap.show(name, results[name], gap.weights_of(model.files))
    write(options, "quality", {"model": model.files.source, "weights": gap.weights_of(model.files), "suites": results})
    return 0


def rules_of(options: Options) -> list[tuple[str, str]]:
    """(suite, rule) for every published suite of the options: the rules of --rule, or the suite's own.

    Raises:
        UsageError: a suite has no such rule, or --rule is given without a published suite.
    """
    suites = [name for name in options.suites.split(",") if name in published.SUITES]
    wanted = [rule for rule in options.rule.split(",") if rule]
    if wanted and not suites:
        raise UsageError("--rule is for published suites alone", f"Try: --suites {published.SUITES[0]}")
    pairs = []
    for suite in suites:
        own = [rule for name, rule in RULES if name == suite] + ([PRODUCT] if suite == PRODUCT_SUITE else [])
        for rule in wanted or own[:1]:
            if rule not in own:
                raise UsageError(f"{suite} has no rule '{rule}'", f"Take one of: {', '.join(own)}")
            if rule != PRODUCT:
                require_packages(f"the rule '{rule}' of {suite}", *RULES[suite, rule].needs)
            pairs.append((suite, rule))
    return pairs


def _tasks(options: Options, suite: str, rule: str) -> tuple[PublishedTask, ...]:
    languages = frozenset(name for name in options.languages.split(",") if name)
    folder = options.tasks or data_folder() or Path("FOLDER")
    return spread(published.load(folder, suite, "qwen" if rule == PRODUCT else rule, languages), options.limit)


def product_lines(tasks: Sequence[PublishedTask]) -> Suite:
    """HumanEval-FIM's lines where a person would ask for them: at the line's start, whose newline its prompts lost."""
    questions = tuple(
        InfillQuestion(
            task.id,
            task.before if task.before.endswith("\n") else f"{task.before}\n",
            f"\n{task.after}",
            f"main.{task.language}",
            language=task.language,
        )
        for task in tasks
    )
    return Suite(PRODUCT_SUITE, questions, {task.id: task.expected.rstrip() for task in tasks}, body=False)


def _columns(
    asked: "AskedModel", suite: str, rule: str, tasks: Sequence[PublishedTask], arms: Sequence[PromptVariant]
) -> Iterator[ScoreColumn]:
    """The scores of one engine's answers by one rule; a column for each arm by the product's."""
    if rule != PRODUCT:
        how = RULES[suite, rule]
        said = asked.ask(f"{suite} {rule}", [_ask_by(how, task, asked.model.tokenizer) for task in tasks])
        by_task = {task.id: how.score(task, said[task.id]) for task in tasks}
        yield ScoreColumn.of(rule, asked.kind, by_task)
    elif asked.kind != KIND:
        lines = product_lines(tasks)
        for way in arms:
            texts = asked.ask(*_asks(lines, way, asked.model.tokenizer))
            yield ScoreColumn(f"{rule}, {way.name}", asked.kind, scores_of(lines, texts))


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


def suites_of(options: Options, names: Iterable[str]) -> Iterator[Suite]:
    """The suites of these names, cut down to the options' limit; raises UsageError where data is missing."""

    def folder(part: str) -> Path:
        return options.tasks / part if options.tasks else require(part)

    for name in names:
        if name == "repoeval":
            yield _repoeval(folder(name), options.limit)
        elif name == RECORDED:
            typed = [case for one in histories.NAMES for case in recorded_cases(folder("replay"), one)]
            yield _suite(name, spread(typed, options.limit))
        elif name in LINES:
            yield _lines(name, list(load_repositories(folder(""), options.split)), options.limit)
        else:
            cases = load_lines(folder("humaneval_infilling"), cast("Cut", name))
            kept = spread(cases, options.limit or None)
            questions = tuple(InfillQuestion(case.id, case.before, case.after) for case in kept)
            yield Suite(name, questions, {case.id: case.expected for case in kept}, body=False)


def _lines(name: str, around: Sequence[Repository], limit: int | None) -> Suite:
    each = -(-limit // len(around)) if limit is not None else None
    cases = [case for one in around for case in spread(line_cases(one, api=name == "api"), each)]
    return _suite(name, spread(cases, limit))


def _suite(name: str, cases: Sequence[LineCase]) -> Suite:
    expected = {case.question.id: case.expected for case in cases}
    return Suite(name, tuple(case.question for case in cases), expected, body=False, by_file=True)


def _repoeval(folder: Path, limit: int | None) -> Suite:
    tasks = load_functions(folder)
    questions, expected = [], {}
    around = {name: RepositoryFiles(name, files) for name, files in tasks.files.items()}
    for task in spread(tasks.tasks, limit):
        text = tasks.files[task.repo][task.path]
        questions.append(InfillQuestion(task.id, text[: task.start], text[task.end :], task.path, around[task.repo]))
        expected[task.id] = text[task.start : task.end]
    return Suite("repoeval", tuple(questions), expected, body=True)


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """One question to a model; `limit` names the answer's end among the kept answers."""

    id: str
    prompt: Prompt
    limit: str
    request: DecodeRequest


def _asks(suite: Suite, way: PromptVariant, tokenizer: Tokenizer) -> tuple[str, list[ModelQuestion]]:
    limit, tokens = ("body", BODY_TOKENS) if suite.body else ("line", LINE_TOKENS)
    cut = function_end if suite.body else line_end
    asks = []
    for question, prompt in zip(suite.questions, prompts_of(suite.questions, way, tokenizer), strict=True):
        request = decode_request(tokenizer, prompt.tokens, tokens, cut=cut, healing=prompt.healing)
        asks.append(ModelQuestion(question.id, prompt, limit, request))
    return f"{suite.name} {way.name}", asks


def prompts_of(questions: Iterable[InfillQuestion], way: PromptVariant, tokenizer: Tokenizer) -> Iterator[Prompt]:
    """The prompts of questions, asked one way; with the product's context the files around them are on the disk."""
    clock, around = Clock(), RepositoryFiles("", {})
    with TemporaryDirectory(prefix="fastcoder-quality-") as folder:
        tree = Tree(Path(folder).resolve(), {})
        disk = DiskContext(tree, lambda: clock.ms / 1e3)
        for question in questions:
            if way.product and question.repository is not None and question.repository is not around:
                before, around = around, question.repository
                clock.ms += _LOOKED_AGAIN_MS
                if around.name != before.name:
                    tree = Tree(Path(folder).resolve() / around.name, around.files)
                    disk = DiskContext(tree, lambda: clock.ms / 1e3)
                else:
                    _follow(tree, around.files)
            yield prompt_of(way, tokenizer, question, disk)


def _follow(tree: Tree, files: Mapping[str, str]) -> None:
    for path in [path for path in tree if path not in files]:
        tree.pop(path, None)
    for path, text in files.items():
        if tree.get(path) != text:
            tree[path] = text


def _ask_by(rule: PublishedRule, task: PublishedTask, tokenizer: Tokenizer) -> ModelQuestion:
    """A task as a published rule asks it: control tokens that its script takes for text do not end the answer."""
    prompt = Prompt(rule.prompt(tokenizer, task), b"", "", rule.name)
    marks = written_marks(tokenizer)
    request = replace(
        decode_request(tokenizer, prompt.tokens, rule.tokens, cut=rule.cut(task)),
        end_ids=tokenizer.end_ids - marks.keys(),
        piece=lambda token: marks.get(token) or tokenizer.piece(token),
    )
    return ModelQuestion(task.id, prompt, f"{rule.name} {rule.tokens} {task.expected}", request)


class AskedModel:
    """One model on one kind of engine, which is loaded when the first answer is not known yet."""

    def __init__(self, model: BenchModel, kind: str, answers: Answers) -> None:
        self.model, self.kind, self._answers = model, kind, answers
        self._engine: Engine | TransformersReference | None = None
        self._context = 0

    def ask(self, title: str, asks: Sequence[ModelQuestion]) -> dict[str, str]:
        said = {}
        longest = max((len(ask.prompt.tokens) + ask.request.max_tokens for ask in asks), default=0)
        with shown(f"{title} {self.kind}", len(asks)) as tell:
            for done, ask in enumerate(asks, 1):
                name = key(f"{self.model.files.digest} {self.kind}", ask.prompt, ask.limit)
                decoded = partial(self._decode, ask, max(CONTEXT, longest + 1))
                said[ask.id] = self._answers.get(name, decoded)
                tell(done)
        return said

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _decode(self, ask: ModelQuestion, context: int) -> str:
        if self._engine is None or context > self._context:
            self.close()
            self._context = context
            theirs = self.kind == KIND
            folder = self.model.files.folder
            self._engine = TransformersReference(folder) if theirs else self.model.engine(self.kind, context)
        if isinstance(self._engine, TransformersReference):
            return self._engine.decode(ask.request)
        # Drafts change the speed only: they shorten the long answers.
        drafter = SuffixDrafter() if ask.limit == "body" else NoDrafter()
        return decode(self._engine, drafter, ask.request, lambda: False).text


def evaluate(suite: Suite, given: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Each column's means, and the differences of each pair of columns over the tasks that both have."""
    files = {question.id: file_of(question.id) for question in suite.questions} if suite.by_file else None
    scores = {column: scores_of(suite, texts) for column, texts in given.items()}
    return {
        "arms": {
            column: {measure: asdict(_mean(values, files)) for measure, values in measures.items()}
            for column, measures in scores.items()
        },
        "pairs": [
            {"left": left, "right": right, "measure": measure, **asdict(difference)}
            for left, right in combinations(scores, 2)
            for measure in scores[left]
            if (difference := paired(scores[left][measure], scores[right][measure], files)) is not None
        ],
    }


def scores_of(suite: Suite, texts: Mapping[str, str]) -> dict[str, dict[str, float]]:
    questions = {question.id: question for question in suite.questions}
    exact, shown, similar = {}, {}, {}
    for task, text in texts.items():
        wanted, question = suite.expected[task], questions[task]
        exact[task] = float(text.strip() == wanted.strip() if suite.body else text.rstrip() == wanted)
        similar[task] = edit_similarity(text.strip(), wanted.strip())
        if not suite.body:
            around = TextAround(question.before, question.after, question.language)
            shown[task] = float(finish(text, around).rstrip() == wanted)
    return {"exact": exact, "edit_similarity": similar} | ({"shown_exact": shown} if shown else {})


def _mean(values: Mapping[str, float], files: Mapping[str, str] | None) -> Mean:
    return Mean.of(list(values.values()), [files[task] for task in values] if files is not None else None)
