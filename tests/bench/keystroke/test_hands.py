"""How a person types: keys, rhythm, and when Tab is pressed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.typist import hands

code = st.text(st.sampled_from("ab_1 \t\n().,:=é😀"), max_size=60)


@given(code)
def test_opening_and_keys_are_the_text(said: str) -> None:
    """Nothing is lost, nothing is typed twice; a key is one character, or Enter with the blanks after it."""
    keys = hands.keys(said)
    assert hands.opening(said) + "".join(keys) == said
    assert all(len(key) == 1 or (key[0] == "\n" and not key[1:].strip(" \t")) for key in keys)


@given(code, st.sampled_from([5.0, 10.0]), st.text(max_size=5))
def test_the_rhythm_is_the_seeds(said: str, speed: float, seed: str) -> None:
    """Every key has its time, the same for the same seed."""
    keys = hands.keys(said)
    waits = hands.waits(keys, speed, seed)
    assert len(waits) == len(keys)
    assert all(wait > 0 for wait in waits)
    assert waits == hands.waits(keys, speed, seed)


def test_the_rhythm_keeps_the_speed() -> None:
    """A long line takes 1/speed a key on average, whatever the spread; looking around comes on top."""
    keys = hands.keys("x" * 4000)
    waits = hands.waits(keys, 5.0, "any")
    assert sum(waits[1:]) / len(waits[1:]) == pytest.approx(0.2, rel=0.03)
    assert hands.NEW_PLACE_S[0] < waits[0] < hands.NEW_PLACE_S[1] + 1
    assert hands.typing_seconds(keys, 5.0) == pytest.approx(sum(waits), rel=0.03)


@pytest.mark.parametrize(
    ("suggestion", "coming", "taken"),
    [
        ("value", "value", "value"),
        ("value)", "value)", "value)"),
        ("value = 1", "value = 2", "value = "),
        ("value", "values", ""),
        ("values", "value", ""),
        ("value, other", "value, another", "value, "),
        ("urn x", "urn y", "urn "),
        ("):", "):", ""),
        ("):\n    return", "):\n    return", "):\n    return"),
        ("x\n  y", "x\n    y", "x"),
        ("x\n    y", "x\n", "x\n"),
        ("", "x", ""),
        ("x", "", ""),
        ("x = 1\n\nmore", "x = 1", "x = 1"),
    ],
)
def test_what_tab_brings_in(suggestion: str, coming: str, taken: str) -> None:
    """Whole words and whole keys that agree with what comes next, and at least one word; else it is not pressed."""
    keys = hands.keys("#" + coming)[1:]
    count = hands.accepted_keys(suggestion, keys)
    assert "".join(keys[:count]) == taken


@given(code, code)
def test_what_tab_brings_in_agrees(suggestion: str, coming: str) -> None:
    """It is the beginning of both, holds a word, and cuts none in two."""
    taken = coming[: hands.agreeing(suggestion, coming)]
    assert suggestion.startswith(taken)
    if taken:
        assert any(letter.isalnum() or letter == "_" for letter in taken)
        for text in (suggestion, coming):
            around = text[len(taken) - 1 : len(taken) + 1]
            assert len(around) < 2 or not all(letter.isalnum() or letter == "_" for letter in around)
