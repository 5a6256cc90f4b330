"""For how long a client has waited when its request is looked at."""

import asyncio

from fastcoder_lsp.lsp.arrival import arrived, now_ms, waited_ms


def test_each_handler_knows_when_its_own_message_came_in() -> None:
    """The next message comes in before the first one's handler takes its first step."""
    waits: list[float] = []

    async def handle() -> None:
        waits.append(waited_ms())

    async def receive() -> None:
        arrived(now_ms() - 5000)
        first = asyncio.create_task(handle())
        arrived(now_ms())
        await asyncio.gather(first, asyncio.create_task(handle()))

    asyncio.run(receive())
    assert waits[0] >= 5000 > waits[1]


def test_nobody_has_waited_where_nothing_came_in() -> None:
    """A moment that was never told, and one that is still to come."""
    assert waited_ms() == 0

    async def receive() -> float:
        arrived(now_ms() + 5000)
        return waited_ms()

    assert asyncio.run(receive()) == 0
