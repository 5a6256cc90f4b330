"""Whether the client's process still lives: some editors die without a word and leave our input open."""

import asyncio
import os
import time
from typing import Final, NoReturn

import psutil

GRACE_S: Final = 5.0
"""How long the event loop gets to end the process after its input has ended."""
_INTERVAL_S: Final = 1.0


def process_of(process_id: int) -> psutil.Process | None:
    """The client's process; None where it cannot be seen (the client is in another container)."""
    try:
        return psutil.Process(process_id)
    except (psutil.Error, ValueError, OverflowError):
        return None


async def wait_until_gone(process: psutil.Process) -> None:
    """Return once the process has ended."""
    while _lives(process):  # noqa: ASYNC110 - nothing tells us when another process ends
        await asyncio.sleep(_INTERVAL_S)


def exit_after(grace_s: float) -> NoReturn:
    """End the process, should it still be there then: the loop may be stuck in a write that nobody reads."""
    time.sleep(grace_s)
    os._exit(1)


def _lives(process: psutil.Process) -> bool:
    """Whether it is the same process (ids are used again), and no zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True
