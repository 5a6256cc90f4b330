"""A silent shared process and a hanging worker are found and replaced; a machine that slept is not taken for either."""

from collections.abc import Callable

from fastcoder_lsp.host.liveness import Heartbeat, SilenceLimits, WorkerWatch

LOOK_S, HUNG_S = 10.0, 60.0


class Machine:
    """Fronts, a worker that answers when it is told to, and a clock that goes on while all of them sleep."""

    def __init__(self) -> None:
        self.now_s, self.asked, self.loads = 1000.0, True, False
        self.probes: list[Callable[[], object]] = []
        self.watch = WorkerWatch(self.probes.append, LOOK_S, lambda: self.now_s)

    def look(self, after_s: float = LOOK_S) -> float:
        self.now_s += after_s
        return self.watch.stuck_s(asking=self.asked, loading=self.loads)

    def answer(self) -> None:
        self.probes.pop()()


def test_a_worker_that_hangs_is_found() -> None:
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
    machine = Machine()
    machine.look()
    waited = [machine.look(after_s=8 * 3600.0), *(machine.look() for _ in range(5))]
    assert sum(one <= HUNG_S for one in waited) >= 4
    assert waited[-1] > HUNG_S


def test_a_worker_that_loads_a_model_does_not_count_as_hung() -> None:
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


def test_without_a_question_no_worker_is_probed() -> None:
    machine = Machine()
    machine.asked = False
    assert machine.look() == 0
    assert not machine.probes


class Watched:
    """A heartbeat whose looks the test takes itself: what counts is how often it could look, and no clock."""

    def __init__(self) -> None:
        self.awaited, self.loading, self.did = True, False, list[str]()
        self.heartbeat = Heartbeat(
            lambda: self.awaited,
            lambda: self.loading,
            lambda: self.did.append("ask"),
            lambda: self.did.append("resume"),
            lambda: self.did.append("silent"),
            lambda: self.did.append("hung"),
            SilenceLimits(tick_s=3600, asked=2, silent=5, hung=9, loading=3),
        )

    def look(self, times: int) -> list[str]:
        """What came of so many more looks."""
        self.did.clear()
        for _ in range(times):
            self.heartbeat._look()
        return [what for what in self.did if what != "resume"]

    def resumed(self) -> int:
        """How often it was to go on, during the last looks."""
        return self.did.count("resume")


def test_a_stopped_host_goes_on_soon_and_before_it_is_given_up() -> None:
    watched = Watched()
    watched.look(1)
    assert not watched.resumed()
    for _ in range(5):
        watched.look(1)
        assert watched.resumed()
    watched.heartbeat.close()


def test_a_silent_host_is_asked_given_up_and_replaced() -> None:
    watched = Watched()
    assert [watched.look(looks) for looks in (4, 1, 3, 1)] == [["ask"], ["silent"], [], ["hung"]]
    watched.heartbeat.close()


def test_a_word_and_a_question_begin_it_anew() -> None:
    """Who waits for nothing counts nothing."""
    watched = Watched()
    watched.look(8)
    watched.heartbeat.heard()
    assert watched.look(4) == ["ask"]
    watched.awaited = False
    assert watched.look(20) == []
    watched.awaited = True
    assert watched.look(4) == ["ask"]
    watched.heartbeat.close()


def test_a_host_that_loads_a_model_has_more_time() -> None:
    watched = Watched()
    watched.loading = True
    assert [watched.look(looks) for looks in (14, 1, 12)] == [["ask"], ["silent"], ["hung"]]
    watched.heartbeat.close()
