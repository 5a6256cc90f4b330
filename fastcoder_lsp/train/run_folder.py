"""The folder of one run: what the run is, in JSON, and where its parts lie.

    run.json                what is trained on what, and how; written once
    plan.json               what was fitted to the time that the user gave: numbers of steps and of trajectories
    step-NNNNNNN/           the newest checkpoint
    losses.jsonl, .svg      the loss curve
    trajectories/           CLLM's, one file a batch
    model/                  the merged export, an ordinary model's folder with its training record
    states/                 of drafters with weights: what they learn from, the target's hidden states
    drafter/                their outcome, weights with their record

Owns the names, and the check that a run that is taken up again is the same run.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.index.files import replace_file

_RUN, _PLAN = "run.json", "plan.json"
_OURS = (_RUN, _PLAN, "losses.jsonl", "losses.svg", "trajectories", "model", "states", "drafter")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run's place on the disk."""

    path: Path

    @property
    def trajectories(self) -> Path:
        """Where CLLM keeps its trajectories."""
        return self.path / "trajectories"

    @property
    def export(self) -> Path:
        """Where the merged model goes."""
        return self.path / "model"

    def begin(self, identity: Mapping[str, Any], *, restart: bool) -> None:
        """Claim the folder for a run, or find the same run there.

        Args:
            identity: what makes this run what it is, as JSON can hold it.
            restart: drop what another run, or this one, left there.

        Raises:
            UsageError: another run, or something that is none, is there.
        """
        if restart:
            self._clear()
        if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / _RUN).is_file():
            raise UsageError(f"{self.path} contains other files", "Name an empty or a new folder with --out.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be created: {error.strerror}", "Name another folder with --out."
            ) from error
        if not (self.path / _RUN).is_file():
            replace_file(self.path / _RUN, json.dumps(identity, indent=1).encode())
            return
        there = self.identity()
        wanted = json.loads(json.dumps(identity))
        if odd := sorted(name for name in {*there, *wanted} if there.get(name) != wanted.get(name)):
            told = "; ".join(f"{name} was {there.get(name)}, is {wanted.get(name)}" for name in odd[:3])
            raise UsageError(
                f"{self.path} contains another run ({told})",
                "Name another folder with --out, or start again with --restart.",
            )

    def identity(self) -> dict[str, Any]:
        """What the run in this folder is.

        Raises:
            FastcoderError: there is none, or its description is damaged.
        """
        try:
            row = json.loads((self.path / _RUN).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(
                f"{self.path} contains no training run", "Name the folder that you gave to --out."
            ) from None
        except (OSError, ValueError) as error:
            raise FastcoderError(f"{self.path / _RUN} is damaged: {error}", "Start again with --restart.") from error
        return dict(row)

    def plan(self) -> dict[str, int]:
        """What was planned, empty at first."""
        try:
            return dict(json.loads((self.path / _PLAN).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def set_plan(self, **numbers: int) -> None:
        """Plan something; a run that is taken up again keeps to it."""
        replace_file(self.path / _PLAN, json.dumps(self.plan() | numbers).encode())

    def _clear(self) -> None:
        """Remove what a run of ours wrote, and nothing else."""
        if not (self.path / _RUN).is_file():
            return
        for name in (*_OURS, *(path.name for path in self.path.glob("step-*"))):
            place = self.path / name
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
