"""A worker that hangs is found, and one that slept with its machine is not taken for it."""

from collections.abc import Callable

from fastcoder_lsp.host.liveness import WorkerWatch

LOOK_S, HUNG_S = 10.0, 60.0


class Machine:
    """Fronts, a worker that answers when it is told to, and a clock that goes on while all of them sleep."""

    def __init__(self) -> None:
        self.now_s, self.asked, self.loads = 1000.0, True, False
        self.probes: list[Callable[[], object]] = []
        self.watch = WorkerWatch(self.probes.append, LOOK_S, lambda: self.now_s)

    def asking(self) -> bool:
        return self.asked

    def loading(self) -> bool:
        return self.loads

    def look(self, after_s: float = LOOK_S) -> float:
        self.now_s += after_s
        return self.watch.stuck_s(self)

    def answer(self) -> None:
        self.probes.pop()()


def test_a_worker_that_hangs_is_found() -> None:
    """A minute after it was asked, and not before."""
    machine = Machine()
    waited = [machine.look() for _ in range(8)]
    assert waited == [0, 10, 20, 30, 40, 50, 60, 70]
    assert len(machine.probes) == 1


def test_a_machine_that_slept_has_not_waited() -> None:
    """Nor has a process that was stopped: the worker is asked before a night, and answers after it."""
    machine = Machine()
    machine.look()
    assert machine.look(after_s=8 * 3600.0) < HUNG_S
    machine.answer()
    assert machine.look() == 0


def test_a_worker_that_slept_has_time_to_wake() -> None:
    """Several looks; if it hangs, it is found all the same."""
    machine = Machine()
    machine.look()
    waited = [machine.look(after_s=8 * 3600.0), *(machine.look() for _ in range(5))]
    assert sum(one <= HUNG_S for one in waited) >= 4
    assert waited[-1] > HUNG_S


def test_who_loads_a_model_does_not_hang() -> None:
    """However long that takes; then it is asked anew, and the answer to the old question says nothing."""
    machine = Machine()
    machine.look()
    machine.loads = True
    assert [machine.look() for _ in range(20)] == [0] * 20
    machine.loads = False
    machine.look()
    old = machine.probes.pop(0)
    old()
    assert machine.look() == LOOK_S
    machine.answer()
    assert machine.look() == 0


def test_nobody_is_asked_for_nobody() -> None:
    """A worker without questions is left alone."""
    machine = Machine()
    machine.asked = False
    assert machine.look() == 0
    assert not machine.probes
