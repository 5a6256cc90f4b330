"""The index of words: what identifiers consist of, and that its ranking is a naive one's after any changes."""

from math import log1p
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastcoder_lsp.core import at_once
from fastcoder_lsp.index import word_index
from fastcoder_lsp.index.terms import LineTerms, Terms, words_of
from fastcoder_lsp.index.word_index import WordIndex

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta_one", "thetaTwo")


@pytest.mark.parametrize(
    ("identifier", "expect"),
    [
        ("store", ["store"]),
        ("get_userName", ["get_username", "get", "user", "name"]),
        ("HTTPServer2", ["httpserver2", "http", "server"]),
        ("__init__", ["__init__", "init"]),
        ("a_b", ["a_b"]),
        ("größeÄndern", ["größeändern", "größeändern"][:1]),
    ],
)
def test_words_of_an_identifier(identifier: str, expect: list[str]) -> None:
    found = words_of(identifier)
    assert found[0] == expect[0]
    assert len(set(found)) == len(found)
    if identifier.isascii():
        assert found == expect


def test_words_by_lines() -> None:
    found = Terms().of_lines("user_name = 1\n\nname\n")
    assert found.lines == 4
    assert np.diff(found.starts_L).tolist() == [3, 0, 1, 0]
    assert found.terms_W[3] == found.terms_W[2]
    assert Terms().of_lines("").lines == 1


@given(st.text(st.sampled_from("ab_Z9 \n\u00e4"), max_size=80), st.integers(1, 12), st.integers(0, 40))
def test_words_found_part_by_part_are_the_same(text: str, part: int, names: int) -> None:
    whole, parts = Terms(), Terms()
    for one in (whole, parts):
        one.allow(names)
    expect = whole.of_lines(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastcoder_lsp.index.terms._PIECE", part)
        found, complete = at_once(parts.by_pieces(text))
    assert found.terms_W.tolist() == expect.terms_W.tolist()
    assert found.starts_L.tolist() == expect.starts_L.tolist()
    assert complete == (not whole.exhausted)


def test_forgotten_identifiers_have_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(f"name_{number}" for number in range(50))
    whole = Terms().of(text)
    monkeypatch.setattr("fastcoder_lsp.index.terms._KNOWN", 3)
    assert Terms().of(text).tolist() == whole.tolist()


Step = tuple[str, int, frozenset[str]]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "put", "remove", "merge")),
        st.integers(0, 9),
        st.frozensets(st.sampled_from(WORDS), min_size=1),
    ),
    max_size=30,
)


@given(STEPS, st.frozensets(st.sampled_from(WORDS), min_size=1))
@settings(max_examples=80, deadline=None)
def test_ranking_is_the_naive_one(steps: list[Step], asked: frozenset[str]) -> None:
    terms, index, files = Terms(), WordIndex(), dict[str, frozenset[int]]()
    for what, number, words in steps:
        key = f"file_{number}"
        if what == "put":
            assert index.put(key, terms.of(" ".join(words)))
            files[key] = frozenset(terms.of(" ".join(words)).tolist())
        elif what == "remove":
            index.remove(key)
            files.pop(key, None)
        else:
            index.merge()
    index.merge()  # until then, what went is still counted in how common words are
    question = np.unique(terms.of(" ".join(sorted(asked))))
    assert len(index) == len(files)
    assert all((key in index) for key in files)

    def weight(term: int) -> float:
        count = sum(term in words for words in files.values())
        return log1p((len(files) - count + 0.5) / (count + 0.5))

    mean = sum(map(len, files.values())) / max(len(files), 1)
    scores = {
        key: sum(weight(term) for term in question.tolist() if term in words) / (0.6 + 0.4 * max(len(words), 16) / mean)
        for key, words in files.items()
    }
    found = index.best(question, 100)
    assert set(found) == {key for key, score in scores.items() if score > 0}
    told = [scores[key] for key in found]
    assert told == pytest.approx(sorted(told, reverse=True), rel=1e-5)
    assert index.best(question, 3) == found[:3]


def test_a_change_is_found_at_once_and_what_went_is_not() -> None:
    terms, index = Terms(), WordIndex()
    for number in range(20):
        index.put(f"other_{number}", terms.of(f"filler_{number}"))
    index.put("file", terms.of("before_it"))
    index.merge()
    index.put("file", terms.of("after_that"))
    assert index.best(np.unique(terms.of("after_that")), 1) == ["file"]
    assert "file" not in index.best(np.unique(terms.of("before_it")), 30)
    index.remove("file")
    assert index.best(np.unique(terms.of("after_that")), 30) == []


def test_what_is_mapped_stays_so_while_little_changes(tmp_path: Path) -> None:
    terms, index, place = Terms(), WordIndex(), tmp_path / "words.bin"
    for number in range(5):
        index.put(f"file_{number}", terms.of(f"word_{number}"))
    word_index.write(place, index.stored())
    index.adopt(word_index.read(place) or pytest.fail("it is not read"))
    mapped = index.stored().postings
    index.put("file_1", terms.of("other"))
    index.remove("file_2")
    index.merge(4)
    assert index._base is mapped
    index.merge(3)
    assert index._base is not mapped
    assert index.best(terms.of("other"), 9) == ["file_1"]


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    terms, index = Terms(), WordIndex()
    monkeypatch.setattr(word_index, "MOST_FILES", 3)
    monkeypatch.setattr(word_index, "MOST_TERMS", 2)
    assert [index.put(f"file_{number}", terms.of("first second third")) for number in range(4)] == [True] * 3 + [False]
    assert index.best(terms.of("first"), 9) == ["file_0", "file_1", "file_2"]
    assert index.best(terms.of("third"), 9) == []
    assert index.put("file_0", terms.of("again")), "one that is known is taken in anew"
    monkeypatch.setattr(word_index, "MOST_POSTINGS", 1)
    index.merge()
    assert not index.put("file_1", terms.of("more"))


def test_numbers_of_files_do_not_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_index, "_NUMBERS", 40)
    terms, index = Terms(), WordIndex()
    for number in range(200):
        assert index.put("file", terms.of(f"word_{number}"))
    assert index.best(terms.of("word_199")[:1], 3) == ["file"]


def test_what_is_kept_is_what_was_known(tmp_path: Path) -> None:
    terms, index, place = Terms(), WordIndex(), tmp_path / "words" / "words.bin"
    for number, key in enumerate(("plain.py", "no\udce9 text.py", "größe\n.py", "gone.py")):
        assert index.put(key, terms.of(f"shared only_{number}"), stamp=number - (1 << 62))
    index.remove("gone.py")
    word_index.write(place, index.stored())
    again = WordIndex()
    again.adopt(word_index.read(place) or pytest.fail("it is not read"))
    assert again.known() == index.known() == ["plain.py", "no\udce9 text.py", "größe\n.py"]
    assert [again.stamp(key) for key in again.known()] == [number - (1 << 62) for number in range(3)]
    assert again.stamp("gone.py") is None
    for one in (index, again):
        one.put("plain.py", terms.of("another"), stamp=7)
        one.put("new.py", terms.of("shared"), stamp=8)
        one.merge()
        one.remove("größe\n.py")
    for asked in ("shared", "another", "only_1", "only_0"):
        assert again.best(np.unique(terms.of(asked)), 9) == index.best(np.unique(terms.of(asked)), 9)
    assert again.best(terms.of("another")[:1], 9) == ["plain.py"]


def test_what_is_kept_of_nothing(tmp_path: Path) -> None:
    place = tmp_path / "words.bin"
    assert word_index.read(place) is None
    word_index.write(place, WordIndex().stored())
    words = word_index.read(place)
    assert words is not None
    assert words.keys == ()
    again = WordIndex()
    again.adopt(words)
    assert again.put("file", Terms().of("word"))
    assert again.best(Terms().of("word"), 3) == ["file"]


def test_an_empty_index_and_an_empty_question() -> None:
    index = WordIndex()
    assert index.best(Terms().of("word"), 5) == []
    index.put("file", Terms().of(""))
    index.merge()
    assert index.best(Terms().of(""), 5) == []
    assert index.weights(Terms().of("word")).tolist() == pytest.approx([log1p(1.5 / 0.5)])
    assert LineTerms(np.zeros(0, np.int32), np.zeros(1, np.int32)).lines == 0
