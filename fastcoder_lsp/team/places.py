"""Which replica a document belongs to: the same one each time, as far as replicas come and go.

Owns the order of preference: rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit
rates", 1998). Every router computes it alike with nothing to agree on; a replica that goes gives its documents to all
others evenly, and one that comes takes only those that are its own.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence


def place_of(*names: str) -> str:
    """What stands for a document of a tenant; tells nothing of the names."""
    digest = hashlib.blake2b(digest_size=16)
    for name in names:
        encoded = name.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


def preferred(place: str, replicas: Iterable[str]) -> Sequence[str]:
    """All of `replicas`, the one that `place` belongs to first, and each behind it the next where those are full."""
    return sorted(replicas, key=lambda replica: _score(place, replica), reverse=True)


def with_room(order: Sequence[str], open_: Mapping[str, int | None], most: int) -> Sequence[str]:
    """Of an order of preference: the first, and those behind it that have room to spare for who has never been there.

    A document that goes elsewhere is read anew there. Where all are busy that would slow all of them down, so it waits
    for its own replica then, or is refused.

    Args:
        order: by preference.
        open_: requests that each works on; None: nobody knows.
        most: that one works on at a time.
    """
    return [*order[:1], *(name for name in order[1:] if (open_.get(name) or 0) <= most // 2)]


def _score(place: str, replica: str) -> bytes:
    return hashlib.blake2b(f"{place}\n{replica}".encode(), digest_size=8).digest()
