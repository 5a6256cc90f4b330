"""How many steps fit into the time that a user gave; planned once, and kept to when the run is taken up again."""

from collections.abc import Callable
from dataclasses import replace

from fastcoder_lsp.train.loop import Lesson, time_step
from fastcoder_lsp.train.options import TrainSettings
from fastcoder_lsp.train.run_folder import RunFolder

FEWEST = 8


def with_plan(settings: TrainSettings, folder: RunFolder) -> TrainSettings:
    """The settings as the run in `folder` was planned."""
    plan = folder.plan()
    return replace(settings, steps=plan.get("steps", settings.steps), warm_up=plan.get("warm_up", settings.warm_up))


def fitted(
    lesson: Lesson,
    settings: TrainSettings,
    folder: RunFolder,
    left: float | None,
    told: Callable[[str], None],
    *,
    used: float,
) -> TrainSettings:
    """The settings with as many steps as the time allows.

    Args:
        lesson: a step of it is timed.
        settings: of the run.
        folder: keeps the plan.
        left: minutes; None: nobody counts them.
        told: hears of it.
        used: of the time that is left, what is for steps: measuring and writing take the rest.
    """
    if left is not None and "steps" not in folder.plan():
        seconds = time_step(lesson)
        steps = max(FEWEST, int(60 * left * used / seconds))
        folder.set_plan(steps=steps, warm_up=max(1, round(settings.warm_up / settings.steps * steps)))
        told(f"{seconds:.1f} s a step: {steps} steps fit into the time; to set their number, use --steps")
    return with_plan(settings, folder)
