"""Which replica a document belongs to: the same one each time, as far as replicas come and go.

Owns the order of preference: rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit
rates", 1998). Every router computes it alike with nothing to agree on; a replica that goes gives its documents to all
others evenly, and one that comes takes only those that are its own.
"""

import hashlib
from collections.abc import Iterable, Sequence


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


def _score(place: str, replica: str) -> bytes:
    return hashlib.blake2b(f"{place}\n{replica}".encode(), digest_size=8).digest()
