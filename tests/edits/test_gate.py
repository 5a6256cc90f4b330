"""Which edits are asked for and shown: the gate, the probability of what changed, the smallest edits."""

from math import exp, inf, isclose, log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from fastcoder_lsp.core import Change
from fastcoder_lsp.core.certainty import Certainty, Row
from fastcoder_lsp.core.reason_codes import CODES
from fastcoder_lsp.edits.gate import PAUSE_MS, EditFacts, EditGate, Inserted, rewrite_probability
from fastcoder_lsp.edits.learned import read_counts
from fastcoder_lsp.edits.minimal import MOST_DIFFERENCES, apply, minimal
from fastcoder_lsp.edits.values import MOST_EDITS, Edit, EditQuestion

TEXT = "".join(f"line {number}\n" for number in range(30))
CHANGE = Change("a.py", 10, "old 10\n", "line 10\n")


def question(*history: Change, cursor: int = 10, invoked: bool = False) -> EditQuestion:
    offset = TEXT.index(f"line {cursor}\n")
    return EditQuestion(1, "file:///a.py", "a.py", "python", 1, TEXT, offset, history, invoked)


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
    moved = structs.replace(asked, text="\n" + TEXT, offset=asked.offset + 1)
    again = gate.after(moved, [Edit(edits[0].start + 1, edits[0].end + 1, "x")], 0.9, 0.7)
    assert again is not None
    assert again.code == "edit-rejected"
    assert gate.after(structs.replace(asked, invoked=True), edits, 0.9, 0.7) is None
    assert gate.after(asked, [edit("line 20", "y")], 0.9, 0.7) is None
    gate.rejected(asked, edits, 3_000)
    gate.accepted()
    assert gate.before(asked, EditFacts(3_000)) is None
    for number in range(100):
        gate.rejected(asked, [edit("line 21", f"{number}")], 0)
    assert gate.after(asked, edits, 0.9, 0.7) is None  # only the latest are remembered


COPIED, CHANGED = 0.9, 0.5


@pytest.mark.parametrize(
    ("old", "answer", "counted"),
    [
        pytest.param("abcd", "abcd", "", id="nothing changed"),
        pytest.param("abcd", "abXYcd", "XY", id="inserted"),
        pytest.param("abcd", "aXd", "X", id="replaced by fewer"),
        pytest.param("abcdef", "aXcdYf", "XY", id="two places"),
        pytest.param("abcd", "ad", "d", id="left out: what was said instead"),
        pytest.param("abcd", "ab", "", id="the end left out, without an end mark"),
        pytest.param("abcd$", "ab$", "$", id="the end left out"),
        pytest.param("", "XY", "XY", id="no old text"),
        pytest.param("ab", "", "", id="no answer"),
    ],
)
def test_only_what_differs_counts(old: str, answer: str, counted: str) -> None:
    logs = [log(CHANGED if one in counted else COPIED) for one in answer]
    found = rewrite_probability([*map(ord, old)], [*map(ord, answer)], logs)
    assert isclose(found, CHANGED ** len(counted))


def test_a_long_rewrite_counts_whole() -> None:
    """Repeated tokens make alignments slow, so a long change of many is not aligned."""
    old, answer = [1, *[2, 3] * 2000, 4], [1, *[3, 2, 2] * 1500, 4]
    assert isclose(rewrite_probability(old, answer, [-0.001] * len(answer)), exp(-0.001 * 4500))


def test_a_token_that_was_not_likely_makes_it_impossible() -> None:
    rows = [Row(b"a", ((b"a", 0.75), (b"b", 0.25))), Row(b"x", ((b"y", 1.0),))]
    logs = Certainty(rows, b"").log_probabilities()
    assert logs == (log(0.75), -inf)
    assert rewrite_probability([1, 2], [1, 3], logs) == 0.0
    assert rewrite_probability([5, 3], [1, 3], logs) == 0.75


TEXTS = st.text("ab_ \n\r.ß", max_size=40)


@given(TEXTS, TEXTS, st.data())
def test_the_edits_give_the_new_text(text: str, new: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    edits = minimal(text, start, end, new)
    assert apply(text, edits) == text[:start] + new + text[end:]
    assert bool(edits) == (text[start:end] != new)
    bounds = [bound for edit in edits for bound in (edit.start, edit.end)]
    assert bounds == sorted(bounds)
    assert all(start <= bound <= end for bound in bounds)
    assert not any(text[start:end][bound - start - 1 : bound - start + 1] == "\r\n" for bound in bounds)


@pytest.mark.parametrize(
    ("old", "new", "edits"),
    [
        ("    user = fetch(a)\n", "    user = await fetch(a)\n", [("", "await ")]),
        ("a\n    b\n", "a\n    x\n    b\n", [("", "    x\n")]),
        ("a\n    x\n    b\n", "a\n    b\n", [("    x\n", "")]),
        ("group_by_cat(i)", "group_by_category(i)", [("", "egory")]),
        ("map[x]", "mop[x]", [("map", "mop")]),
        ("a", "a\nx", [("", "\nx")]),
        ("f(a)\n\n\ng(a)\n", "f(b)\n\n\ng(b)\n", [("a)\n\n\ng(a", "b)\n\n\ng(b")]),
        ("f(a)\n\n\n\ng(a)\n", "f(b)\n\n\n\ng(b)\n", [("a", "b"), ("a", "b")]),
        ("a\r\nb\r\n", "a\nb\r\n", [("\r\n", "\n")]),
    ],
)
def test_the_edits_cover_what_differs(old: str, new: str, edits: list[tuple[str, str]]) -> None:
    assert [(old[edit.start : edit.end], edit.text) for edit in minimal(old, 0, len(old), new)] == edits


def test_hostile_texts_cost_little_and_give_few_edits() -> None:
    many = "".join(f"{line}\n\n\n\n" for line in range(MOST_DIFFERENCES))
    for old, new in (
        ("a\nb\n" * 50_000, "b\nc\n" * 50_000),
        ("x" * 1_000_000, "y" * 1_000_000),
        ("a\n" * 50_000, "a\n" * 50_100 + "b"),
        (many, many.replace("1", "2", MOST_EDITS * 2)),
    ):
        edits = minimal(old, 0, len(old), new)
        assert len(edits) <= MOST_EDITS
        assert apply(old, edits) == new


def test_two_rejections_of_a_kind_in_a_row_silence_it_until_the_user_asks() -> None:
    gate, asked, edits = EditGate(), question(CHANGE), [edit("line 20", "x")]
    for made in (False, True, False):
        gate.learned.settle("rename", "python", made=made)
        assert gate.after(asked, edits, 0.9, 0.7, kind="rename") is None
    gate.learned.settle("rename", "python", made=False)
    silent = gate.after(asked, edits, 0.9, 0.7, kind="rename")
    assert silent is not None
    assert silent.code == "edit-silent"
    assert gate.after(asked, edits, 0.9, 0.7, kind="analogy") is None
    assert gate.after(question(CHANGE, invoked=True), edits, 0.9, 0.7, kind="rename") is None
    gate.learned.wake()
    assert gate.after(asked, edits, 0.9, 0.7, kind="rename") is None


def test_a_kind_that_is_seldom_made_in_a_language_comes_by_key_only() -> None:
    gate, asked, edits = EditGate(), question(CHANGE), [edit("line 20", "x")]
    counts = [
        (asked.language, "rename made", 1),
        (asked.language, "rename rejected", 6),
        ("rust", "rename rejected", 99),
    ]
    gate.learned.learn(*read_counts([*counts, (asked.language, "shown", 5)]))
    assert gate.after(asked, edits, 0.9, 0.7, kind="rename") is None, "seven say too little"
    gate.learned.learn(*read_counts(counts[1:2]))
    held = gate.after(asked, edits, 0.9, 0.7, kind="rename")
    assert held is not None
    assert held.code == "edit-unwanted"
    assert gate.after(question(CHANGE, invoked=True), edits, 0.9, 0.7, kind="rename") is None
