"""The real model on a machine whose speed never changes: the work for a question is then the question's alone.

How a prompt is cut into stretches, and how wide a step is, follows what pieces of work have taken of late; so does how
many of a prompt's last tokens go along with the first step, and what drafters learn of them. Two runs of the very same
question differ by that, whoever was there before.
"""

from dataclasses import replace

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Progress, StepCosts
from fastcoder_lsp.host import local
from fastcoder_lsp.runtime import load
from fastcoder_lsp.runtime.parts import Model
from fastcoder_lsp.scheduling.scheduler import Scheduler

MODULE = __name__
"""For `TeamReplica`."""
COSTS = StepCosts((1, 16, 64), (20.0, 30.0, 100.0), 1.5)
"""Of no machine in particular; drafts pay."""

make_runtime = load.make_runtime


def load_model(settings: Settings, progress: Progress) -> Model:
    """As ever, but for what is timed."""
    return replace(load.load_model(settings, progress), costs=COSTS)


def stop_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every scheduler from now on: nothing takes any time, nobody is idle for long."""

    def timeless(load: object, **options: object) -> Scheduler[Model]:
        return Scheduler(load, clock=lambda: 0.0, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(local, "Scheduler", timeless)
