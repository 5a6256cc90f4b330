"""How likely the words of a text are right, by the probabilities of tokens that end anywhere."""

from dataclasses import replace

import pytest

from fastcoder_lsp.core.certainty import Certainty, Row
from fastcoder_lsp.core.chances import UNKNOWN, Chances, Doubts, LeastChances, Word, chances_of


def weighed(*rows: tuple[str, dict[str, float]], healing: str = "") -> Certainty:
    """Tokens, each with the likely ones in its place."""
    made = [
        Row(said.encode(), tuple((piece.encode(), share) for piece, share in likely.items())) for said, likely in rows
    ]
    return Certainty(made, healing.encode())


CALL = weighed(
    ("get", {"get": 0.8, "put": 0.2}),
    ("_item", {"_item": 0.5, "_all": 0.4, "(": 0.1}),
    ("(", {"(": 0.9, "s": 0.1}),
    ("name", {"name": 0.5, "key": 0.5}),
    (")\n", {")\n": 0.9, ",": 0.1}),
    ("x", {"x": 0.4, "y": 0.6}),
)
TEXT = "get_item(name)\nx"
ENDS = (8, 14, 16)


def judged(text: str, certainty: Certainty) -> Chances:
    return chances_of(text, certainty, ENDS.__contains__)


def test_a_word_has_all_its_tokens_and_its_end() -> None:
    words = {word.end: word.chance for word in judged(TEXT, CALL).words}
    assert words[8] == pytest.approx(0.8 * 0.5 * 0.9)
    assert words[9] == 1.0  # the bracket, once the word has ended, is the only sign
    assert words[13] == pytest.approx(0.5 * 1.0)
    assert words[14] == pytest.approx(0.9)


def test_what_is_typed_of_a_word_counts_no_more() -> None:
    """Of the token that the cursor is in, those that agree with what was typed share the rest."""
    inside = judged(TEXT, CALL).inside
    assert inside[0] == pytest.approx(0.8 * 0.5 * 0.9)
    assert inside[1] == pytest.approx(1.0 * 0.5 * 0.9)  # no other likely token begins with g
    assert inside[4] == pytest.approx(0.5 / 0.9 * 0.9)  # after "get_", "_all" is the other one
    assert inside[5] == pytest.approx(1.0 * 0.9)


def test_the_typed_beginning_of_a_healed_token() -> None:
    certainty = weighed(("name", {"name": 0.3, "nice": 0.1, "other": 0.6}), ("(", {"(": 1.0}), healing="n")
    assert judged("ame", certainty).inside[0] == pytest.approx(0.75)


def test_a_text_that_postprocessing_changed_is_judged_up_to_the_change() -> None:
    assert [word.end for word in judged("get_item(name, 3)", CALL).words] == [8, 9, 13]
    assert judged("other", CALL) == UNKNOWN
    assert judged(TEXT, Certainty((), b"")) == UNKNOWN


def test_blanks_that_postprocessing_dropped() -> None:
    certainty = weighed((" x", {" x": 0.7, " y": 0.3}), ("(", {"(": 1.0}))
    assert judged("x(", certainty).inside == judged(" x(", certainty).inside[1:] == (0.7, 1.0)


WORDS = weighed(("cat", {"cat": 0.5, "dog": 0.5}), ("(", {"(": 0.5, "[": 0.5}), ("cats", {"cats": 0.5, "x": 0.5}))


@pytest.mark.parametrize(
    ("doubts", "powers"),
    [
        (Doubts("", {"cat", "cats"}.__contains__), [2, 1, 1, 2, 2, 1, 1, 1]),
        (Doubts("x = ", {"cat"}.__contains__), [2, 1, 1, 2, 6, 6, 6, 6]),
        (Doubts("x = ", {"cat"}.__contains__, grows=True), [2, 1, 1, 2, 2, 1, 1, 1]),
        (Doubts("wild", {"wildcat", "cats"}.__contains__), [1, 1, 1, 2, 2, 1, 1, 1]),
        (Doubts("wild", {"cat", "cats"}.__contains__), [6, 6, 6, 2, 2, 1, 1, 1]),
        (Doubts("", {"cat", "cats"}.__contains__, prose=True), [4, 2, 2, 4, 4, 2, 2, 2]),
    ],
    ids=["new", "unheard", "perhaps unfinished", "begun", "begun and unheard", "prose"],
)
def test_the_chance_that_a_word_is_wanted(doubts: Doubts, powers: list[int]) -> None:
    found = chances_of("cat(cats", WORDS, ENDS.__contains__, doubts)
    assert found.kept == pytest.approx([share**power for share, power in zip(found.inside, powers, strict=True)])
    assert [word.chance for word in found.words] == [found.kept[begin] for begin in (0, 3, 4)]


@pytest.mark.parametrize(
    ("before", "text", "powers"),
    [
        ("", "  x", [2, 6, 2]),
        ("  ", "  x", [6, 6, 2]),
        ("\t", "\tx", [6, 2]),
        ("x:", "  x", [2, 2, 2]),
        ("x:", "\n  x", [2, 2, 6, 2]),
        ("  ", "\n  x", [2, 2, 6, 2]),
        ("  ", "x  x", [2, 2, 2, 2]),
    ],
)
def test_how_deep_a_line_begins_is_unsure(before: str, text: str, powers: list[int]) -> None:
    doubts, begin = Doubts(before, {"x"}.__contains__), 1 if text == "x  x" else 0
    assert doubts.powers(text, begin, len(text)) == powers[begin:]


@pytest.mark.parametrize(
    ("limits", "shown"),
    [
        (LeastChances(), TEXT),
        (LeastChances(first=0.3, words=0.3), "get_item"),
        (LeastChances(first=0.3, words=0.17), "get_item"),
        (LeastChances(first=0.3, words=0.1, lines=0.1), "get_item(name)"),
        (LeastChances(first=0.3, lines=0.9), "get_item(name)"),
        (LeastChances(first=0.4), ""),
    ],
)
def test_the_part_that_keeps_the_limits(limits: LeastChances, shown: str) -> None:
    """It ends where it may."""
    found = judged(TEXT, CALL)
    assert TEXT[: found.sure_length(TEXT, 0, limits)] == shown


def test_the_rest_of_a_text_is_judged_from_the_cursor_on() -> None:
    found = judged(TEXT, CALL)
    rest = TEXT[9:]
    assert rest[: found.sure_length(rest, 9, LeastChances(first=0.5, words=0.4, lines=0.9))] == "name)"
    assert found.sure_length(rest, 9, LeastChances(first=0.6)) == 0


@pytest.mark.parametrize(("at", "is_shown"), [(9, True), (11, True), (12, False), (13, False)])
def test_a_part_that_saves_no_key_is_none(at: int, is_shown: bool) -> None:
    """`me)` and more appear before the line below, `e)` and `)` alone do not; the rest of a shown text stays."""
    found = chances_of(TEXT, CALL, range(len(TEXT) + 1).__contains__)
    few = LeastChances(first=0.4, words=0.4, lines=0.99)
    rest = TEXT[at:]
    assert found.sure_length(rest, at, few) == (len(rest) - 2 if is_shown else 0)
    assert found.sure_length(rest, at, replace(few, begun=True)) == len(rest) - 2


def test_the_next_word_of_a_shown_text_counts_as_new() -> None:
    """Within a word that the user types along, the model is right; the word behind it is not begun."""
    found = chances_of("cat(cats", WORDS, range(9).__contains__, Doubts("", {"cat", "cats"}.__contains__))
    begun = LeastChances(words=0.5, begun=True)
    assert found.sure_length("at(cats", 1, begun) == len("at")
    assert found.sure_length("(cats", 3, begun) == 0


def test_beyond_what_is_known_everything_stays() -> None:
    begun = Chances((Word(3, 0.9, ends=True),), (0.9,) * 3, (0.9,) * 3)
    assert begun.sure_length("abc def", 0, LeastChances(0.5, 0.5, 0.5)) == len("abc def")
    assert UNKNOWN.sure_length("abc", 0, LeastChances(1.0, 1.0, 1.0)) == len("abc")
