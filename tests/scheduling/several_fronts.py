"""What the tests of several fronts share: fronts whose model is loaded, what it says, and how long they wait."""

from collections.abc import Sequence
from concurrent.futures import Future

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import Completion
from tests.completion.simulated import NextLetter, script
from tests.scheduling.shared import Front, Shared

START = "x = "
WHOLE = "value = compute()"
MODEL = script(f"{WHOLE}\n", START)
PATIENT = Policy()
HURRIED = Policy(automatic_ms=260, invoked_ms=900, background_ms=1500)


def loaded(
    people: int, policy: Policy = PATIENT, *, most: int = 100, says: NextLetter = MODEL
) -> tuple[Shared, list[Front]]:
    shared = Shared(says, most=most)
    fronts = [shared.open(policy) for _ in range(people)]
    preloads = [front.service.preload() for front in fronts]
    shared.work()
    assert all(preload.result(0) for preload in preloads)
    return shared, fronts


def all_done(futures: "Sequence[Future[Completion]]") -> bool:
    return all(future.done() for future in futures)
