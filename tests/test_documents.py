"""Per-document memory: bounded, renamed, dropped."""

from fastcoder_lsp.documents import LatestDocuments, PerDocument


def memory() -> PerDocument[list[str]]:
    return PerDocument(list, capacity=2)


def test_a_document_keeps_its_state() -> None:
    states = memory()
    states.fetch("a").append("x")
    assert states.fetch("a") == ["x"]
    states.fetch("").append("lost")
    assert states.fetch("") == []
    assert len(states) == 1


def test_the_least_recently_used_document_goes_first() -> None:
    states = memory()
    for name in ("a", "b"):
        states.fetch(name).append(name)
    states.fetch("a")
    states.fetch("c")
    assert states.fetch("a") == ["a"]
    assert states.fetch("b") == []


def test_a_renamed_document_keeps_its_state() -> None:
    states = memory()
    states.fetch("old").append("mine")
    states.fetch("new").append("other")
    states.rename("old", "new")
    states.rename("unknown", "new")
    assert states.fetch("new") == ["mine"]
    assert states.fetch("old") == []


def test_a_closed_document_is_forgotten() -> None:
    states = memory()
    states.fetch("a").append("x")
    states.forget("a")
    states.forget("never seen")
    assert states.fetch("a") == []


def test_what_is_put_is_there_and_looking_is_no_use() -> None:
    kept: LatestDocuments[int] = LatestDocuments(capacity=2)
    for number, name in enumerate("ab"):
        kept.put(name, number)
    assert (kept.get("a"), kept.latest()) == (0, "b")
    kept.put("c", 2)
    assert (kept.get("a"), kept.values()) == (None, (1, 2))
    kept.put("b", 3)
    assert (kept.latest(), kept.values()) == ("b", (2, 3))


def test_a_document_renamed_to_itself_changes_nothing() -> None:
    kept: LatestDocuments[int] = LatestDocuments()
    kept.put("a", 1)
    kept.put("b", 2)
    kept.rename("a", "a")
    assert (kept.latest(), kept.values()) == ("b", (1, 2))


def test_cleared() -> None:
    kept: LatestDocuments[int] = LatestDocuments()
    kept.put("a", 1)
    kept.clear()
    assert "a" not in kept
    assert kept.latest() is None
