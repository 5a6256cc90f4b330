"""The gate of next edits: when the model is asked, and which edits are shown."""

from dataclasses import replace

import pytest

from fastcoder_lsp.core import Change
from fastcoder_lsp.edits.gate import CODES, PAUSE_MS, EditFacts, EditGate, Inserted
from fastcoder_lsp.edits.values import Edit, EditQuestion

TEXT = "".join(f"line {number}\n" for number in range(30))
CHANGE = Change("a.py", 10, "old 10\n", "line 10\n")


def question(*history: Change, cursor: int = 10, invoked: bool = False) -> EditQuestion:
    offset = TEXT.index(f"line {cursor}\n")
    return EditQuestion(1, "file:///a.py", "a.py", "python", 1, TEXT, offset, history, 0.0, invoked)


def edit(old: str, new: str) -> Edit:
    start = TEXT.index(old)
    return Edit(start, start + len(old), new)


def typed(*ages_ms: float, characters: int = 1, lines: int = 0, accepted: bool = False) -> EditFacts:
    return EditFacts(10_000, inserted=tuple(Inserted(10_000 - age, characters, lines, accepted) for age in ages_ms))


@pytest.mark.parametrize(
    ("history", "facts", "code", "by_key"),
    [
        ((CHANGE,), typed(600), None, None),
        ((), typed(600), "edit-unmodified", "edit-unmodified"),
        ((CHANGE,), EditFacts(0, modified=False), "edit-unmodified", None),
        ((CHANGE,), typed(9_000, 700, characters=0), "edit-deletion", None),
        ((CHANGE,), typed(9_000, 8_000, 700, characters=0), None, None),
        ((CHANGE,), typed(0, 200, 400), "edit-typing", None),
        ((CHANGE,), typed(0, 200, 600), None, None),
        ((CHANGE,), typed(1_400, characters=200), "edit-pasted", None),
        ((CHANGE,), typed(1_400, 700, lines=4), "edit-pasted", None),
        ((CHANGE,), typed(1_600, characters=200), None, None),
        ((CHANGE,), typed(1_400, characters=200, accepted=True), None, None),
    ],
)
def test_before(history: tuple[Change, ...], facts: EditFacts, code: str | None, by_key: str | None) -> None:
    for invoked, expected in ((False, code), (True, by_key)):
        reason = EditGate().before(question(*history, invoked=invoked), facts)
        assert (reason and reason.code) == expected
        assert reason is None or reason.code in CODES


MANY = "".join(f"line {number}\n" for number in range(2, 8))


@pytest.mark.parametrize(
    ("edits", "code", "by_key"),
    [
        ([edit("line 20", "line twenty")], None, None),
        ([], "edit-none", "edit-none"),
        ([edit("line 20", "line 20")], "edit-none", "edit-none"),
        ([edit("line 20\n", "line 20  \n\n\n")], "edit-blank", "edit-blank"),
        ([edit("line 10", "old 10")], "edit-revert", None),
        ([edit("line 10\n", "")], "edit-revert", None),
        ([edit("line 20\n", "")], None, None),
        ([edit("line 3\n", "new\nline 3\n")], "edit-above", None),
        ([edit("line 3\n", "async line 3\n")], None, None),
        ([edit("line 10\n", "new\nline 10\n")], None, None),
        ([edit("line 3\n", "new\nline 3\n"), edit("line 20", "x")], None, None),
        ([edit("line 11\n", "new\nline 11\n")], None, None),
        ([edit(MANY, "x\n" * 6)], "edit-above", None),
        ([edit(MANY, "x\n" * 5)], None, None),
    ],
)
def test_after(edits: list[Edit], code: str | None, by_key: str | None) -> None:
    for invoked, expected in ((False, code), (True, by_key)):
        reason = EditGate().after(question(CHANGE, invoked=invoked), edits, 0.9, 0.7)
        assert (reason and reason.code) == expected
        assert reason is None or reason.code in CODES


@pytest.mark.parametrize("invoked", [False, True])
def test_unsure_and_cut_answers(invoked: bool) -> None:
    asked, edits = question(CHANGE, invoked=invoked), [edit("line 20", "x")]
    unsure, cut = EditGate().after(asked, edits, 0.69, 0.7), EditGate().after(asked, edits, 0.9, 0.7, cut=True)
    assert unsure is not None
    assert cut is not None
    assert (unsure.code, cut.code) == ("edit-unsure", "edit-cut")
    assert "69%, and the threshold is 70%" in unsure.text


def test_rejections() -> None:
    gate, asked, edits = EditGate(), question(CHANGE), [edit("line 20", "x")]
    gate.rejected(asked, edits, 1_000)
    paused, later = gate.before(asked, EditFacts(2_000)), gate.before(asked, EditFacts(1_000 + PAUSE_MS))
    assert (paused and paused.code, later) == ("edit-paused", None)
    moved = replace(asked, text="\n" + TEXT, offset=asked.offset + 1)
    again = gate.after(moved, [Edit(edits[0].start + 1, edits[0].end + 1, "x")], 0.9, 0.7)
    assert again is not None
    assert again.code == "edit-rejected"
    assert gate.after(replace(asked, invoked=True), edits, 0.9, 0.7) is None
    assert gate.after(asked, [edit("line 20", "y")], 0.9, 0.7) is None
    gate.rejected(asked, edits, 3_000)
    gate.accepted()
    assert gate.before(asked, EditFacts(3_000)) is None
    for number in range(100):
        gate.rejected(asked, [edit("line 21", f"{number}")], 0)
    assert gate.after(asked, edits, 0.9, 0.7) is None  # only the latest are remembered
