"""Assigns documents to replicas by rendezvous hashing.

Owns the order of preference (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998). Every
router computes the same order without coordination. When a replica ends, its documents spread evenly over the others; a
new one takes only its own documents.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence


def place_of(*names: str) -> str:
    """A hash for a tenant's document; it does not reveal the names."""
    digest = hashlib.blake2b(digest_size=16)
    for name in names:
        encoded = name.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


def preferred(place: str, replicas: Iterable[str]) -> Sequence[str]:
    """All of `replicas` in order of preference for `place`."""
    return sorted(replicas, key=lambda replica: _score(place, replica), reverse=True)


def with_room(order: Sequence[str], open_: Mapping[str, int | None], most: int) -> Sequence[str]:
    """The first replica of an order of preference, and later ones with enough room for a new document.

    A document must be prefilled again on another replica. If all are busy, that would slow all of them down, so the
    document waits for its own replica, or is refused.

    Args:
        order: the replicas by preference.
        open_: each replica's open requests; None: unknown.
        most: most open requests of a replica.
    """
    return [*order[:1], *(name for name in order[1:] if (open_.get(name) or 0) <= most // 2)]


def _score(place: str, replica: str) -> bytes:
    return hashlib.blake2b(f"{place}\n{replica}".encode(), digest_size=8).digest()
