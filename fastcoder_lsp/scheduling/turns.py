"""Whose turn it is: of the seats that have something to do, each does a piece, and then the others come first.

Where there are fewer KV caches than seats at work, each takes another's away, and a piece each in turn would compute
the same prompts without end. So whoever was robbed of what was computed keeps its turn for some steps.
"""

from collections.abc import Iterator, Sequence

from fastcoder_lsp.scheduling.seat import Seat
from fastcoder_lsp.scheduling.task import Task

STEPS_AT_ONCE = 8
"""Of a seat that was robbed: computing its prompt again must not be most of the work."""


class Turns:
    """All seats, the one that was served last being the last."""

    def __init__(self) -> None:
        self._seats: list[Seat] = []
        self._kept: tuple[Task, int] | None = None
        """The task for which the last one keeps its turn, until it has done so many steps."""

    def __iter__(self) -> Iterator[Seat]:
        """Those that are there now, whoever comes or leaves meanwhile."""
        return iter(tuple(self._seats))

    def join(self, seat: Seat) -> None:
        """One more."""
        self._seats.append(seat)

    def leave(self, seat: Seat) -> None:
        """One less."""
        if seat in self._seats:
            self._seats.remove(seat)

    def next(self, seats: Sequence[Seat]) -> Seat:
        """Whose turn it is of `seats`, which have something to do and are some of these in their order."""
        if self.keeps(seats[-1]):
            return seats[-1]
        seat, self._kept = seats[0], None
        self._seats.remove(seat)
        self._seats.append(seat)
        task = _at_work(seat)
        if task is not None and task.robbed():
            self._kept = task, task.counts().steps + STEPS_AT_ONCE
        return seat

    def keeps(self, seat: Seat) -> bool:
        """Whether it is this one's turn again, whoever waits."""
        task = _at_work(seat)
        if task is None or self._kept is None or self._kept[0] is not task or seat is not self._seats[-1]:
            return False
        return not task.finished and task.counts().steps < self._kept[1]


def _at_work(seat: Seat) -> Task | None:
    return (seat.slot.branch if seat.slot is not None else None) or seat.current.task
