"""One setting against another with no clock: the folder that both see, and the arithmetic of the pairs."""

import json
from math import sqrt
from pathlib import Path
from statistics import stdev

import pytest

from benchmarks.datasets.histories import Create, Edit, Remove, Save, Step
from benchmarks.keystroke.against import HistoryFolder, difference, saved_by_run
from benchmarks.keystroke.ceiling import ceiling
from benchmarks.keystroke.hands import keys
from benchmarks.keystroke.subset import Subset
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.core import CompletionRequest, Snapshot
from tests.bench.keystroke.made_up import write_history

TREE = {"a.py": "one\n", "lib/b.py": "two\n"}


def test_the_folder_is_as_an_editor_leaves_it(tmp_path: Path) -> None:
    """Edits are unsaved texts until a save; files appear and go; the document asked for is the one opened last."""
    folder = HistoryFolder(tmp_path, TREE)
    folder.take(Edit("a.py", 0, 0, "zero\n", typed=False))
    folder.take(Edit("lib/b.py", 0, 3, "zwei", typed=False))
    assert (tmp_path / "a.py").read_text() == "one\n"
    asked = folder.placed(CompletionRequest(Snapshot("a.py", "a.py", "python", 3, "zero\nhere"), 9))
    assert (asked.snapshot.path, asked.snapshot.uri) == (str(tmp_path / "a.py"), "a.py")
    assert dict(folder.open_texts()) == {tmp_path / "lib/b.py": "zwei\n", tmp_path / "a.py": "zero\nhere"}
    assert list(folder.open_texts())[-1] == tmp_path / "a.py"
    folder.take(Save("a.py"))
    folder.take(Create("new/c.py", "three\n"))
    folder.take(Remove("lib/b.py"))
    files = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.py")}
    assert files == {"a.py": "zero\none\n", "new/c.py": "three\n"}
    assert tmp_path / "lib/b.py" not in folder.open_texts()


def test_what_each_run_saves() -> None:
    """The runs' savings are the ceiling's, and every step is told, so that the folder follows."""
    steps = (Edit("a.py", 0, 0, "value = 1\n", typed=True), Save("a.py"), Edit("a.py", 0, 0, "x = 2\n", typed=True))
    subset, told = Subset(steps, frozenset({0, 2}), 2, 14), list[Step]()
    top = ceiling(subset, TREE, lambda request: "value = 1"[request.offset :], lambda _: None, told.append)
    assert saved_by_run(subset, top) == {0: 9, 2: 0}
    assert top.saved == 9
    assert told == list(steps)


def test_the_difference_of_two_shares() -> None:
    """Of all keys, in points; where runs are equally long, its error is the plain one of a mean."""
    texts = ("abcd", "efgh", "ijkl", "mnop")
    steps = tuple(Edit("a.py", 0, 0, f"{text}\n", typed=True) for text in texts)
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
    """Code of other files costs tokens, is asked for in both ways over the same keys, and the report says so."""
    history, report = write_history(tmp_path), tmp_path / "r.json"
    line = ["bench", "keystroke", "--replay", str(history), "--against", "context.enabled=true", "--json", str(report)]
    assert main(line) == 0
    found = json.loads(report.read_text())
    assert found["runs"] == 1
    assert found["difference"] == pytest.approx(found["right"] - found["left"])
    assert all(tokens > 0 for tokens in found["tokens_a_key"])
    assert "keys saved" in capsys.readouterr().out


def test_a_setting_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before a model is loaded."""
    history = write_history(tmp_path)
    assert main(["bench", "keystroke", "--replay", str(history), "--against", "no.such=1"]) != 0
    assert "no.such" in capsys.readouterr().err
