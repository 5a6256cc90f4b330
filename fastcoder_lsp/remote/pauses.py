"""How long a server that failed is left alone: longer with each failure in a row, or as long as it asks for."""

from dataclasses import dataclass
from typing import Final

from fastcoder_lsp.remote.failures import RemoteError

PAUSES_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 60.0)


@dataclass(slots=True)
class Pauses:
    """The failures in a row.

    Attributes:
        steps_s: after the first failure, the second, and so on; the last one after all others.
        failure: the last one; None while all is well.
        until_ms: before then the server is not asked again.
    """

    steps_s: tuple[float, ...] = PAUSES_S
    failure: RemoteError | None = None
    until_ms: float = 0.0
    _in_a_row: int = 0

    def failed(self, error: RemoteError, now_ms: float) -> None:
        """It failed once more."""
        step_s = self.steps_s[min(self._in_a_row, len(self.steps_s) - 1)]
        self._in_a_row += 1
        self.failure, self.until_ms = error, now_ms + 1e3 * max(step_s, error.wait_s)

    def answered(self) -> None:
        """It has answered a question."""
        self.failure, self._in_a_row, self.until_ms = None, 0, 0.0

    def holds(self, now_ms: float) -> RemoteError | None:
        """Why it is not asked now; None where it may be."""
        if self.failure is None or now_ms >= self.until_ms:
            return None
        return self.failure
