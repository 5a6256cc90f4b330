"""The ceiling: a typist who waits for every full answer."""

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.datasets.histories import RecordedEdit, Save
from benchmarks.typist.ceiling import ceiling, full_answers, patient
from benchmarks.typist.hands import Subset, choose_runs, keys, keys_of
from benchmarks.typist.typist import KeyPosition
from fastcoder_lsp.core import CompletionRequest

TREE = {"a.py": "one\nold\ntwo\n"}
RUN = RecordedEdit("a.py", 4, 4, "    value = other\n", typed=True)


def test_every_key_is_asked_for_unless_the_last_answer_goes_on() -> None:
    """The document is what is there before the key: what the run replaces is gone, its line is open."""
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


def test_who_waits_takes_what_agrees() -> None:
    """Keys that accepts save; a suggestion taken is not typed."""
    strokes = tuple("value = other")
    assert patient(["value = ", *[""] * 13], strokes) == 8
    assert patient(["value = other", *[""] * 13], strokes) == 13
    assert patient([""] * 14, strokes) == 0
    assert patient(["", "alue", *[""] * 4, "= ", *[""] * 8], strokes) == 4


def test_steps_that_are_not_typed_are_made() -> None:
    """The later run stands in a tree with the earlier edits."""
    steps = (
        RecordedEdit("a.py", 0, 0, "zero\n", typed=True),
        Save("a.py"),
        RecordedEdit("a.py", 5, 4, "x\n", typed=True),
    )
    seen = []

    def ask(request: CompletionRequest) -> str:
        seen.append(request.snapshot.text)
        return "x"

    top = ceiling(Subset(steps, frozenset({2}), 2, 1), dict(TREE), ask, lambda _: None)
    assert seen[0] == "zero\n\nold\ntwo\n"
    assert (top.keys, top.saved, top.share) == (1, 1, 1.0)
    assert top.answers[KeyPosition(2, 0)] == "x"


@given(st.lists(st.text("ab\n ", max_size=120), max_size=12), st.one_of(st.none(), st.integers(0, 15)), st.integers())
def test_the_subset_is_the_seeds_choice(texts: list[str], limit: int | None, seed: int) -> None:
    """So many runs as asked for, none without keys, the same for the same seed, and no step after the last."""
    steps = [step for text in texts for step in (RecordedEdit("a.py", 0, 0, text + "\n", typed=True), Save("a.py"))]
    subset = choose_runs(steps, limit, seed)
    assert subset == choose_runs(steps, limit, seed)
    assert subset.runs == len(texts)
    assert subset.keys == sum(len(keys_of(step)) for step in subset.typed_steps().values())
    assert all(keys_of(step) for step in subset.typed_steps().values())
    assert len(subset.steps) == max(subset.typed, default=-1) + 1
    if limit is not None:
        assert len(subset.typed) == min(limit, sum(bool(keys(text)) for text in texts))
