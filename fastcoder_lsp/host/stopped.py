"""A process that was stopped (by SIGSTOP, by a task manager) goes on when somebody needs it.

A process that is merely busy, or whose machine sleeps, is not stopped: the system tells one from the other.
"""

import logging

import psutil

logger = logging.getLogger(__name__)


def resume(process_id: int) -> bool:
    """Have a stopped process go on; whether it was stopped."""
    try:
        process = psutil.Process(process_id)
        if process.status() != psutil.STATUS_STOPPED:
            return False
        process.resume()
    except (psutil.Error, ValueError):  # it has ended, or is in another container
        return False
    logger.warning("process %d was stopped, and goes on", process_id)
    return True
