"""So many people who type recorded histories, each at a place of its own, and ask at every key.

Owns who types what, and when a key gives up the request before it. How a person types is `keystroke/hands`.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.datasets.histories import Typed
from benchmarks.keystroke.hands import keys, opening, waits
from benchmarks.team.asking import Asked, Interface, Place, ask
from benchmarks.team.client import Client

GIVEN_UP = -1
_LONGEST = 30_000
"""Characters of a document, the cursor in them: clients send windows of large files."""


@dataclass(frozen=True, slots=True)
class Server:
    """Who is asked.

    Attributes:
        url: its address.
        keys: of the people, one after the other; none where it asks for none.
        interface: how it is asked.
        scripted: whether its model says checksums.
    """

    url: str
    keys: tuple[str, ...] = ()
    interface: Interface = "infill"
    scripted: bool = False

    def client(self, typist: int) -> Client:
        """A person's connection: to their own workspace, by their own key where there are so many."""
        named = {"X-Fastcoder-Workspace": f"workspace-{typist}"}
        if self.keys:
            named["Authorization"] = f"Bearer {self.keys[typist % len(self.keys)]}"
        return Client(self.url, named)


def places(run: Typed, name: str) -> Iterator[tuple[Place, str]]:
    """Where the cursor is after each key of a run, and the key."""
    begun = max(0, run.offset - _LONGEST // 2)
    before = run.document[begun : run.offset] + opening(run.text)
    after = run.document[run.offset : run.offset + _LONGEST // 2]
    for key in keys(run.text):
        before += key
        yield Place(name, before, after), key


async def type_all(
    server: Server,
    runs: Sequence[Typed],
    typists: int,
    seconds: float,
    speed: float,
    *,
    patient: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Asked]:
    """All of them at once, for so long: what became of every request.

    Args:
        server: who is asked.
        runs: what is typed; each person begins at another one, and goes on with the next.
        typists: how many.
        seconds: how long.
        speed: keys a second, without pauses.
        patient: whether a key waits for the answer to the one before it, and gives no request up.
        clock: seconds; says when it is over.
    """
    begun = clock()

    def passed() -> float:
        return clock() - begun

    each = [
        _type(server, runs, number, len(runs) * number // typists, passed, seconds, speed, patient=patient)
        for number in range(typists)
    ]
    return [asked for typed in await asyncio.gather(*each) for asked in typed]


async def _type(
    server: Server,
    runs: Sequence[Typed],
    typist: int,
    first: int,
    passed: Callable[[], float],
    seconds: float,
    speed: float,
    *,
    patient: bool,
) -> list[Asked]:
    client, done = server.client(typist), list[Asked]()
    turn = 0
    open_: asyncio.Task[None] | None = None

    async def one(place: Place, at_s: float) -> None:
        try:
            done.append(await ask(client, server.interface, place, typist, at_s, scripted=server.scripted))
        except asyncio.CancelledError:
            done.append(Asked(typist, place.document, at_s, GIVEN_UP))
            raise

    while passed() < seconds:
        run = runs[(first + turn) % len(runs)]
        pauses = waits(keys(run.text), speed, f"{typist}-{turn}")
        for (place, _), pause in zip(places(run, f"{typist}/{run.path}"), pauses, strict=True):
            await asyncio.sleep(pause)
            if open_ is not None:
                await _ended(open_, patient=patient)
            if (at_s := passed()) >= seconds:
                break
            open_ = asyncio.create_task(one(place, at_s))
        turn += 1
    if open_ is not None:
        await _ended(open_, patient=True)
    client.close()
    return done


async def _ended(task: "asyncio.Task[None]", *, patient: bool) -> None:
    if not patient and not task.done():
        task.cancel()
    await asyncio.wait((task,))
