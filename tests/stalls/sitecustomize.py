"""Processes that stand still now and then, and threads that go on late, as on a machine that is busy elsewhere.

Python imports this by itself where the folder is in PYTHONPATH: `--stalls` puts it there, for all that a test starts.
A test that fails with it and not without depends on who is quicker.
"""

import ctypes
import os
import random
import selectors
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable
from typing import Any

VARIABLE = "FASTCODER_TEST_STALLS"
_BETWEEN_S = 1.0
"""The mean time between two stops of a process."""
_LONG = 0.05
"""The share of stops that are long ones."""
_LONG_S, _SHORT_S = 2.0, (0.02, 0.3)
_LATE, _LATE_S = 0.01, 0.4
"""The share of waits after which a thread goes on late, and by how much at most."""
_sleep = time.sleep


def begin() -> None:
    """From now on this process stands still at times, and so do those forked from it."""
    chance = random.Random()
    threading.Condition.wait = _late(threading.Condition.wait, chance)  # type: ignore[method-assign]
    threading.Event.set = _late(threading.Event.set, chance)  # type: ignore[method-assign]
    selector: Any = selectors.DefaultSelector
    selector.select = _late(selector.select, chance)
    start_new_thread(_stop_at_times, (chance,))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: start_new_thread(_stop_at_times, (chance,)))


def _late(wait: Callable[..., Any], chance: random.Random) -> Callable[..., Any]:
    def waited(*arguments: Any, **named: Any) -> Any:
        came = wait(*arguments, **named)
        if chance.random() < _LATE:
            _sleep(chance.uniform(0, _LATE_S))
        return came

    return waited


def _stop_at_times(chance: random.Random) -> None:
    """Hold all threads that run Python: this call does not let the interpreter go while it sleeps."""
    usleep = ctypes.PyDLL(None).usleep
    while True:
        _sleep(chance.expovariate(1 / _BETWEEN_S))
        left_s = _LONG_S if chance.random() < _LONG else chance.uniform(*_SHORT_S)
        while left_s > 0:
            usleep(int(1e6 * min(left_s, 0.9)))  # some systems take less than a second only
            left_s -= 0.9


if os.environ.get(VARIABLE) and sys.platform != "win32":
    begin()
