"""How long what is being said goes on while nobody waits for it. Lives on the event loop's thread."""

import asyncio
from collections.abc import Callable

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.remote.budgets import rest_ms


class Rest:
    """A time that runs from the last moment when somebody waited.

    Args:
        over: called at its end.
    """

    def __init__(self, over: Callable[[], object]) -> None:
        self._over = over
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, policy: Policy) -> None:
        """From now on nobody waits."""
        self.end()
        self._timer = asyncio.get_running_loop().call_later(rest_ms(policy) / 1e3, self._over)

    def end(self) -> None:
        """Somebody waits, or nothing is said any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
