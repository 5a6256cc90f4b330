"""The folder of one run: its identity, plan, checkpoints and loss curve.

    run.json                the run's identity, in JSON; written once
    plan.json               numbers of steps, samples and trajectories that fit into the user's time
    step-NNNNNNN/           the newest checkpoint
    losses.jsonl, .svg      the loss curve
    trajectories/           CLLM's trajectories, one file a batch
    states/                 samples of drafters with weights: the target's hidden states
    model/                  the merged model, an ordinary model's folder with its training record
    drafter/                the drafter's weights with their record

A checkpoint holds everything that the next step depends on: the trained tensors, the optimiser's moments and the random
generators' states, in safetensors (never a pickle). The order of data and the learning rate are functions of the step,
which the folder's name gives. Everything appears under its name whole or not at all.
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fastcoder_lsp.core.files import replace_file, sync_folder
from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.model.store import FULL, disk_full, publish

_RUN, _PLAN, _STATE = "run.json", "plan.json", "state.safetensors"
_OURS = (_RUN, _PLAN, "losses.jsonl", "losses.svg", "trajectories", "model", "states", "drafter")
_STEP = re.compile(r"step-(\d{7,})")
_PARTIAL = "unfinished-"
_MOMENTS = ("exp_avg", "exp_avg_sq")

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 860, 420, 64, 44, 150, 48
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # apart for colour-blind eyes too (Okabe and Ito)
_SMOOTHING = 0.9


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tensors after `step` steps: values, moments, random states."""

    step: int
    tensors: dict[str, torch.Tensor]

    def restore_values(self, parameters: Mapping[str, torch.nn.Parameter]) -> None:
        """Copy the trained values into the parameters; FastcoderError if they belong to another model or tuning."""
        names = {name.removeprefix("value/") for name in self.tensors if name.startswith("value/")}
        if names != set(parameters):
            odd = min(names ^ set(parameters))
            raise FastcoderError(
                f"the checkpoint belongs to another model or way of tuning ({odd})",
                "Use another --out folder, or start again with --restart.",
            )
        with torch.no_grad():
            for name, parameter in parameters.items():
                value = self.tensors[f"value/{name}"]
                if value.shape != parameter.shape:
                    raise FastcoderError(
                        f"the checkpoint's {name} is {tuple(value.shape)}, but the model's is {tuple(parameter.shape)}",
                        "It belongs to another model: use another --out folder, or start again with --restart.",
                    )
                parameter.copy_(value)

    def restore(self, parameters: Mapping[str, torch.nn.Parameter], optimiser: torch.optim.Optimizer) -> None:
        """Restore values, moments and random states; raises like `restore_values`."""
        self.restore_values(parameters)
        for name, parameter in parameters.items():
            if f"exp_avg/{name}" in self.tensors:
                state = {moment: self.tensors[f"{moment}/{name}"].to(parameter.device) for moment in _MOMENTS}
                optimiser.state[parameter] = {"step": torch.tensor(float(self.step)), **state}
        torch.set_rng_state(self.tensors["random/cpu"])
        if "random/cuda" in self.tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(self.tensors["random/cuda"])


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run's place on the disk."""

    path: Path

    @property
    def model(self) -> Path:
        """Where the merged model goes."""
        return self.path / "model"

    @property
    def drafter(self) -> Path:
        """Where the drafter's weights go."""
        return self.path / "drafter"

    def require_room(self) -> None:
        """Raise UsageError if the folder has files, but no run, or if nothing can be written there."""
        try:
            if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / _RUN).is_file():
                raise UsageError(f"{self.path} contains other files", "Name an empty or a new folder with --out.")
            with TemporaryFile(dir=next(one for one in (self.path, *self.path.parents) if one.exists())):
                pass
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be written: {error.strerror}", "Name another folder with --out."
            ) from error

    def begin(self, identity: Mapping[str, Any], *, restart: bool) -> None:
        """Claim the folder for a run, anew with `restart`, or find the same run; UsageError as `require_room`."""
        if restart:
            self._clear()
        self.require_room()
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / _RUN).is_file():
            replace_file(self.path / _RUN, json.dumps(identity, indent=1).encode())
            return
        there = self.identity()
        wanted = json.loads(json.dumps(identity))
        if odd := sorted(name for name in {*there, *wanted} if there.get(name) != wanted.get(name)):
            differences = "; ".join(f"{name} was {there.get(name)}, is {wanted.get(name)}" for name in odd[:3])
            raise UsageError(
                f"{self.path} contains another run ({differences})",
                "Name another folder with --out, or start again with --restart.",
            )

    def identity(self) -> dict[str, Any]:
        """The identity of the run in this folder; raises FastcoderError if there is none, or it is damaged."""
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
        """The planned numbers, empty at first."""
        try:
            return dict(json.loads((self.path / _PLAN).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def set_plan(self, **numbers: int) -> None:
        """Add numbers to the plan; a resumed run keeps to them."""
        replace_file(self.path / _PLAN, json.dumps(self.plan() | numbers).encode())

    def checkpoints(self) -> list[Path]:
        """The folders of whole checkpoints, oldest first."""
        return sorted((path for path in self.path.glob("step-*") if _STEP.fullmatch(path.name)), key=_step)

    def newest(self) -> Checkpoint | None:
        """The last checkpoint; None where there is none. Raises FastcoderError if it is damaged."""
        found = self.checkpoints()
        if not found:
            return None
        try:
            tensors = load_file(found[-1] / _STATE)
        except (OSError, SafetensorError) as error:
            raise FastcoderError(
                f"{found[-1]} is damaged: {error}", "Delete it, or start again with --restart."
            ) from error
        return Checkpoint(_step(found[-1]), tensors)

    def restore_values(self, parameters: Mapping[str, torch.nn.Parameter]) -> None:
        """Copy the newest checkpoint's values into the parameters; FastcoderError without a usable one."""
        found = self.newest()
        if found is None:
            raise UsageError(f"{self.path} has no checkpoint yet", "Wait until training has made some steps.")
        found.restore_values(parameters)

    def save(self, step: int, parameters: Mapping[str, torch.nn.Parameter], optimiser: torch.optim.Optimizer) -> None:
        """Write the checkpoint after `step` steps, then remove older ones. Raises ResourceError if the disk is full."""
        place, made = self.path / f"step-{step:07}", self.path / f"{_PARTIAL}{step:07}"
        if place.is_dir():
            return  # a step is a function of its number, so the checkpoint is the same
        try:
            for left in self.path.glob(f"{_PARTIAL}*"):
                shutil.rmtree(left, ignore_errors=True)
            made.mkdir(parents=True)
            save_file(_packed(parameters, optimiser), made / _STATE)
            publish(made, place)
            sync_folder(self.path)
        except (OSError, SafetensorError) as error:
            if isinstance(error, SafetensorError) or error.errno in FULL:
                raise disk_full(self.path, "writing a checkpoint") from error
            raise
        for older in self.checkpoints()[:-1]:
            shutil.rmtree(older, ignore_errors=True)

    def figures(self, *, trained: bool = False) -> dict[str, float]:
        """`steps`, and the first and last loss of each term on held-out text; with `trained` on training text too."""
        points = read_points(self.path / "losses.jsonl")
        found = {"steps": float(max((point.step for point in points), default=0))}
        for held_out, name in ((True, "held_out"), (False, "trained")):
            if held_out or trained:
                for term, values in _series(points, held_out=held_out).items():
                    found |= {f"{name}_{term}_first": values[0][1], f"{name}_{term}_last": values[-1][1]}
        return found

    def _clear(self) -> None:
        """Remove the files of a run, and nothing else."""
        if not (self.path / _RUN).is_file():
            return
        for name in (*_OURS, *(path.name for path in self.path.glob("step-*"))):
            place = self.path / name
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)


def _packed(parameters: Mapping[str, torch.nn.Parameter], optimiser: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    tensors = {"random/cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    for name, parameter in parameters.items():
        tensors[f"value/{name}"] = parameter.detach().contiguous().cpu()
        for moment in _MOMENTS:
            if moment in optimiser.state[parameter]:
                tensors[f"{moment}/{name}"] = optimiser.state[parameter][moment].contiguous().cpu()
    return tensors


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


@dataclass(frozen=True, slots=True)
class Point:
    """Each term's mean loss, in nats, after `step` steps (0: before the first), in training or on held-out text."""

    step: int
    losses: Mapping[str, float]
    held_out: bool = False


class Curve:
    """The points of a run, in memory and in its `losses.jsonl`; a run that resumes drops later lines."""

    def __init__(self, folder: Path, upto: int) -> None:
        self._folder, self._path = folder, folder / "losses.jsonl"
        self.points = [point for point in read_points(self._path) if point.step <= upto] if upto else []
        self._path.write_text("".join(map(_line, self.points)), encoding="utf-8")

    def add(self, point: Point) -> None:
        """Keep a point; written before this returns."""
        self.points.append(point)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(point))

    def smoothed(self) -> dict[str, float]:
        """Each training term's running mean at the end."""
        return {name: values[-1][1] for name, values in _series(self.points, held_out=False).items()}

    def draw(self) -> None:
        """Write `losses.svg`: lines for training's running means, dots and dashes for held-out text."""
        picture = _drawn(self.points, f"{self._folder.name}: losses")
        (self._folder / "losses.svg").write_text(picture, encoding="utf-8")


def read_points(path: Path) -> list[Point]:
    """The points in a run's file; none where there is none."""
    points = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the line that a crash cut short
            points.append(Point(row["step"], row["losses"], row["held_out"]))
    return points


def _line(point: Point) -> str:
    row = {"step": point.step, "losses": dict(point.losses), "held_out": point.held_out}
    return json.dumps(row) + "\n"


def _series(points: Sequence[Point], *, held_out: bool) -> dict[str, list[tuple[int, float]]]:
    """Term → (step, loss); training's are running means, for single steps jump."""
    found: dict[str, list[tuple[int, float]]] = {}
    for point in points:
        if point.held_out == held_out:
            for name, loss in point.losses.items():
                values = found.setdefault(name, [])
                share = 0.0 if held_out or not values else min(_SMOOTHING, len(values) / (len(values) + 1))
                values.append((point.step, share * values[-1][1] + (1 - share) * loss if values else loss))
    return found


def _drawn(points: Sequence[Point], title: str) -> str:
    trained, held = _series(points, held_out=False), _series(points, held_out=True)
    every = [value for values in (*trained.values(), *held.values()) for value in values]
    last = max((step for step, _ in every), default=1) or 1
    top = max((loss for _, loss in every), default=1.0) or 1.0
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(step: int, loss: float) -> str:
        return f"{_LEFT + inner_width * step / last:.1f},{_TOP + inner_height * (1 - loss / top):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="26" font-size="16">{escape(title)}</text>',
    ]
    for tick in range(5):
        loss, y = top * tick / 4, _TOP + inner_height * (1 - tick / 4)
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + inner_width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" font-size="12" text-anchor="end">{loss:.2f}</text>')
        step, x = round(last * tick / 4), _LEFT + inner_width * tick / 4
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 24}" font-size="12" text-anchor="middle">{step}</text>')
    parts.append(
        f'<text x="{_LEFT + inner_width / 2}" y="{_HEIGHT - 6}" font-size="12" text-anchor="middle">step</text>'
    )
    for index, name in enumerate(sorted({*trained, *held})):
        colour = _COLOURS[index % len(_COLOURS)]
        for values, dashes in ((trained.get(name, []), ""), (held.get(name, []), ' stroke-dasharray="5 4"')):
            path = " ".join(place(*value) for value in values)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dashes}/>')
        parts += [
            f'<circle cx="{place(*value).split(",")[0]}" cy="{place(*value).split(",")[1]}" r="3" fill="{colour}"/>'
            for value in held.get(name, [])
        ]
        y = _TOP + 8 + 20 * index
        parts.append(f'<text x="{_WIDTH - _RIGHT + 10}" y="{y}" font-size="13" fill="{colour}">{escape(name)}</text>')
    note = "dashed: text never trained on"
    parts.append(f'<text x="{_WIDTH - _RIGHT + 10}" y="{_HEIGHT - _BOTTOM}" font-size="10">{note}</text></svg>\n')
    return "\n".join(parts)
