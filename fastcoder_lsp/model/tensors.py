"""A model's tensors as plain numbers, read a few rows at a time, from any kind of file; names are transformers'.

Safetensors are read without torch (numpy alone knows no bfloat16; the library sees each file first, and refuses a
damaged head), and so are the packed integers of AWQ ("gemm", as AutoAWQ writes it) and GPTQ (AutoGPTQ): `X.qweight`,
`X.qzeros`, `X.scales` in place of `X.weight`, whose columns are rows here. A weight is `scale · (q - zero)`; groups of
inputs share scale and zero. Legend: K inputs, N outputs, G groups.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from fastcoder_lsp.core.arrays import Floats, Int32s, Int64s
from fastcoder_lsp.core.files import read_json
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.files import INDEX, ORIGIN, WEIGHTS, gguf_of, weight_files
from fastcoder_lsp.model.gguf_tensors import GgufTensors


class Tensors(Protocol):
    """Tensors by name. Methods raise ModelInvalidError for a damaged file, KeyError for an unknown name."""

    def __contains__(self, name: str) -> bool: ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Its sizes, rows first."""

    def kind(self, name: str) -> str:
        """The type of its numbers: "F32", "BF16", "I32", "Q5_0"."""

    def rows(self, name: str, start: int, stop: int) -> Floats:
        """The rows `start` to `stop`, as fp32."""

    def raw(self, name: str) -> npt.NDArray[np.generic]:
        """The whole tensor, in the precision of its file; bfloat16 as 16-bit patterns, blocks of a GGUF as fp32."""

    def close(self) -> None:
        """Close the files."""


DAMAGED_HINT = "Download the model again: fastcoder-lsp model pull"
TYPES: Mapping[str, type[np.generic]] = {
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
"""By safetensors' names; bfloat16 as 16-bit patterns."""
FRACTIONS = ("F64", "F32", "F16", "BF16")  # kinds that hold numbers with a fraction
Layout = Mapping[str, tuple[str, tuple[int, ...]]]
"""The tensors of a file in their order: name → type and shape."""


def array_bytes(kind: str, shape: tuple[int, ...]) -> int:
    """Bytes of an array of this type and shape."""
    return int(np.prod(shape)) * np.dtype(TYPES[kind]).itemsize


def safetensors_header(layout: Layout, **metadata: str) -> bytes:
    """The header of a safetensors file that holds these arrays one after the other."""
    entries: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    place = 0
    for name, (kind, shape) in layout.items():
        size = array_bytes(kind, shape)
        entries[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


class SafetensorsTensors:
    """The tensors of one or several files."""

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
        """The type of its numbers: "F32", "BF16", "I32", "Q5_0"."""
        return str(self._entries[name][2]["dtype"])

    def rows(self, name: str, start: int, stop: int) -> Floats:
        """The rows `start` to `stop`, as fp32."""
        found = self._read(name, start, stop)
        if self.kind(name) == "BF16":
            wide: Floats = np.left_shift(found, 16, dtype=np.uint32).view(np.float32)
            return wide
        if self.kind(name) not in FRACTIONS:
            raise ModelInvalidError(f"{name} is {self.kind(name)}, not a floating-point type", DAMAGED_HINT)
        plain: Floats = found.astype(np.float32, copy=False)
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
        kind = TYPES.get(self.kind(name))
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


HINT = "Use the same model as a GGUF file, or unquantized."
_WEIGHT = ".weight"
_AWQ_ORDER = np.array([0, 4, 1, 5, 2, 6, 3, 7])
"""Which four bits of a word, counted from the lowest, hold its first, second, … number."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """`method`: "awq" or "gptq"; `bits` of a weight; `off`: added to every zero."""

    method: str
    bits: int
    off: int

    @property
    def in_a_word(self) -> int:
        """Numbers in 32 bits."""
        return 32 // self.bits


def scheme_of(config: Mapping[str, Any]) -> Scheme | None:
    """The packing of the weights by config.json; None for an unknown one, and for none."""
    said = config.get("quantization_config")
    if not isinstance(said, Mapping):
        return None
    method, bits = said.get("quant_method"), said.get("bits", said.get("w_bit"))
    if method == "awq" and bits == 4 and str(said.get("version", "gemm")).lower() == "gemm":
        return Scheme("awq", 4, 0)
    form = said.get("checkpoint_format", "gptq")
    if method == "gptq" and bits in (4, 8) and form in ("gptq", "gptq_v2"):
        return Scheme("gptq", int(bits), 1 if form == "gptq" else 0)
    return None


class QuantisedTensors:
    """The tensors of a model packed by AWQ or GPTQ. Keeps the words of the matrix that was read last."""

    def __init__(self, packed: Tensors, scheme: Scheme) -> None:
        self._packed, self._scheme = packed, scheme
        self._at_hand: tuple[str, _MatrixParts] | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._packed or self._stem(name) is not None

    def shape(self, name: str) -> tuple[int, ...]:
        """Its sizes, rows first."""
        stem = self._stem(name)
        if stem is None:
            return self._packed.shape(name)
        words = self._packed.shape(f"{stem}.qweight")
        if len(words) != 2:
            raise ModelInvalidError(f"{stem}.qweight has the shape {words}", HINT)
        each = self._scheme.in_a_word
        return (words[1] * each, words[0]) if self._scheme.method == "awq" else (words[1], words[0] * each)

    def kind(self, name: str) -> str:
        """The type of its numbers: "F32", "BF16", "I32", "Q5_0"."""
        return self._packed.kind(name) if self._stem(name) is None else self._scheme.method

    def rows(self, name: str, start: int, stop: int) -> Floats:
        """The rows `start` to `stop`, as fp32."""
        stem = self._stem(name)
        return self._packed.rows(name, start, stop) if stem is None else self._matrix(stem).rows(start, stop)

    def raw(self, name: str) -> npt.NDArray[np.generic]:
        """The whole tensor, in the precision of its file; bfloat16 as 16-bit patterns, blocks of a GGUF as fp32."""
        return self._packed.raw(name) if self._stem(name) is None else self.rows(name, 0, self.shape(name)[0])

    def close(self) -> None:
        """Close the files."""
        self._at_hand = None
        self._packed.close()

    def _stem(self, name: str) -> str | None:
        """The common beginning of the names of the packed parts; None for an unpacked tensor."""
        stem = name.removesuffix(_WEIGHT)
        return stem if stem != name and f"{stem}.qweight" in self._packed else None

    def _matrix(self, stem: str) -> "_MatrixParts":
        if self._at_hand is None or self._at_hand[0] != stem:
            self._at_hand = stem, _MatrixParts(self._packed, stem, self._scheme, self.shape(stem + _WEIGHT))
        return self._at_hand[1]


class _MatrixParts:
    """The parts of one matrix; raises ModelInvalidError where they do not fit together."""

    def __init__(self, packed: Tensors, stem: str, scheme: Scheme, shape: tuple[int, ...]) -> None:
        self._scheme = scheme
        rows, columns = shape
        for part in ("qzeros", "scales"):
            if f"{stem}.{part}" not in packed:
                raise ModelInvalidError(f"the model's files have no {stem}.{part}", HINT)
        self._words = _integers(packed, f"{stem}.qweight")
        self._zeros = _integers(packed, f"{stem}.qzeros")
        self._scales_GN = packed.rows(f"{stem}.scales", 0, packed.shape(f"{stem}.scales")[0])
        groups = len(self._scales_GN)
        fits = self._scales_GN.shape == (groups, rows) and self._zeros.shape == (groups, rows // scheme.in_a_word)
        if not fits or not groups or columns % groups:
            raise ModelInvalidError(f"the parts of {stem} have different sizes", HINT)
        self._group_K = np.arange(columns) // (columns // groups)
        if scheme.method == "gptq" and f"{stem}.g_idx" in packed:  # inputs in order of their weight
            self._group_K = _integers(packed, f"{stem}.g_idx").astype(np.int64)
            if self._group_K.shape != (columns,) or self._group_K.min() < 0 or self._group_K.max() >= groups:
                raise ModelInvalidError(f"{stem}.g_idx refers to groups that do not exist", HINT)

    def rows(self, start: int, stop: int) -> Floats:
        """Outputs `start` to `stop`, [N, K]."""
        each = self._scheme.in_a_word
        first, last = start // each * each, -(-stop // each) * each
        zeros_GN = self._across(self._zeros[:, first // each : last // each])[:, start - first : stop - first]
        if self._scheme.method == "awq":
            words = self._words[:, first // each : last // each]
            found_KN = self._across(words)[:, start - first : stop - first].astype(np.float32)
        else:
            found_KN = self._down(self._words[:, start:stop]).astype(np.float32)
        # the first version of GPTQ writes each zero less one, modulo its bits
        zeros_GN = (zeros_GN + self._scheme.off) & ((1 << self._scheme.bits) - 1)
        found_KN -= zeros_GN.astype(np.float32)[self._group_K]
        found_KN *= self._scales_GN[:, start:stop][self._group_K]
        return np.ascontiguousarray(found_KN.T)

    def _across(self, words: Int32s) -> Int64s:
        """Numbers that lie beside each other in words: [..., W] → [..., W · numbers in a word]."""
        bits, each = self._scheme.bits, self._scheme.in_a_word
        places = _AWQ_ORDER if self._scheme.method == "awq" else np.arange(each)
        found = (words.view(np.uint32)[..., None] >> (bits * places).astype(np.uint32)) & np.uint32((1 << bits) - 1)
        return found.reshape(*words.shape[:-1], words.shape[-1] * each).astype(np.int64)

    def _down(self, words: Int32s) -> npt.NDArray[np.uint32]:
        """Numbers that lie below each other: [W, N] → [W · numbers in a word, N]."""
        bits, each = self._scheme.bits, self._scheme.in_a_word
        shifts = (bits * np.arange(each)).astype(np.uint32)[:, None]
        found = (np.ascontiguousarray(words).view(np.uint32)[:, None] >> shifts) & np.uint32((1 << bits) - 1)
        return found.reshape(words.shape[0] * each, words.shape[1])


def _integers(packed: Tensors, name: str) -> Int32s:
    found = packed.raw(name)
    if found.dtype != np.int32:
        raise ModelInvalidError(f"{name} is {packed.kind(name)}, not I32", HINT)
    return np.ascontiguousarray(found).view(np.int32)


def open_tensors(folder: Path) -> Tensors:
    """The tensors of the model in `folder`. Raises ModelInvalidError if a file is missing or damaged."""
    if not (folder / WEIGHTS).is_file() and not (folder / INDEX).is_file() and gguf_of(folder) is not None:
        return GgufTensors.of(folder)
    scheme = scheme_of(read_json(folder / "config.json"))
    plain = SafetensorsTensors(weight_files(folder))
    return plain if scheme is None else QuantisedTensors(plain, scheme)


def rounded_already(folder: Path) -> str:
    """The quantization that rounded the weights of the model in `folder`, "GGUF" or "AWQ"; empty if unknown."""
    if (folder / ORIGIN).is_file():
        return "GGUF"
    scheme = scheme_of(read_json(folder / "config.json"))
    return "" if scheme is None else scheme.method.upper()
