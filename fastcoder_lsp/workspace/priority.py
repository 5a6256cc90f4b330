"""The priority of threads whose work nobody waits for."""

import os
import sys
import threading


def lower_priority() -> None:
    """Let the engine and the editor's requests go first, where a single thread's priority can be set."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
