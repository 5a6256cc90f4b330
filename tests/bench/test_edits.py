"""`bench edits`: cursortab's rule, recorded answers, and replayed histories, on made-up values."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import load_edit_cases
from benchmarks.edits import CaseResult, judge, read_answer, recorded, remembered, replay
from benchmarks.product import LocalEdits
from fastcoder_lsp.edits.minimal import minimal
from fastcoder_lsp.edits.values import EditAnswer, EditQuestion
from tests.bench.keystroke.made_up import write_history
from tests.edits.toys import ReplacingEngine, edit_runtime

BEFORE = "function total(items) {\n  const key = item.state;\n  return key;\n}"
AFTER = BEFORE.replace("state", "status")


def row(model: str, output: dict[str, Any], **changes: Any) -> str:
    """A line of the cases' file."""
    case = {
        "id": model,
        "language": "javascript",
        "path": "a.js",
        "before": BEFORE,
        "cursor": {"line": 1, "col": 3},
        "history": [{"path": "a.js", "old": "function sum(items) {", "new": "function total(items) {"}],
        "modified": True,
        "steps": ["request"],
        "after": AFTER,
        "should_show": True,
        "outputs": [{"model": model, "provider": model, "interaction": 0, "prompt": None, "finish": "stop"} | output],
    }
    return json.dumps(case | changes) + "\n"


RANGE = {"start": {"line": 1, "character": 19}, "end": {"line": 1, "character": 24}}
ANSWERS: dict[str, dict[str, Any]] = {
    "copilot": {"edits": [{"range": RANGE, "text": "status"}]},
    "sweepapi": {"edits": [{"start_index": 43, "end_index": 48, "completion": "status", "confidence": 1.0}]},
    "mercuryapi": {
        "prompt": f"<|code_to_edit|>\n{BEFORE.replace('const', 'c<|cursor|>onst')}\n<|/code_to_edit|>",
        "output": f"```\n{AFTER}\n```",
    },
    "zeta-2": {
        "prompt": f"<[fim-suffix]>\n<[fim-prefix]><filename>a.js\n<<<<<<< CURRENT\n{BEFORE}\n=======\n<[fim-middle]>",
        "output": f"{AFTER}\n>>>>>>> UPDATED",
    },
}


@pytest.mark.parametrize("model", ANSWERS)
def test_each_kind_of_recorded_answer_is_read(model: str, tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text(row(model, ANSWERS[model]))
    (case,) = load_edit_cases(tmp_path / "cases.jsonl")
    assert judge(case, recorded(model), "automatic") == CaseResult(model, True, True, 100, ())
    question = EditQuestion(1, "a.js", "a.js", "javascript", 1, "other", 0, ())
    if case.answers[model][0].prompt:
        assert read_answer(question, case.answers[model][0]) is None


def test_replayed_histories(tmp_path: Path) -> None:
    """Three calls are renamed one by one; after the first a model proposes the second and a fourth place."""
    text = "".join(f"x{number} = old()\n" + "#\n" * 9 for number in range(4))
    edit = {"kind": "edit", "path": "a.py", "delete": 3, "text": "new", "typed": True}
    steps = [edit | {"offset": text.index(f"x{number} = old") + 5} for number in range(3)]
    write_history(tmp_path, "made", {"a.py": text}, steps)
    answers = [("x1 = old", "x1 = new"), ("x3 = old", "x3 = new"), ("x0 = new", "x0 = old")]
    asked: list[EditQuestion] = []

    def answer(question: EditQuestion) -> EditAnswer:
        old, new = answers[len(asked)]
        asked.append(question)
        return EditAnswer(minimal(question.text, 0, len(question.text), question.text.replace(old, new)))

    told = replay(tmp_path, "made", answer)
    assert (told.edits, told.asked, told.shown, told.right, told.found) == (3, 3, 2, 1, {1})
    assert told.reasons == {"edit-revert": 1}
    assert asdict(told)["reasons"] == told.reasons  # as in the report
    assert [len(question.history) for question in asked] == [1, 2, 3]


def test_a_local_model_is_asked_as_the_server_asks(tmp_path: Path) -> None:
    """A toy that replaces a word, at two thresholds; it is asked once."""
    (tmp_path / "cases.jsonl").write_text(row("m", {}))
    (case,) = load_edit_cases(tmp_path / "cases.jsonl")
    local = LocalEdits(edit_runtime(ReplacingEngine("state", "status")))
    ask = remembered(local.answer)
    shown = [judge(case, ask, "automatic", threshold) for threshold in (0.0, 1.1)]
    assert [(result.shown, result.delta_chrf, result.reasons) for result in shown] == [
        (True, 100, ()),
        (False, 0, ("edit-unsure",)),
    ]
    assert len(local.ms) == 1
