"""The ceiling (a typist who waits for every full answer), and one setting against another by it."""

from pathlib import Path

from benchmarks.datasets.histories import Create, RecordedEdit, Remove, apply
from benchmarks.typist import keys
from benchmarks.typist.ceiling import OPEN_FILES, Tree, full_answers
from fastcoder_lsp.core import CompletionRequest

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
