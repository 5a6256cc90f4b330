"""Per-document memory: bounded, renamed, dropped."""

from fastcoder_lsp.documents import LatestDocuments, PerDocument


def test_a_document_keeps_its_state_until_it_is_dropped() -> None:
    states: PerDocument[list[str]] = PerDocument(list, capacity=2)
    states.fetch("a").append("a")
    assert states.fetch("a") == ["a"]
    states.fetch("").append("lost")
    assert states.fetch("") == []
    assert len(states) == 1
    states.fetch("b").append("b")
    states.fetch("a")
    states.fetch("c")
    assert states.fetch("a") == ["a"]
    assert states.fetch("b") == []
    states.rename("a", "b")
    states.rename("unknown", "b")
    assert states.fetch("b") == ["a"]
    assert states.fetch("a") == []
    states.forget("b")
    states.forget("never seen")
    assert states.fetch("b") == []


def test_what_is_put_is_there_and_looking_is_no_use() -> None:
    kept: LatestDocuments[int] = LatestDocuments(capacity=2)
    for number, name in enumerate("ab"):
        kept.put(name, number)
    assert (kept.get("a"), kept.latest()) == (0, "b")
    kept.put("c", 2)
    assert (kept.get("a"), kept.values()) == (None, (1, 2))
    kept.put("b", 3)
    assert (kept.latest(), kept.values()) == ("b", (2, 3))


def test_renamed_to_itself_and_cleared() -> None:
    kept: LatestDocuments[int] = LatestDocuments()
    kept.put("a", 1)
    kept.put("b", 2)
    kept.rename("a", "a")
    assert (kept.latest(), kept.values()) == ("b", (1, 2))
    kept.clear()
    assert "a" not in kept
    assert kept.latest() is None
