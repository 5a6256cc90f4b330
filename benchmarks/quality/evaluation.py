"""What answers are worth: every column's means, and the differences of each pair of columns."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from benchmarks.quality.lines import file_of
from benchmarks.quality.scores import Mean, edit_similarity, paired
from benchmarks.quality.suites import Suite
from fastcoder_lsp.postprocess import finish


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
