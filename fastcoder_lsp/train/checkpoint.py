"""Checkpoints: everything that the next step depends on, on the disk whole or not at all.

Owns the folder of a run and its checkpoints. A checkpoint is a folder `step-NNNNNNN` with the trained tensors, the
optimiser's moments and the random generators' states in safetensors (never a pickle); it appears under its name by one
rename. What a crash left half-written has another name and is removed by the next one. The order of data and the rate
are functions of the step, which the name says.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.index.files import sync_folder
from fastcoder_lsp.model.store import FULL, disk_full, publish

STATE = "state.safetensors"
_NAME = re.compile(r"step-(\d{7,})")
_PARTIAL = "unfinished-"
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`step`: how many were made; `tensors`: see `pack`."""

    step: int
    tensors: dict[str, torch.Tensor]


def save(folder: Path, step: int, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write the checkpoint after `step` steps, then remove older ones.

    Raises:
        ResourceError: the disk is full.
    """
    place, made = folder / f"step-{step:07}", folder / f"{_PARTIAL}{step:07}"
    if place.is_dir():
        return  # a step is a function of its number: what is there is the same
    try:
        for left in folder.glob(f"{_PARTIAL}*"):
            shutil.rmtree(left, ignore_errors=True)
        made.mkdir(parents=True)
        save_file(dict(tensors), made / STATE)
        publish(made, place)
        sync_folder(folder)
    except (OSError, SafetensorError) as error:
        if isinstance(error, SafetensorError) or error.errno in FULL:
            raise disk_full(folder, "writing a checkpoint") from error
        raise
    for older in checkpoints(folder)[:-1]:
        shutil.rmtree(older, ignore_errors=True)


def newest(folder: Path) -> Checkpoint | None:
    """The last checkpoint in `folder`; None where there is none.

    Raises:
        FastcoderError: it is damaged.
    """
    found = checkpoints(folder)
    if not found:
        return None
    path = found[-1]
    try:
        tensors = load_file(path / STATE)
    except (OSError, SafetensorError) as error:
        raise FastcoderError(f"{path} is damaged: {error}", "Delete it, or start again with --restart.") from error
    return Checkpoint(_step(path), tensors)


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints in `folder`, oldest first."""
    return sorted((path for path in folder.glob("step-*") if _NAME.fullmatch(path.name)), key=_step)


def pack(parameters: Mapping[str, torch.nn.Parameter], optimiser: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Tensors of a checkpoint: values, moments, random states."""
    tensors = {"random/cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    for name, parameter in parameters.items():
        tensors[f"value/{name}"] = parameter.detach().contiguous().cpu()
        for moment in _MOMENTS:
            if moment in optimiser.state[parameter]:
                tensors[f"{moment}/{name}"] = optimiser.state[parameter][moment].contiguous().cpu()
    return tensors


def unpack_values(checkpoint: Checkpoint, parameters: Mapping[str, torch.nn.Parameter]) -> None:
    """Give the parameters their trained values.

    Raises:
        FastcoderError: the checkpoint is of another model or another way of tuning.
    """
    names = {name.removeprefix("value/") for name in checkpoint.tensors if name.startswith("value/")}
    if names != set(parameters):
        odd = min(names ^ set(parameters))
        raise FastcoderError(
            f"the checkpoint belongs to another model or way of tuning ({odd})",
            "Use another --out folder, or start again with --restart.",
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            value = checkpoint.tensors[f"value/{name}"]
            if value.shape != parameter.shape:
                raise FastcoderError(
                    f"the checkpoint's {name} is {tuple(value.shape)}, but the model's is {tuple(parameter.shape)}",
                    "It belongs to another model: use another --out folder, or start again with --restart.",
                )
            parameter.copy_(value)


def unpack(
    checkpoint: Checkpoint, parameters: Mapping[str, torch.nn.Parameter], optimiser: torch.optim.Optimizer
) -> None:
    """Put everything back as `pack` found it; raises like `unpack_values`."""
    unpack_values(checkpoint, parameters)
    for name, parameter in parameters.items():
        if f"exp_avg/{name}" in checkpoint.tensors:
            state = {moment: checkpoint.tensors[f"{moment}/{name}"].to(parameter.device) for moment in _MOMENTS}
            optimiser.state[parameter] = {"step": torch.tensor(float(checkpoint.step)), **state}
    torch.set_rng_state(checkpoint.tensors["random/cpu"])
    if "random/cuda" in checkpoint.tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(checkpoint.tensors["random/cuda"])


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))
