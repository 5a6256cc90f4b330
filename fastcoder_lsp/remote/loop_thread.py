"""A thread with an event loop: what is asked of a server happens there, one thing after the other."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any


class LoopThread:
    """The thread; it runs at once."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fastcoder-remote", daemon=True)
        self._thread.start()

    def post(self, call: Callable[[], object]) -> None:
        """Do this there, in the order of the calls; nothing happens once it has ended."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(call)

    def end(self, last: Callable[[], Coroutine[Any, Any, None]], wait_s: float) -> None:
        """Do this last there; waits at most so long for it."""

        def begin() -> None:
            task = self.loop.create_task(last())
            task.add_done_callback(lambda _: self.loop.stop())

        self.post(begin)
        self._thread.join(wait_s)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
