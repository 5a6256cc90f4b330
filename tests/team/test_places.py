"""Which replica a document belongs to."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.team.calls import place_of, preferred, with_room

NAMES = st.lists(st.text("abcdef0123456789", min_size=1, max_size=8), min_size=1, max_size=12, unique=True)


@given(st.text(), NAMES, st.text("xyz", min_size=1, max_size=4))
def test_a_replica_that_comes_takes_only_its_own(document: str, replicas: list[str], new: str) -> None:
    """The order of the others stays: no document changes hands between two that were there before."""
    place = place_of("ada", "work", document)
    before, after = preferred(place, replicas), preferred(place, [*replicas, new])
    assert sorted(before) == sorted(replicas)
    assert [name for name in after if name != new] == list(before)
    assert list(preferred(place, reversed(replicas))) == list(before)


def test_documents_are_shared_out_evenly() -> None:
    """And those of a replica that goes to all others."""
    replicas = [f"replica-{number}" for number in range(4)]
    orders = [preferred(place_of("ada", "work", f"file_{number}.py"), replicas) for number in range(4000)]
    first = Counter(order[0] for order in orders)
    assert all(800 < count < 1200 for count in first.values()), first
    heirs = Counter(order[1] for order in orders if order[0] == replicas[0])
    assert all(count > 200 for count in heirs.values()), heirs
    assert set(heirs) == set(replicas[1:])


def test_names_do_not_run_together() -> None:
    assert place_of("a", "bc") != place_of("ab", "c")
    assert place_of("a\0", "b") != place_of("a", "\0b")


def test_a_document_leaves_its_replica_only_for_one_with_room_to_spare() -> None:
    """One that is half full has none: reading the document there would slow everybody there down."""
    loads = {"a": 8, "b": 5, "c": 4, "d": None}
    assert with_room(["a", "b", "c", "d"], loads, 8) == ["a", "c", "d"]
    assert with_room([], loads, 8) == []
