"""How the host begins on Windows, where a process has no parent that it could leave, but a window and a job.

Owns the flags. A job is what an editor may put all its processes in, to end them with itself; who may leave one, leaves
it. Without a window of its own, and without one for each program that it starts (a conversion, a look at the GPU).
(Microsoft: Process Creation Flags; Job Objects.)
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

Process = TypeVar("Process")

NO_WINDOW: Final = 0x08000000
"""CREATE_NO_WINDOW: a console that nobody sees, which what it starts has too; DETACHED_PROCESS would be none, and each
of those would open one."""
OWN_GROUP: Final = 0x00000200
"""CREATE_NEW_PROCESS_GROUP: Ctrl+C in the editor's console is not for it."""
LEAVE_JOB: Final = 0x01000000
"""CREATE_BREAKAWAY_FROM_JOB, which a job may forbid: then there is no process."""


def start_apart(start: Callable[..., Process], *arguments: Any, **named: Any) -> Process:
    """`start(...)`, as `subprocess.Popen`, of a process that outlives who starts it, if that one's job may be left.

    Raises:
        OSError: there can be none.
    """
    try:
        return start(*arguments, **named, creationflags=NO_WINDOW | OWN_GROUP | LEAVE_JOB)
    except PermissionError:
        return start(*arguments, **named, creationflags=NO_WINDOW | OWN_GROUP)
