"""A drafter's own weights on the disk: a folder with one safetensors file and a record in JSON. `train` writes them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.errors import ModelInvalidError, UsageError
from fastcoder_lsp.model.machine import require_memory
from fastcoder_lsp.model.tensors import SafetensorsTensors

RECORD, WEIGHTS = "fastcoder-drafter.json", "drafter.safetensors"
VERSION = 1
LARGEST = 4096  # largest size that a record may name: sizes take memory before the weights are checked
_HINT = "Train or import it again. See: fastcoder-lsp train --help"


@dataclass(frozen=True, slots=True)
class DrafterRecord:
    """The description of a drafter's weights."""

    method: str  # the drafter's name, such as "medusa"
    target: str  # the hash of the target's weights; empty if unknown
    target_name: str
    width: int  # E, of the target's hidden states
    layers: tuple[int, ...]  # the layers whose hidden states it reads (`core.NORMED`: the last one's, normed)
    numbers: Mapping[str, float] = field(default_factory=dict)  # sizes and constants of the method
    lists: Mapping[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    """Likewise, those of several numbers."""
    data: tuple[str, ...] = ()  # the sources of the training texts, as named
    figures: Mapping[str, float] = field(default_factory=dict)  # losses, and tokens a pass on held-out text
    version: int = VERSION

    def write(self, folder: Path) -> None:
        """Put the record beside the weights."""
        (folder / RECORD).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def whole(self, name: str) -> int:
        """A number that is a size; raises ModelInvalidError if it is missing or none."""
        value = self.number(name)
        if not 1 <= value <= LARGEST or value != int(value):
            raise ModelInvalidError(f"the drafter's record has an invalid {name}: {value}", _HINT)
        return int(value)

    def number(self, name: str) -> float:
        """One of its numbers; raises ModelInvalidError if it is missing."""
        value = self.numbers.get(name)
        if value is None:
            raise ModelInvalidError(f"the drafter's record has no {name}", _HINT)
        return value


@dataclass(frozen=True, slots=True)
class DrafterFiles:
    """A drafter's record, and the folder of its weights."""

    record: DrafterRecord
    folder: Path

    def tensors(self) -> dict[str, Floats]:
        """All weights as fp32, ids as they are; ModelInvalidError for a damaged file, ResourceError without memory."""
        path = self.folder / WEIGHTS
        require_memory(2 * path.stat().st_size if path.is_file() else 0)
        opened = SafetensorsTensors([self.folder / WEIGHTS])
        try:
            return {name: _read(opened, name) for name in opened.names()}
        finally:
            opened.close()


def open_drafter(folder: Path, method: str, target: str = "") -> DrafterFiles:
    """The drafter in `folder`, of the required `method` ("" for any), for the `target` with this hash ("" if unknown).

    Raises UsageError if there is none of this method, ModelInvalidError if it is damaged or another model's.
    """
    path = folder.expanduser() / RECORD
    if not path.is_file():
        raise UsageError(
            f"there is no drafter in {folder}",
            f"Train one: fastcoder-lsp train {method or 'eagle'} --data … --out FOLDER.",
        )
    try:
        record = msgspec.json.decode(path.read_bytes(), type=DrafterRecord)
    except (OSError, ValueError, RecursionError) as error:
        raise ModelInvalidError(f"{path} is damaged: {error}", _HINT) from error
    if record.version != VERSION:
        raise ModelInvalidError(
            f"{path} has format version {record.version}; this program reads version {VERSION}", _HINT
        )
    if method and record.method != method:
        raise UsageError(
            f"the drafter in {folder} is {record.method}, not {method}", f"Use it as {record.method}:weights=…"
        )
    if target and record.target and record.target != target:
        raise ModelInvalidError(
            f"the drafter in {folder} was made for {record.target_name}, weights {record.target[:12]}…",
            "Use that model, or train the drafter for this one.",
        )
    return DrafterFiles(record, path.parent)


Sizes = Mapping[str, tuple[int | None, ...]]  # of tensors, by their names; None: any


def require_sizes(tensors: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
    """Raise ModelInvalidError unless a drafter has these tensors in these sizes."""
    if missing := [name for name in sizes if name not in tensors]:
        raise ModelInvalidError(f"the drafter's weights lack {', '.join(missing[:5])}", _HINT)
    for name, wanted in sizes.items():
        found = tensors[name].shape
        if len(found) != len(wanted) or any(size not in (None, here) for size, here in zip(wanted, found, strict=True)):
            raise ModelInvalidError(
                f"the drafter's {name} has the shape {found}; its record says "
                f"({', '.join('any' if size is None else str(size) for size in wanted)})",
                _HINT,
            )


def require_ids(tensors: Mapping[str, npt.NDArray[Any]], count: int) -> None:
    """Raise ModelInvalidError unless a drafter predicts tokens, and has an id for each if they are a part of all."""
    if not count:
        raise ModelInvalidError("the drafter's vocabulary is empty", _HINT)
    if "ids" in tensors:
        require_sizes(tensors, {"ids": (count,)})
        if tensors["ids"].min(initial=0) < 0:
            raise ModelInvalidError("the drafter has negative token ids", _HINT)


def _read(opened: SafetensorsTensors, name: str) -> npt.NDArray[Any]:
    if opened.kind(name) in ("I64", "I32"):
        return opened.raw(name)
    shape = opened.shape(name)
    if not shape:
        raise ModelInvalidError(f"the drafter's {name} is a number, not an array", _HINT)
    found = opened.rows(name, 0, shape[0])
    if not np.isfinite(found).all():
        raise ModelInvalidError(f"the drafter's {name} contains infinite numbers or NaN", _HINT)
    return np.array(found, np.float32)
