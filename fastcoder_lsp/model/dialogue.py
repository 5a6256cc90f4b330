"""Offers, progress and questions of a download: plain values and the callables that take them."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DownloadOffer:
    """A download, announced before it begins.

    `download_bytes` go over the network, `disk_bytes` are needed in `folder`. For a replacement, `instead_of` names the
    requested model, `reason` says why it is unavailable, and `difference` describes the replacement; empty otherwise.
    `trust` names the publisher and the checks; empty where the name says it.
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
class ProgressStep:
    """Progress of one piece of work: `done` of `total`, in bytes, or (`in_bytes` false) in parts of the whole."""

    what: str
    done: int
    total: int
    in_bytes: bool = True


@dataclass(frozen=True, slots=True)
class Dialogue:
    """The listener of a download.

    `announce`: the requested download begins. `accept`: whether to take a replacement. `advance`: progress, from any
    thread. `note`: a line for the user.
    """

    announce: Callable[[DownloadOffer], None]
    accept: Callable[[DownloadOffer], bool]
    advance: Callable[[ProgressStep], None]
    note: Callable[[str], None]
