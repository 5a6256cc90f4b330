"""Calls from the gateway to the replicas: their values, the replica of each, and those that a new replica reads first.

A document belongs to one replica by rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase
hit rates", 1998). Every router computes the same order without agreeing on anything. The documents of a replica that
ends go to all others evenly; a new replica takes only its own.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fastcoder_lsp.http.infill import InfillAnswer, InfillRequest

DOCUMENTS = 128  # most documents of a replica whose last calls are kept
CHARACTERS = 8_000_000  # most characters of these calls together
AGE_S = 120.0  # how long a call is kept: a client without requests since then may never come back
READ_S, READ_SOON_S = 10.0, 3.0
"""Seconds that a starting replica prefills: in an upgrade, while others do the work; and if one died or more are
needed, so that it is needed soon."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """The owner of a request; tenants never see each other's texts."""

    key: str = ""  # the key's id; "" without keys
    workspace: str = ""  # the client's name for it
    repositories: tuple[str, ...] = ()  # those that may draft


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a replica; `place`: a hash of the document's name, which replicas are chosen by."""

    place: str
    tenant: Tenant
    ask: InfillRequest


@dataclass(frozen=True, slots=True)
class ReplicaAnswer:
    """A replica's answer, after `waited_ms` in the replica, its queue included."""

    said: InfillAnswer
    replica: str
    waited_ms: float


@dataclass(frozen=True, slots=True)
class ReplicaRefusal:
    """A replica cannot answer."""

    code: int
    message: str


def place_of(*names: str) -> str:
    """A hash for a tenant's document; it does not reveal the names."""
    digest = hashlib.blake2b(digest_size=16)
    for name in names:
        encoded = name.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


def preferred(place: str, replicas: Iterable[str]) -> Sequence[str]:
    """All of `replicas` in order of preference for `place`."""

    def score(replica: str) -> bytes:
        return hashlib.blake2b(f"{place}\n{replica}".encode(), digest_size=8).digest()

    return sorted(replicas, key=score, reverse=True)


def with_room(order: Sequence[str], open_: Mapping[str, int | None], most: int) -> Sequence[str]:
    """The first replica of an order of preference, and later ones with enough room for a new document.

    A document must be prefilled again on another replica. If all are busy, that would slow all of them down, so the
    document waits for its own replica, or is refused. `open_`: each replica's open requests, None if unknown; at most
    `most` of a replica.
    """
    return [*order[:1], *(name for name in order[1:] if (open_.get(name) or 0) <= most // 2)]


@dataclass(frozen=True, slots=True)
class ReplicaCalls:
    """One replica's version, and the last call of each of its recent documents with its age in seconds."""

    name: str
    version: str
    calls: tuple[tuple[float, Call], ...]


class RecentCalls:
    """The last call of each document."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, tuple[float, Call]] = OrderedDict()
        self._characters = 0

    def keep(self, call: Call, now_s: float) -> None:
        """Record a call that was just answered."""
        self._drop(self._of.pop(call.place, None))
        self._of[call.place] = now_s, call
        self._characters += _length(call)
        while self._of and (len(self._of) > DOCUMENTS or self._characters > CHARACTERS or self._too_old(now_s)):
            self._drop(self._of.popitem(last=False)[1])

    def calls(self, now_s: float) -> tuple[tuple[float, Call], ...]:
        """All calls, the latest first, with their ages in seconds."""
        return tuple((now_s - at, call) for at, call in reversed(self._of.values()) if now_s - at <= AGE_S)

    def _too_old(self, now_s: float) -> bool:
        return now_s - next(iter(self._of.values()))[0] > AGE_S

    def _drop(self, kept: tuple[float, Call] | None) -> None:
        if kept is not None:
            self._characters -= _length(kept[1])


def coming(held: Iterable[ReplicaCalls], name: str, version: str) -> Sequence[tuple[float, Call]]:
    """The calls for documents of the new replica `name`, latest first, with ages; all in an upgrade."""
    all_held = list(held)
    staying = [one.name for one in all_held if one.version == version and one.name != name]
    latest: dict[str, tuple[float, Call]] = {}
    for one in all_held:
        for age_s, call in one.calls:
            if call.place not in latest or age_s < latest[call.place][0]:
                latest[call.place] = age_s, call
    own = (one for one in latest.values() if preferred(one[1].place, [*staying, name])[0] == name)
    return sorted(own, key=lambda one: one[0])


def time_to_read(held: Iterable[ReplicaCalls], version: str) -> float:
    """Seconds that a starting replica may prefill; more in an upgrade, when no request waits for it."""
    return READ_S if any(one.version != version for one in held) else READ_SOON_S


def _length(call: Call) -> int:
    return len(call.ask.before) + len(call.ask.after)
