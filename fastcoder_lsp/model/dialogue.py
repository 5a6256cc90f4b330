"""What fetching tells and asks: plain values and the callables that take them. Owns no terminal."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that would be fetched, said before it is.

    `download_bytes` go over the network, `disk_bytes` are needed in `folder`. Where this is not what was asked for,
    `instead_of` names that, `reason` says why it cannot be had, and `difference` what this is; empty otherwise.
    `trust` says who published it, and what is checked of it; empty where that is known by its name.
    """

    what: str
    download_bytes: int
    disk_bytes: int
    origin: str
    licence: str
    folder: str
    instead_of: str = ""
    reason: str = ""
    difference: str = ""
    trust: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """How far one piece of work is: `done` of `total`, in bytes, or (`in_bytes` false) in parts of the whole."""

    what: str
    done: int
    total: int
    in_bytes: bool = True


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Who listens while a model is fetched.

    `announce`: what is fetched now, as asked for. `accept`: may this stand in for what was asked? `advance`: progress,
    from any thread. `note`: a line worth reading.
    """

    announce: Callable[[Offer], None]
    accept: Callable[[Offer], bool]
    advance: Callable[[Step], None]
    note: Callable[[str], None]
