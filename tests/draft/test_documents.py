"""Per-document memory: bounded, renamed, dropped."""

from fastcoder_lsp.draft.documents import PerDocument


def memory() -> PerDocument[list[str]]:
    return PerDocument(list, capacity=2)


def test_a_document_keeps_its_state() -> None:
    """The same object as long as the document lives; none for a decode without a document."""
    states = memory()
    states.fetch("a").append("x")
    assert states.fetch("a") == ["x"]
    states.fetch("").append("lost")
    assert states.fetch("") == []
    assert len(states) == 1


def test_the_least_recently_used_document_goes_first() -> None:
    """At most `capacity` documents."""
    states = memory()
    for name in ("a", "b"):
        states.fetch(name).append(name)
    states.fetch("a")
    states.fetch("c")
    assert states.fetch("a") == ["a"]
    assert states.fetch("b") == []


def test_a_renamed_document_keeps_its_state() -> None:
    """Under the new name alone, whatever was there before."""
    states = memory()
    states.fetch("old").append("mine")
    states.fetch("new").append("other")
    states.rename("old", "new")
    states.rename("unknown", "new")
    assert states.fetch("new") == ["mine"]
    assert states.fetch("old") == []


def test_a_closed_document_is_forgotten() -> None:
    """And closing an unknown one is no error."""
    states = memory()
    states.fetch("a").append("x")
    states.forget("a")
    states.forget("never seen")
    assert states.fetch("a") == []
