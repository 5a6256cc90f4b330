"""Tensors of safetensors files, read a few rows at a time without torch: numpy alone knows no bfloat16.

Owns that reading. The library sees each file first, and refuses a head that is damaged.
"""

import json
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from fastcoder_lsp.errors import ModelInvalidError

DAMAGED_HINT = "Download the model again: fastcoder-lsp model pull"
_TYPES: dict[str, type[np.generic]] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
FRACTIONS = ("F64", "F32", "F16", "BF16")
"""Kinds that hold numbers with a fraction."""


class SafetensorsTensors:
    """The tensors of one or several files; see `tensors.Tensors`."""

    def __init__(self, paths: list[Path]) -> None:
        self._files: list[BinaryIO] = []
        self._entries: dict[str, tuple[BinaryIO, int, dict[str, Any]]] = {}
        try:
            for path in paths:
                self._open(path)
        except BaseException:
            self.close()
            raise

    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def shape(self, name: str) -> tuple[int, ...]:
        """Its sizes, rows first."""
        return tuple(self._entries[name][2]["shape"])

    def kind(self, name: str) -> str:
        """What its numbers are kept as: "F32", "BF16", "I32", "Q5_0"."""
        return str(self._entries[name][2]["dtype"])

    def rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.float32]:
        """The rows `start` to `stop`, as fp32."""
        found = self._read(name, start, stop)
        if self.kind(name) == "BF16":
            wide: npt.NDArray[np.float32] = np.left_shift(found, 16, dtype=np.uint32).view(np.float32)
            return wide
        if self.kind(name) not in FRACTIONS:
            raise ModelInvalidError(f"{name} is {self.kind(name)}, not a floating-point type", DAMAGED_HINT)
        plain: npt.NDArray[np.float32] = found.astype(np.float32, copy=False)
        return plain

    def raw(self, name: str) -> npt.NDArray[Any]:
        """The whole tensor, in the precision of its file; bfloat16 as 16-bit patterns, blocks of a GGUF as fp32."""
        shape = self.shape(name)
        return self._read(name, 0, shape[0]) if shape else self._bytes(name, 0, 1).reshape(())

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def _open(self, path: Path) -> None:
        try:
            with safe_open(path, framework="np"):  # its head fits the file
                pass
            file = path.open("rb")
            self._files.append(file)
            size = int.from_bytes(file.read(8), "little")
            head = json.loads(file.read(size))
        except (SafetensorError, OSError, ValueError, RecursionError) as error:
            raise ModelInvalidError(f"{path} is damaged: {error}", DAMAGED_HINT) from error
        for name, entry in head.items():
            if name != "__metadata__":
                self._entries[name] = file, 8 + size + entry["data_offsets"][0], entry

    def _read(self, name: str, start: int, stop: int) -> npt.NDArray[Any]:
        _, *inner = self.shape(name)
        each = int(np.prod(inner, dtype=np.int64))
        return self._bytes(name, start * each, (stop - start) * each).reshape(stop - start, *inner)

    def _bytes(self, name: str, start: int, count: int) -> npt.NDArray[Any]:
        file, place, _ = self._entries[name]
        kind = _TYPES.get(self.kind(name))
        if kind is None:
            raise ModelInvalidError(f"{name} has the unsupported type {self.kind(name)}", DAMAGED_HINT)
        found = np.empty(count, dtype=kind)
        try:
            file.seek(place + start * found.itemsize)
            read = file.readinto(found.view(np.uint8).data)  # type: ignore[attr-defined]
        except OSError as error:
            raise ModelInvalidError(f"{name} cannot be read: {error}", DAMAGED_HINT) from error
        if read != found.nbytes:
            raise ModelInvalidError(f"{name} cannot be read: the file is cut short", DAMAGED_HINT)
        return found
