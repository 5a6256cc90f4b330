"""A run's samples: those that are learnt from, as many as its time allows, and those that are held out.

Owns how many there are: what was planned once is kept to when the run is taken up again.
"""

import time
from collections.abc import Callable

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.train.minutes import Minutes
from fastcoder_lsp.train.run_folder import RunFolder
from fastcoder_lsp.train.samples import Collector, Sample
from fastcoder_lsp.train.sequences import Sequences

HELD_OUT = 8
"""Texts that losses are measured on, and by which a drafter is measured at the end."""
CPU_SAMPLES = 400
SHARE = 0.4
"""Of --max-minutes, for samples."""


def collect(
    collector: Collector,
    folder: RunFolder,
    sequences: Sequences,
    asked: int | None,
    minutes: Minutes,
    should_stop: Callable[[], bool],
    told: Callable[[int, int], None],
) -> tuple[list[Sample], list[Sample]] | None:
    """What is learnt from, and what is held out; None where the user stopped before.

    Args:
        collector: makes them.
        folder: of the run.
        sequences: the texts.
        asked: how many the user wants; None: by the machine.
        minutes: of the run.
        should_stop: whether the user wants to.
        told: hears of (done, wanted).

    Raises:
        UsageError: there was no time for any.
    """
    states, held_texts = folder.path / "states", sequences.held_out()[:HELD_OUT]
    held = collector.samples(
        states / "held", lambda index: held_texts[index].tokens, len(held_texts), should_stop, _nobody
    )
    planned, left = folder.plan().get("samples"), minutes.left()
    wanted = planned or asked or min(CPU_SAMPLES, 4 * len(sequences))
    until = None if left is None or planned else time.monotonic() + 60 * left * SHARE
    samples = collector.samples(
        states / "learnt",
        lambda index: sequences.at(index).tokens,
        wanted,
        lambda: should_stop() or (until is not None and time.monotonic() > until),
        told,
    )
    if should_stop():
        return None
    if not samples:
        raise UsageError(f"collected nothing within {minutes.most} minutes", "Raise --max-minutes.")
    if planned is None:
        folder.set_plan(samples=len(samples))
    return samples, held


def _nobody(_done: int, _wanted: int) -> None:
    pass
