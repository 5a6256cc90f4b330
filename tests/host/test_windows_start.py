"""How the host begins on Windows, with a system that is made here."""

from typing import Any

import pytest

from fastcoder_lsp.host.spawn import LEAVE_JOB, NO_WINDOW, OWN_GROUP, start_apart


class System:
    def __init__(self, *, job: bool) -> None:
        self.job, self.flags = job, list[int]()

    def start(self, command: list[str], *, cwd: str, creationflags: int) -> str:
        self.flags.append(creationflags)
        if self.job and creationflags & LEAVE_JOB:
            raise PermissionError(13, "Access is denied")
        return f"{command[0]} in {cwd}"


@pytest.mark.parametrize("job", [False, True])
def test_it_leaves_a_job_that_may_be_left(*, job: bool) -> None:
    """An editor that ends all of its job does not end it; where that may not be, it begins all the same."""
    system = System(job=job)
    assert start_apart(system.start, ["host"], cwd="C:/") == "host in C:/"
    assert bool(system.flags[-1] & LEAVE_JOB) is not job
    assert all(flags & NO_WINDOW and flags & OWN_GROUP for flags in system.flags)


def test_what_cannot_be_started_is_said() -> None:
    tried = []

    def start(**named: Any) -> None:
        tried.append(named)
        raise FileNotFoundError(2, "no such program")

    with pytest.raises(FileNotFoundError):
        start_apart(start)
    assert len(tried) == 1
