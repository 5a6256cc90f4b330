"""Requests that nobody types: as many at a time as are taken, then more than can be taken.

Owns both ways of asking: a closed loop, which finds out what a server can do, and arrivals at random at a rate of their
own (a Poisson process), which do not wait for anybody, as a crowd does not.
"""

import asyncio
import random
import time
from collections.abc import Callable

from benchmarks.team.asking import Asked, Place, ask
from benchmarks.team.typists import Server

_FILE = "def total(items):\n    return sum(items)\n\n\n" * 10


def place(client: int, number: int) -> Place:
    """A client's document after so many requests: each adds a line, so that its prefix is known."""
    return Place(f"file_{client}.py", f"# {client}\n{_FILE}" + "value = 1\n" * (number % 40) + "x = ", "\n")


async def closed(
    server: Server, clients: int, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[Asked]:
    """So many clients that ask again as soon as they are answered, for so many seconds of the clock."""
    begun = clock()

    async def one(client: int) -> list[Asked]:
        connection, done = server.client(client), list[Asked]()
        while (at_s := clock() - begun) < seconds:
            wanted = place(client, len(done))
            done.append(await ask(connection, server.interface, wanted, client, at_s, scripted=server.scripted))
        connection.close()
        return done

    return [asked for each in await asyncio.gather(*map(one, range(clients))) for asked in each]


async def arriving(server: Server, a_second: float, clients: int, seconds: float, seed: int) -> list[Asked]:
    """So many a second, each from a client that is free; one more client comes where none is."""
    begun, chance = time.perf_counter(), random.Random(seed)  # noqa: S311 arrivals need no secrets
    free = [(server.client(number), number) for number in range(clients)]
    asked_by, done, tasks = dict.fromkeys(range(clients), 0), list[Asked](), set[asyncio.Task[None]]()

    async def one(at_s: float) -> None:
        if not free:
            asked_by[len(asked_by)] = 0
            free.append((server.client(len(asked_by) - 1), len(asked_by) - 1))
        connection, client = free.pop(0)
        wanted = place(client, asked_by[client])
        asked_by[client] += 1
        done.append(await ask(connection, server.interface, wanted, client, at_s, scripted=server.scripted))
        free.append((connection, client))

    due = 0.0
    while due < seconds:
        await asyncio.sleep(max(0.0, due - (time.perf_counter() - begun)))
        task = asyncio.create_task(one(time.perf_counter() - begun))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        due += chance.expovariate(a_second)
    await asyncio.gather(*tasks)
    for connection, _ in free:
        connection.close()
    return done
