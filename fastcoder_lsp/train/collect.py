"""Collecting trajectories for a run: batch by batch into files, going on where an interrupted run ended.

Owns the numbering. Batch i is a function of (texts, seed, i) alone.
"""

import random
from collections.abc import Callable
from pathlib import Path

from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.train import trajectories as files
from fastcoder_lsp.train.cllm import CllmSettings, prompts
from fastcoder_lsp.train.jacobi import JacobiCollector
from fastcoder_lsp.train.sequences import Sequences
from fastcoder_lsp.train.trajectories import Trajectory, cleaned

TRIES = 4
"""Times as many prompts as trajectories are asked at most: where nearly all outputs loop, there is little to learn."""


def collect(
    collector: JacobiCollector,
    sequences: Sequences,
    middle: int | None,
    settings: CllmSettings,
    *,
    folder: Path,
    wanted: int,
    seed: int,
    should_stop: Callable[[], bool],
    told: Callable[[int, int], None],
) -> list[Trajectory]:
    """Trajectories, cleaned, `wanted` of them unless `should_stop` says so before.

    Raises:
        FastcoderError: the model only repeats itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Trajectory] = []
    batch = 0
    while len(found) < wanted and batch * settings.batch < TRIES * wanted + settings.batch:
        path = folder / f"{batch:06}.npz"
        if path.is_file():
            found += files.load(path)
        else:
            if should_stop():
                break
            asked = prompts(sequences, middle, batch * settings.batch, settings.batch)
            draw = random.Random(f"guess {seed} {batch}")  # noqa: S311 a reproducible draw, no secret
            said = collector.collect(asked, settings.blocks, draw)
            kept = [clean for one in said if (clean := cleaned(one)) is not None]
            files.save(path, kept)
            found += kept
        batch += 1
        told(min(len(found), wanted), wanted)
    if not found and not should_stop():
        raise FastcoderError("the model only repeats itself", "Use other --data, or another --model.")
    return found[:wanted]
