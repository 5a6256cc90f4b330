"""Published completion benchmarks as their authors distribute them, in one form, and published figures.

Owns reading the files that `scripts/fetch_data.py --published` fetches, and the printed figures; asks nothing.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastcoder_lsp.errors import UsageError

CROSSCODEEVAL_LANGUAGES = ("python", "java", "csharp", "typescript")
_SHORT = {"py": "python", "js": "javascript"}
"""MultiPL-E's names of languages."""


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """Code of another file that the benchmark's retrieval found, with its score."""

    path: str
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class PublishedTask:
    """Code to write between `before` and `after`.

    Attributes:
        id: the authors', with the language where they need it to tell tasks apart.
        before, after: the texts around it; what separates them from `expected` is the benchmark's own affair.
        group: its file or problem; errors are clustered by it.
        found: code of other files as one text, as the benchmark wrote it into the prompt.
        chunks: the same in pieces.
    """

    id: str
    language: str
    before: str
    after: str
    expected: str
    group: str
    found: str = ""
    chunks: tuple[FoundChunk, ...] = ()


@dataclass(frozen=True, slots=True)
class SuiteFiles:
    """Files of a benchmark: language → path in the data folder; `read` makes a task of a row."""

    paths: Mapping[str, str]
    read: Callable[[Mapping[str, Any], str], PublishedTask]


def _humaneval(row: Mapping[str, Any], _: str) -> PublishedTask:
    problem = str(row["name"]).rpartition("-L")[0]
    language = _SHORT.get(row["language"], row["language"])
    return PublishedTask(
        f"{row['name']} {language}",
        language,
        row["prompt"],
        row["suffix"],
        row["canonical_solution"],
        f"{problem} {language}",
    )


def _crosscodeeval(row: Mapping[str, Any], language: str) -> PublishedTask:
    """A row of CrossCodeEval, and of Qwen's RepoEval, which has the same form."""
    about, found = row["metadata"], row.get("crossfile_context") or ""
    pieces = [] if isinstance(found, str) else found.get("list") or []
    path = about.get("file") or about.get("fpath_tuple") or about["task_id"].rpartition("/")[0]
    return PublishedTask(
        f"{about['task_id']} {language}",
        language,
        row["prompt"],
        row.get("full_right_context", row.get("right_context", "")),
        row["groundtruth"],
        f"{about.get('repository', '')} {path if isinstance(path, str) else '/'.join(path)}",
        found if isinstance(found, str) else found["text"],
        tuple(FoundChunk(piece["filename"], piece["retrieved_chunk"], float(piece["score"])) for piece in pieces),
    )


def _repocoder(row: Mapping[str, Any], language: str) -> PublishedTask:
    about = row["metadata"]
    group = "/".join(about["fpath_tuple"])
    return PublishedTask(f"{about['task_id']} {language}", language, row["prompt"], "", about["ground_truth"], group)


def _of_crosscodeeval(retrieval: str) -> SuiteFiles:
    paths = {name: f"crosscodeeval/{name}/line_completion_{retrieval}.jsonl" for name in CROSSCODEEVAL_LANGUAGES}
    return SuiteFiles(paths, _crosscodeeval)


def _of_repocoder(level: str) -> SuiteFiles:
    return SuiteFiles({"python": f"repoeval_lines/{level}_level_completion_2k_context_codex.test.jsonl"}, _repocoder)


def _of_repoeval(level: str) -> SuiteFiles:
    return SuiteFiles({"python": f"repoeval_lines/python_{level}_completion_sparse_oracle.jsonl"}, _crosscodeeval)


SOURCES: Mapping[tuple[str, str], SuiteFiles] = {
    ("humaneval-fim", "qwen"): SuiteFiles({"": "humaneval_fim/fim_singleline.jsonl"}, _humaneval),
    ("crosscodeeval", "official"): _of_crosscodeeval("rg1_unixcoder_cosine_sim"),
    ("crosscodeeval", "qwen"): _of_crosscodeeval("oracle_bm25"),
    ("repoeval-line", "official"): _of_repocoder("line"),
    ("repoeval-line", "qwen"): _of_repoeval("line"),
    ("repoeval-api", "official"): _of_repocoder("api"),
    ("repoeval-api", "qwen"): _of_repoeval("api"),
}
"""(suite, rule) → its files. A suite's first rule is its own."""
SUITES = tuple(dict.fromkeys(suite for suite, _ in SOURCES))


def load(folder: Path, suite: str, rule: str, languages: frozenset[str] = frozenset()) -> list[PublishedTask]:
    """The tasks of a suite by the files of a rule, in their order; of these languages, or of all for none.

    Raises:
        UsageError: a file is not in the folder, or is not the benchmark's.
    """
    source = SOURCES[suite, rule]
    tasks: list[PublishedTask] = []
    for language, path in source.paths.items():
        if language and languages and language not in languages:
            continue
        try:
            tasks += [source.read(row, language) for row in _rows(folder / path)]
        except OSError as failure:
            raise UsageError(
                f"the data of {suite} by the rule '{rule}' is not there: {failure}",
                f"Run scripts/fetch_data.py --published {folder}, or name the folder that holds it: --data FOLDER",
            ) from failure
        except (ValueError, KeyError, TypeError, AttributeError) as failure:
            raise UsageError(
                f"{folder / path} is not in the form of {suite}: {type(failure).__name__}: {failure}",
                "Delete it, and run scripts/fetch_data.py --published again.",
            ) from failure
    kept = [task for task in tasks if not languages or task.language in languages]
    if not kept:
        known = ", ".join(sorted({*source.paths, *(task.language for task in tasks)} - {""}))
        raise UsageError(f"{suite} has no task in {', '.join(sorted(languages))}", f"Its languages: {known}")
    return kept


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    # Not `splitlines`: texts hold other ends of lines, which JSON does not escape.
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            yield json.loads(line)


ALL = "all"
"""In the place of a language: every task of a suite."""
REPORT = "Qwen2.5-Coder Technical Report, arXiv 2409.12186, Tables 7, 8 and 10"


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
    """The published model of this shape, whatever its weights."""
    shape = (config.get("model_type"), config.get("hidden_size"), config.get("num_hidden_layers"))
    return next((model for model in PUBLISHED if model.shape == shape), None)
