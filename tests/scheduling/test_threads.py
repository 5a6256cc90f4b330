"""The same with threads: fronts that ask, switch, rename and leave all at once, and a scheduler that runs by itself."""

import random
import threading
import time
from concurrent.futures import Future, wait

import pytest

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import Completion
from tests.completion.simulated import URI, script
from tests.scheduling.shared import Front, Shared

START = "x = "
OTHER = "file:///b.py"
MODEL = script("value = compute()\n", START)
WAIT_S = 60.0


def use(front: Front, seed: int) -> "list[Future[Completion]]":
    chance = random.Random(seed)
    asked: list[Future[Completion]] = []
    for step in range(60):
        match chance.randrange(12):
            case 0:
                front.service.document_renamed(*chance.sample((URI, OTHER), 2))
            case 1:
                front.service.document_closed(chance.choice((URI, OTHER)))
            case 2:
                front.service.set_enabled(False)
                front.service.set_enabled(True)
            case 3:
                asked[-1].cancel() if asked else None
            case 4:
                front.service.preload()
            case 5 if step % 20 == 5:
                front.service.reload()
            case _:
                text = f"# {step}\n{START}" + "value"[: chance.randrange(5)]
                asked.append(front.ask(text, chance.choice((URI, OTHER)), invoked=chance.random() < 0.2))
    return asked


def until_told(front: Front, answers: int) -> None:
    """A future's callbacks come after those who wait for it have been let go."""
    end = time.monotonic() + WAIT_S
    while len(front.answers) < answers:
        assert time.monotonic() < end, front.answers
        time.sleep(0.005)


@pytest.mark.parametrize("seed", range(8))
def test_every_question_of_everybody_ends(seed: int) -> None:
    shared = Shared(MODEL, most=2)
    running = threading.Thread(target=shared.scheduler.run, daemon=True)
    running.start()
    fronts = [shared.open(Policy(automatic_ms=500, invoked_ms=900)) for _ in range(5)]
    asked: dict[int, list[Future[Completion]]] = {}

    def live(number: int) -> None:
        asked[number] = use(fronts[number], 10 * seed + number)
        if number < 2:
            fronts[number].service.shutdown()

    people = [threading.Thread(target=live, args=(number,)) for number in range(len(fronts))]
    for person in people:
        person.start()
    for person in people:
        person.join(WAIT_S)
    futures = [future for one in asked.values() for future in one]
    assert not wait([future for future in futures if not future.cancelled()], WAIT_S).not_done
    for number, front in enumerate(fronts):
        until_told(front, len(asked[number]))
        assert front.answers == dict.fromkeys(range(len(asked[number])), 1)
    late = shared.open(Policy()).ask(START)
    assert late.result(WAIT_S).text == "value = compute()"
    there = {front.name for front in shared.fronts[2:]}
    assert {name.partition("\n")[0] for name in shared.caches.engines} <= there
    shared.scheduler.close()
    running.join(WAIT_S)
    assert not running.is_alive()
    assert shared.caches.closed
