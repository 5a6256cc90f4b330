"""How much each key may ask for: requests at a time, and requests a minute by a bucket that fills evenly.

Owns the counts. Used by the event loop's thread alone; the clock is handed in.
"""

import math
from dataclasses import dataclass

_BURST = 0.2
"""The share of a minute's requests that may come at once."""
_FORGET = 10_000
"""Keys that are remembered; those beyond are full again anyway."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not now.

    Attributes:
        message: for a person.
        after_s: seconds until it is worth trying again, a whole number.
    """

    message: str
    after_s: int


@dataclass(slots=True)
class _Account:
    left: float
    filled_s: float
    open: int = 0


class Ledger:
    """What every key has of its limits."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def enter(self, key: str, *, most_open: int, a_minute: int, now_s: float) -> Refusal | None:
        """One more request of a key begins, or why it may not; only one that began is to `leave`."""
        most = max(1.0, a_minute * _BURST)
        account = self._accounts.setdefault(key, _Account(most, now_s))
        account.left = min(most, account.left + (now_s - account.filled_s) * a_minute / 60.0)
        account.filled_s = now_s
        if account.open >= most_open:
            return Refusal(f"too many requests: this key has {account.open} open", 1)
        if account.left < 1.0:
            return Refusal(
                f"too many requests: this key may send {a_minute} a minute",
                math.ceil((1.0 - account.left) * 60.0 / a_minute),
            )
        account.left -= 1.0
        account.open += 1
        self._trim()
        return None

    def leave(self, key: str) -> None:
        """A request that began is answered."""
        self._accounts[key].open -= 1

    def open_of(self, key: str) -> int:
        """How many requests of a key are open."""
        account = self._accounts.get(key)
        return account.open if account else 0

    def _trim(self) -> None:
        if len(self._accounts) > _FORGET:
            idle = [key for key, account in self._accounts.items() if not account.open]
            for key in idle[: len(idle) // 2]:
                del self._accounts[key]
