"""`bench edits`: cursortab's rule, recorded answers, and replayed histories, on made-up values."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import RecordedAnswer, load_edit_cases
from benchmarks.edit_latency import AnsweringEngine, Script
from benchmarks.edits import CaseResult, delta_chrf, judge, read_answer, recorded, remembered, replay, summary
from benchmarks.product import LocalEdits
from fastcoder_lsp.core import Change
from fastcoder_lsp.edits.minimal import apply, minimal
from fastcoder_lsp.edits.values import EditAnswer, EditQuestion
from fastcoder_lsp.errors import UsageError
from tests.bench.keystroke.made_up import write_history
from tests.edits.toys import ReplacingEngine, edit_runtime
from tests.fake_engine import END, FakeEngine

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
    question = EditQuestion(1, "a.js", "a.js", "javascript", 1, "other", 0, (), 0.0)
    if case.answers[model][0].prompt:
        assert read_answer(question, case.answers[model][0]) is None


def test_a_fill_in_model_only_inserts() -> None:
    before, after = BEFORE[:50], BEFORE[50:]
    answer = RecordedAnswer(f"<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>", " //")
    question = EditQuestion(1, "a.js", "a.js", "javascript", 1, BEFORE, 0, (), 0.0)
    edits = read_answer(question, answer)
    assert edits is not None
    assert apply(BEFORE, edits) == f"{before} //{after}"


def test_steps_and_reasons(tmp_path: Path) -> None:
    """An accepted edit is part of the next request's text; a quiet case wants none."""
    second = AFTER.replace("return key", "return key + 1")
    prompts = [f"<|code_to_edit|>\n{text}\n<|/code_to_edit|>" for text in (BEFORE, AFTER)]
    answers = [{"prompt": p, "output": f"```\n{t}\n```"} for p, t in zip(prompts, (AFTER, second), strict=True)]
    outputs = [{"model": "m", "provider": "m", "interaction": n} | answer for n, answer in enumerate(answers)]
    common = {"outputs": outputs, "steps": ["request", "accept", "request"]}
    (tmp_path / "cases.jsonl").write_text(
        row("m", {}, after=second, **common)
        + row("m", {}, should_show=False, after=None, **common)
        + row("m", {}, modified=False, **common)
        + row("m", {"prompt": prompts[0], "output": "```\nx\n```", "finish": "length"}, after=second)
    )
    results = [judge(case, recorded("m"), "automatic") for case in load_edit_cases(tmp_path / "cases.jsonl")]
    assert [(result.shown, result.reasons) for result in results] == [
        (True, ()),
        (True, ()),
        (False, ("edit-unmodified", "edit-unmodified")),
        (False, ("edit-cut",)),
    ]
    assert results[0].delta_chrf == 100
    assert summary(results) == pytest.approx(
        {"wanted": 3, "shown": 100 / 3, "unwanted": 1, "quiet": 0, "delta_chrf": 100 / 3, "score": 0}
    )
    with pytest.raises(UsageError, match="no cases"):
        load_edit_cases(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(
    ("candidate", "reference", "expected"),
    [
        ("a\nB\nc", "a\nB\nc", 100),
        ("a\nb\nc", "a\nB\nc", 0),
        ("a\nc", "a\nc", 100),
        # Changed lines "Bx" and "By": one of two characters, and no longer n-gram, in common.
        ("a\nBx\nc", "a\nBy\nc", 25),
    ],
)
def test_delta_chrf(candidate: str, reference: str, expected: float) -> None:
    assert delta_chrf("a\nb\nc", candidate, reference) == pytest.approx(expected)


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


def test_an_engine_says_what_it_is_given() -> None:
    """It computes each pass, and drafts are accepted as if it said the answer by itself."""
    says, engine = Script(), FakeEngine(vocabulary=256, context=100_000, chunk=100_000)
    local = LocalEdits(edit_runtime(AnsweringEngine(engine, says)))
    change = Change("a.js", 0, "function sum(items) {\n", "function total(items) {\n")
    question = EditQuestion(1, "a.js", "a.js", "javascript", 1, BEFORE, 0, (change,), 0.0)
    for wanted in (AFTER, BEFORE.replace("key", "name")):
        says.answer, done = (*f"\n{wanted}\n".encode(), END), engine.steps
        answer = local.answer(question)
        assert apply(BEFORE, answer.edits) == wanted
        assert engine.steps - done == answer.counts.steps < len(wanted) / 3
