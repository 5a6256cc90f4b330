"""The time that a training may take, from its start on."""

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Minutes:
    """`most`: minutes in all; None: as many as it takes."""

    most: float | None
    _started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Passed so far."""
        return time.monotonic() - self._started

    def left(self) -> float | None:
        """Minutes that are left; None where nobody counts them."""
        return None if self.most is None else self.most - self.seconds / 60
