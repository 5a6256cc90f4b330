"""Our figures beside published ones, and the gap between them taken apart by transformers: weights, rounding, rule.

The parts add up. *Weights*: the installed weights through transformers in bfloat16, by the published rule, minus the
published figure. *Rounding*: our engine minus transformers over the same weights and prompts. *Rule*: another rule
minus the published one, on our engine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Mean
from benchmarks.published import PublishedTask, Scores
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.model import ModelFiles, require_checkpoint
from fastcoder_lsp.model.files import gguf_of, weight_files
from fastcoder_lsp.model.machine import require_packages

KIND = "transformers"
"""In the place of a kind of engine."""
ALL = "all"
"""In the place of a language: every task of a suite."""
REPORT = "Qwen2.5-Coder Technical Report, arXiv 2409.12186, Tables 7, 8 and 10"
PUBLISHED_RULE = "qwen"
"""The rule of `REPORT`'s figures."""


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """Percent, as printed: exact matches, and edit similarity where it was printed."""

    exact: float
    edit_similarity: float | None = None


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A model with its figures in `REPORT`: base weights in bfloat16, by Qwen's rule.

    `shape`: model type, width and layers, by which an installed model finds its row. `figures`: suite → language →
    figure.
    """

    name: str
    shape: tuple[str, int, int]
    figures: Mapping[str, Mapping[str, PublishedFigure]]


_PRINTED = """
Qwen2.5-Coder-0.5B    qwen2  896 24  70.3 77.7  22.7 66.2  21.9 67.2  24.6 68.9  44.2 72.6  35.6 68.5
Qwen2.5-Coder-1.5B    qwen2 1536 28  77.0 83.5  35.5 74.3  37.6 77.4  40.2 78.2  59.8 82.6  51.0 80.1
Qwen2.5-Coder-3B      qwen2 2048 36  78.7 85.7  38.4 76.1  41.6 80.5  44.9 80.9  64.9 85.0  54.7 81.3
Qwen2.5-Coder-7B      qwen2 3584 28  79.7 86.2  42.4 78.6  46.8 83.4  49.3 83.1  67.3 86.1  58.4 83.9
DeepSeek-Coder-1.3B   llama 2048 24  72.8 80.7  33.4 72.6  36.7 76.4  37.9 76.8  58.7 80.4  45.8 75.0
"""
"""Name, model type, width, layers; HumanEval-FIM Python and all; then exact match and edit similarity of CrossCodeEval
Python, TypeScript and all, RepoEval line and API."""


def _published(row: str) -> PublishedModel:
    name, kind, width, layers, *printed = row.split()
    percent = [float(value) for value in printed]
    pairs = [PublishedFigure(exact, similar) for exact, similar in zip(percent[2::2], percent[3::2], strict=True)]
    figures = {
        "humaneval-fim": {"python": PublishedFigure(percent[0]), ALL: PublishedFigure(percent[1])},
        "crosscodeeval": dict(zip(("python", "typescript", ALL), pairs[:3], strict=True)),
        "repoeval-line": {"python": pairs[3], ALL: pairs[3]},
        "repoeval-api": {"python": pairs[4], ALL: pairs[4]},
    }
    return PublishedModel(name, (kind, int(width), int(layers)), figures)


PUBLISHED = tuple(map(_published, _PRINTED.strip().splitlines()))


def published_model(config: Mapping[str, Any]) -> PublishedModel | None:
    shape = (config.get("model_type"), config.get("hidden_size"), config.get("num_hidden_layers"))
    return next((model for model in PUBLISHED if model.shape == shape), None)


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    rule: str
    engine: str
    scores: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, rule: str, engine: str, by_task: Mapping[str, Scores]) -> "ScoreColumn":
        measures = next(iter(by_task.values()), {})
        return cls(rule, engine, {name: {task: one[name] for task, one in by_task.items()} for name in measures})


def compare(
    suite: str,
    tasks: Sequence[PublishedTask],
    columns: Sequence[ScoreColumn],
    model: PublishedModel | None,
    *,
    whole: bool,
) -> dict[str, Any]:
    """Figures and gaps by language, as JSON has them; in percent and points.

    Args:
        suite: the suite's name.
        tasks: all that were asked; rules with files of their own may name the same ones otherwise.
        columns: what was scored, in the order of the table.
        model: the published model of the same shape.
        whole: whether all languages were asked, so that the published figure over all is comparable.
    """
    languages = list(dict.fromkeys(task.language for task in tasks))
    among = {name: {task.id for task in tasks if task.language == name} for name in languages}
    if len(languages) > 1:
        among[ALL] = {task.id for task in tasks}
    groups = _TaskGroups(among, {task.id: task.group for task in tasks})
    printed = {} if model is None else model.figures[suite]
    comparable = {name: figure for name, figure in printed.items() if name in among and (whole or name != ALL)}
    return {
        "tasks": {
            name: max((len(ids & column.scores["exact"].keys()) for column in columns), default=0)
            for name, ids in among.items()
        },
        "published": {
            "model": None if model is None else model.name,
            "rule": PUBLISHED_RULE,
            "source": REPORT,
            "figures": {name: [figure.exact, figure.edit_similarity] for name, figure in comparable.items()},
        },
        "columns": [
            {"rule": column.rule, "engine": column.engine}
            | {"figures": {what: groups.means(scores, among) for what, scores in column.scores.items()}}
            for column in columns
        ],
        "gap": [
            {"part": part, "what": what, "points": points} for part, what, points in _parts(columns, groups, comparable)
        ],
    }


@dataclass(frozen=True, slots=True)
class _TaskGroups:
    """`among`: language → its tasks; `groups`: task → the group that its errors are clustered by."""

    among: Mapping[str, set[str]]
    groups: Mapping[str, str]

    def means(self, scores: Mapping[str, float], languages: Mapping[str, object]) -> dict[str, dict[str, Any] | None]:
        """Language → the mean over its tasks in percent; None for none."""
        return {name: self._mean(scores, self.among[name]) for name in languages}

    def _mean(self, scores: Mapping[str, float], tasks: set[str]) -> dict[str, Any] | None:
        kept = {task: score for task, score in scores.items() if task in tasks}
        if not kept:
            return None
        mean = Mean.of(list(kept.values()), [self.groups[task] for task in kept])
        return {"mean": 100 * mean.mean, "standard_error": 100 * mean.standard_error, "tasks": mean.tasks}

    def above(self, column: ScoreColumn, printed: Mapping[str, PublishedFigure]) -> dict[str, Any]:
        """Language → exact matches of a column minus the published figure, whose own error was not printed."""
        means = self.means(column.scores["exact"], printed)
        return {name: mean | {"mean": mean["mean"] - printed[name].exact} for name, mean in means.items() if mean}

    def between(self, left: ScoreColumn, right: ScoreColumn) -> dict[str, Any]:
        """Language → exact matches of `right` minus those of `left`, over the tasks that both have."""
        before, after = left.scores["exact"], right.scores["exact"]
        return self.means({task: score - before[task] for task, score in after.items() if task in before}, self.among)


def _parts(
    columns: Sequence[ScoreColumn], groups: _TaskGroups, printed: Mapping[str, PublishedFigure]
) -> list[tuple[str, str, dict[str, Any]]]:
    """(part, its two sides, language → points of exact match) for every part that the columns show."""
    by_rule = [column for column in columns if column.rule == PUBLISHED_RULE]
    theirs = next((column for column in by_rule if column.engine == KIND), None)
    ours = next((column for column in by_rule if column.engine != KIND), None)
    parts = []
    if theirs is not None:
        parts.append(("weights", f"{KIND} − published", groups.above(theirs, printed)))
    if ours is not None:
        if theirs is not None:
            parts.append(("rounding", f"{ours.engine} − {KIND}", groups.between(theirs, ours)))
        name = "weights and rounding"
        parts.append((name, f"{ours.engine} − published", groups.above(ours, printed)))
        for other in columns:
            if other.rule != PUBLISHED_RULE and other.engine == ours.engine:
                parts.append(("rule", f"{other.rule} − {PUBLISHED_RULE}", groups.between(ours, other)))
                parts.append(("all three", f"{other.engine}, {other.rule} − published", groups.above(other, printed)))
    return [part for part in parts if part[2]]


def show(suite: str, comparison: Mapping[str, Any], weights: str) -> None:
    languages, told = list(comparison["tasks"]), comparison["published"]
    head = ["", *(f"{name} ({count})" for name, count in comparison["tasks"].items())]
    rows: list[list[object]] = []
    if told["figures"]:
        rows.append([f"published: {told['model']}, base", *(_pair(told["figures"].get(name)) for name in languages)])
    for column in comparison["columns"]:
        exact, similar = (column["figures"][measure] for measure in ("exact", "edit_similarity"))
        cells = [_cell(exact[name], similar[name]) for name in languages]
        rows.append([f"here: {column['engine']}, rule {column['rule']}", *cells])
    print_table(f"{suite}: exact match ± s.e. / edit similarity, percent", head, rows)
    print(f"Installed weights: {weights}")
    if told["figures"]:
        print(f"Published: {REPORT}; rule {told['rule']}, bfloat16")
    elif told["model"] is None:
        print(f"No figures are published for a model of this shape in: {REPORT}")
    if comparison["gap"]:
        parts = [
            [f"{part['part']}: {part['what']}", *(_points(part["points"].get(name)) for name in languages)]
            for part in comparison["gap"]
        ]
        print_table(f"{suite}: the gap, points of exact match ± s.e.", head, parts)


def _cell(exact: Mapping[str, float] | None, similar: Mapping[str, float] | None) -> str:
    if exact is None or similar is None:
        return ""
    return f"{exact['mean']:.1f} ± {exact['standard_error']:.1f} / {similar['mean']:.1f}"


def _pair(figure: Sequence[float | None] | None) -> str:
    return "" if figure is None else " / ".join(f"{one:.1f}" for one in figure if one is not None)


def _points(points: Mapping[str, float] | None) -> str:
    return "" if points is None else f"{points['mean']:+.1f} ± {points['standard_error']:.1f}".replace("-", "−")


def weights_of(files: ModelFiles) -> str:
    """The installed weights in a line: the model's name, the file that holds them, their source."""
    gguf = gguf_of(files.folder)
    held = gguf.name if gguf is not None else f"{len(weight_files(files.folder))} safetensors"
    return ", ".join(dict.fromkeys((files.name, held, files.source)))


class TransformersReference:
    """A model of a folder, by transformers on the CPU; a GGUF's weights are unpacked beside it the first time.

    It decodes greedily by the model's forward: `generate` would obey penalties and sampling that published folders set.

    Raises:
        FastcoderError: transformers is not installed, or the disk has no room for the unpacked weights.
    """

    def __init__(self, folder: Path) -> None:
        require_packages("the engine transformers", "torch", "transformers")
        import torch
        from transformers import AutoModelForCausalLM, DynamicCache
        from transformers.utils import logging

        bars: Any = logging
        bars.disable_progress_bar()
        require_checkpoint(folder, lambda _share, _what: None)
        loading: Any = AutoModelForCausalLM
        self._model = loading.from_pretrained(
            folder, dtype=torch.bfloat16, local_files_only=True, trust_remote_code=False, use_safetensors=True
        ).eval()
        self._torch, self._cache = torch, DynamicCache

    def decode(self, request: DecodeRequest) -> str:
        said, cache, text = bytearray(), self._cache(), ""
        ids = self._torch.tensor([request.prompt])
        with self._torch.inference_mode():
            for _ in range(request.max_tokens):
                logits_V = self._model(ids, past_key_values=cache, logits_to_keep=1).logits[0, -1]
                token = int(logits_V.argmax())
                if token in request.end_ids:
                    break
                said += request.piece(token)
                text = said.decode("utf-8", errors="ignore")
                if (end := request.cut(text)) is not None:
                    return text[:end]
                ids = self._torch.tensor([[token]])
        return text

    def close(self) -> None:
        del self._model
