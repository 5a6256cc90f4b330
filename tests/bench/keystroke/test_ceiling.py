"""The ceiling (a typist who waits for every full answer), and one setting against another by it."""

import json
from math import sqrt
from pathlib import Path
from statistics import stdev

import pytest

from benchmarks.datasets.histories import Create, RecordedEdit, Remove, Save, apply
from benchmarks.keystroke import difference
from benchmarks.typist import KeyPosition, Subset, keys
from benchmarks.typist.ceiling import OPEN_FILES, Tree, answered_in, ceiling, full_answers
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.core import CompletionRequest, Snapshot
from tests.bench.keystroke.made_up import write_history

TREE = {"a.py": "one\nold\ntwo\n"}

RUN = RecordedEdit("a.py", 4, 4, "    value = other\n", typed=True)


def test_every_key_is_asked_for_unless_the_last_answer_goes_on() -> None:
    asked: list[str] = []

    def ask(request: CompletionRequest) -> str:
        text = request.snapshot.text
        asked.append(text[: request.offset] + "|" + text[request.offset :])
        return "val" if len(asked) == 1 else ""

    answers = full_answers(RUN, TREE, ask, lambda _: None)
    assert asked[0] == "one\n    |\ntwo\n"
    assert asked[1] == "one\n    val|\ntwo\n"
    assert asked[-1] == "one\n    value = other|\ntwo\n"
    assert answers[:4] == ["val", "al", "l", ""]
    assert len(answers) == len(keys("    value = other")) + 1


FILES = {"a.py": "one\n", "lib/b.py": "two\n"}


def test_the_document_asked_for_is_open_as_it_is_typed(tmp_path: Path) -> None:
    tree, asked = Tree(tmp_path, FILES), list[CompletionRequest]()

    def full(request: CompletionRequest) -> str:
        asked.append(request)
        return ""

    ask = answered_in(tree, full)
    apply(tree, RecordedEdit("a.py", 0, 0, "zero\n", typed=False))
    apply(tree, RecordedEdit("lib/b.py", 0, 3, "zwei", typed=False))
    ask(CompletionRequest(Snapshot("a.py", "a.py", "python", 3, "zero\nhere"), 9))
    assert (asked[0].snapshot.path, asked[0].snapshot.uri) == (str(tmp_path / "a.py"), "a.py")
    assert list(tree.open_texts().items()) == [(tmp_path / "lib/b.py", "zwei\n"), (tmp_path / "a.py", "zero\nhere")]
    apply(tree, RecordedEdit("a.py", 0, 5, "", typed=False))
    assert tree.open_texts()[tmp_path / "a.py"] == tree["a.py"] == "one\n"


def test_what_is_open_is_not_on_the_disk_until_it_is_closed(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"a.py": "old\n", "b.py": "b\n"})
    apply(tree, RecordedEdit("a.py", 0, 3, "new", typed=False))
    assert (tmp_path / "a.py").read_text() == "old\n"
    assert tree.open_texts() == {tmp_path / "a.py": "new\n"}
    for number in range(OPEN_FILES):
        apply(tree, Create(f"c/{number}.py", "c\n"))
        apply(tree, RecordedEdit(f"c/{number}.py", 0, 1, "d", typed=False))
    assert (tmp_path / "a.py").read_text() == "new\n"
    assert (tmp_path / "c" / "0.py").read_text() == "c\n"
    assert len(tree.open_texts()) == OPEN_FILES
    apply(tree, Remove("c/0.py"))
    assert not (tmp_path / "c" / "0.py").exists()
    assert tmp_path / "c" / "0.py" not in tree.open_texts()


def test_what_each_run_saves() -> None:
    """The runs' savings are the ceiling's, and every step is made in the tree, typed or not, so that it follows."""
    steps = (
        RecordedEdit("a.py", 0, 0, "zero\n", typed=False),
        RecordedEdit("a.py", 5, 0, "value = 1\n", typed=True),
        Save("a.py"),
        RecordedEdit("a.py", 0, 5, "x = 2\n", typed=True),
    )
    subset, tree, seen = Subset(steps, frozenset({1, 3}), 3, 14), dict(FILES), list[str]()

    def ask(request: CompletionRequest) -> str:
        seen.append(request.snapshot.text)
        return "value = 1"[max(request.offset - 5, 0) :]

    top = ceiling(subset, tree, ask, lambda _: None)
    assert seen[0] == "zero\n\none\n"
    assert top.saved_in == {1: 9, 3: 0}
    assert (top.keys, top.saved, top.share) == (14, 9, 9 / 14)
    assert top.answers[KeyPosition(1, 0)] == "value = 1"
    assert tree["a.py"] == "x = 2\nvalue = 1\none\n"


def test_the_difference_of_two_shares() -> None:
    texts = ("abcd", "efgh", "ijkl", "mnop")
    steps = tuple(RecordedEdit("a.py", 0, 0, f"{text}\n", typed=True) for text in texts)
    subset = Subset(steps, frozenset(range(4)), 4, 16)
    assert {len(keys(text)) for text in texts} == {4}
    found = difference(subset, {0: 1, 1: 0, 2: 4, 3: 2}, {0: 2, 1: 4, 2: 4, 3: 1})
    assert (found.left, found.right, found.difference) == pytest.approx((7 / 0.16, 11 / 0.16, 25.0))
    assert found.standard_error == pytest.approx(100 * stdev([0.25, 1.0, 0.0, -0.25]) / sqrt(4))
    assert (found.runs, found.keys) == (4, 16)
    alone = difference(Subset(steps[:1], frozenset({0}), 1, 4), {0: 1}, {0: 2})
    assert (alone.difference, alone.standard_error) == (25.0, 0.0)


@pytest.mark.ci
@pytest.mark.model
def test_the_command_with_the_real_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history, report = write_history(tmp_path), tmp_path / "r.json"
    line = ["bench", "keystroke", "--replay", str(history), "--against", "context.enabled=true", "--json", str(report)]
    assert main(line) == 0
    found = json.loads(report.read_text())
    assert found["runs"] == 1
    assert found["difference"] == pytest.approx(found["right"] - found["left"])
    assert all(tokens > 0 for tokens in found["tokens_a_key"])
    assert "keys saved" in capsys.readouterr().out


def test_a_setting_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = write_history(tmp_path)
    assert main(["bench", "keystroke", "--replay", str(history), "--against", "no.such=1"]) != 0
    assert "no.such" in capsys.readouterr().err
