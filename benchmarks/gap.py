"""Our figures beside published ones, and the gap between them taken apart by transformers: weights, rounding, rule.

The parts add up. *Weights*: the installed weights through transformers in bfloat16, by the published rule, minus the
published figure. *Rounding*: our engine minus transformers over the same weights and prompts. *Rule*: another rule
minus the published one, on our engine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets.published import ALL, REPORT, PublishedFigure, PublishedModel, PublishedTask
from benchmarks.harness import Mean
from benchmarks.rules import Scores
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.model import ModelFiles, require_checkpoint
from fastcoder_lsp.model.files import gguf_of, weight_files
from fastcoder_lsp.model.machine import require_packages

KIND = "transformers"
"""In the place of a kind of engine."""
PUBLISHED_RULE = "qwen"
"""The rule of `REPORT`'s figures."""


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """The scores of one engine's answers by one rule: measure → task → score from 0 to 1."""

    rule: str
    engine: str
    scores: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, rule: str, engine: str, by_task: Mapping[str, Scores]) -> "ScoreColumn":
        """The column of these scores; every task has the same measures."""
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
            {
                "rule": column.rule,
                "engine": column.engine,
                "figures": {
                    measure: {name: _percent(groups.mean(scores, name)) for name in among}
                    for measure, scores in column.scores.items()
                },
            }
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

    def mean(self, scores: Mapping[str, float], language: str) -> Mean | None:
        """The mean over a language's tasks; None for none."""
        kept = {task: score for task, score in scores.items() if task in self.among[language]}
        return Mean.of(list(kept.values()), [self.groups[task] for task in kept]) if kept else None

    def above(self, column: ScoreColumn, printed: Mapping[str, PublishedFigure]) -> dict[str, Any]:
        """Language → exact matches of a column minus the published figure, whose own error was not printed."""
        means = {name: _percent(self.mean(column.scores["exact"], name)) for name in printed}
        return {name: mean | {"mean": mean["mean"] - printed[name].exact} for name, mean in means.items() if mean}

    def between(self, left: ScoreColumn, right: ScoreColumn) -> dict[str, Any]:
        """Language → exact matches of `right` minus those of `left`, over the tasks that both have."""
        difference = {
            task: score - left.scores["exact"][task]
            for task, score in right.scores["exact"].items()
            if task in left.scores["exact"]
        }
        return {name: _percent(self.mean(difference, name)) for name in self.among}


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


def _percent(mean: Mean | None) -> dict[str, Any] | None:
    if mean is None:
        return None
    return {"mean": 100 * mean.mean, "standard_error": 100 * mean.standard_error, "tasks": mean.tasks}


def show(suite: str, comparison: Mapping[str, Any], weights: str) -> None:
    """Print both tables of a suite: the figures, and the parts of the gap."""
    languages = list(comparison["tasks"])
    told = comparison["published"]
    head = ["", *(f"{name} ({count})" for name, count in comparison["tasks"].items())]
    rows: list[list[object]] = []
    if told["figures"]:
        cells = [told["figures"].get(name) for name in languages]
        rows.append([f"published: {told['model']}, base", *("" if cell is None else _pair(*cell) for cell in cells)])
    for column in comparison["columns"]:
        exact = column["figures"]["exact"]
        similar = column["figures"]["edit_similarity"]
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


def _pair(exact: float, similar: float | None) -> str:
    return f"{exact:.1f}" if similar is None else f"{exact:.1f} / {similar:.1f}"


def _points(points: Mapping[str, float] | None) -> str:
    return "" if points is None else f"{points['mean']:+.1f} ± {points['standard_error']:.1f}".replace("-", "−")


def weights_of(files: ModelFiles) -> str:
    """The installed weights in a line: the model's name, the file that holds them, their source.

    Raises:
        ModelInvalidError: a file of the model is damaged or missing.
    """
    gguf = gguf_of(files.folder)
    held = gguf.name if gguf is not None else f"{len(weight_files(files.folder))} safetensors"
    return ", ".join(dict.fromkeys((files.name, held, files.source)))


class TransformersReference:
    """A model of a folder, by transformers on the CPU; a GGUF's weights are unpacked beside it the first time.

    It decodes greedily by the model's forward: `generate` would obey penalties and sampling that published folders set.

    Raises:
        InstallationError: transformers is not installed.
        ResourceError: the disk has no room for the unpacked weights.
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
        """The text of a greedy answer, up to the request's end."""
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
