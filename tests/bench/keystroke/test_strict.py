"""The strict taker, and the texts that are in the way."""

import pytest

from benchmarks.datasets.histories import RecordedEdit
from benchmarks.keystroke import in_the_way
from benchmarks.keystroke_figures import flaws
from benchmarks.typist import hands
from benchmarks.typist.ceiling import patient
from benchmarks.typist.replay import Flaw, Request, flaw_of
from benchmarks.typist.typist import KeyPosition
from tests.bench.keystroke.test_typist import MadeUpServer, replayed, whole


@pytest.mark.parametrize(
    ("suggestion", "coming", "taken"),
    [
        ("value", "value", "value"),
        ("value + wrong", "value + 1", ""),
        ("value)", "value", ""),
        ("value", "value + 1", "value"),
        ("value \nwrong", "value\nother", "value"),
        ("value\nmore\n", "value\nmore\nlast", "value\nmore"),
        ("a\n    bc", "a\n    bcd", "a\n    bc"),
        ("abc\n  ", "abc\n    d", "abc"),
        ("):", "):", ""),
        ("", "value", ""),
        ("value", "", ""),
    ],
)
def test_what_a_strict_taker_takes(suggestion: str, coming: str, taken: str) -> None:
    """A text that comes next as a whole, or the rest of the line; three characters at least, in whole keys."""
    keys = hands.keys("#" + coming)[1:]
    assert "".join(keys[: hands.strictly_accepted_keys(suggestion, keys)]) == taken


def test_nothing_wrong_is_brought_in_and_no_part_is_told() -> None:
    """The line is taken alone, with no key to delete what follows; only an accept of all of it is told."""
    server = MadeUpServer(lambda text, offset: "value\nwrong" if text[:offset].endswith("= ") else "", 0.01)
    history = whole([RecordedEdit("a.py", 0, 0, "x = value\ny\n", typed=True)])
    account = replayed(server, {"a.py": ""}, history, taker=hands.STRICT)
    assert (account.accepts, account.saved, account.typed) == (1, len("value"), len("x = ") + 2)
    assert all(request.place is not None for request in account.requests)
    assert server.told_accepts == 0
    right = MadeUpServer(lambda text, offset: "value" if text[:offset].endswith("= ") else "", 0.01)
    assert replayed(right, {"a.py": ""}, history, taker=hands.STRICT).saved == len("value")
    assert right.told_accepts == 1


def test_the_ceiling_is_by_the_same_rule() -> None:
    answers = ["value = other", *[""] * 13]
    assert patient(answers, tuple("value = wrong"), hands.STRICT) == 0
    assert patient(answers, tuple("value = other"), hands.STRICT) == 13


@pytest.mark.parametrize(
    ("shown", "before", "coming", "flaw"),
    [
        (")", "f(x", ")", "marks"),
        ("```", "x = 1\n", "y", "wrong marks"),
        ("et", "orders", "", "longer word"),
        ("et", "orders", ".pop()", "longer word"),
        ("s", "order", "s", ""),
        ("x", "order", "s", ""),
        (".pop()", "orders", "", ""),
        ("value", "x = ", "other", ""),
    ],
)
def test_texts_in_the_way(shown: str, before: str, coming: str, flaw: Flaw) -> None:
    """Marks alone, and letters behind a word that is finished; a word that goes on is none of these."""
    assert flaw_of(shown, before, coming) == flaw


def test_the_replay_notes_flaws_where_they_are_shown() -> None:
    server = MadeUpServer(lambda text, offset: "s" if text[:offset].endswith("xy") else "", 0.01)
    account = replayed(server, {"a.py": ""}, whole([RecordedEdit("a.py", 0, 0, "xy = 1\n", typed=True)]))
    flawed = [request.place for request in account.requests if request.flaw == "longer word"]
    assert flawed == [KeyPosition(0, 2)]


def test_shares_are_of_what_the_model_made() -> None:
    """Answers from memory do not count."""

    def request(flaw: Flaw, finish: str = "stop") -> Request:
        return Request(KeyPosition(0, 0), through=False, outcome="shown", ms=1.0, finish=finish, flaw=flaw)

    requests = [request(""), request("marks"), request("wrong marks"), request("longer word")]
    found = flaws([*requests, request("marks", "typed-through")])
    assert found == {"flaws": {"marks": 1, "wrong marks": 1, "longer word": 1}, "flawed": 0.75}
    assert in_the_way({**found, "shown": 4}) == (0.5, 0.25, 0.25)
    assert flaws([])["flawed"] is None
