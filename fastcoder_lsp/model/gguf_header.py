"""The head of a GGUF file, read with a bound on everything: a damaged or hostile file costs nothing.

The file's counts never decide how much memory is taken, and every length is checked against the bytes that are there.
Then tensors must lie within the file, be of known kinds, and fit the metadata. That takes milliseconds, before a
library sees the file. (The `gguf` package's reader bounds nothing, and takes seconds.)
"""

import math
import os
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.gguf_blocks import kind_of

DAMAGED_HINT = "The file is damaged or cut short. Download it again."
VERSIONS = (2, 3)
MOST_FIELDS = 4096
MOST_TENSORS = 1 << 16
MOST_ITEMS = 1 << 20  # of one list: four times the largest vocabularies, twice the most merges that are known
MOST_TEXT = 1 << 20  # bytes of one text; templates of chats take some thousand
MOST_DIMENSIONS = 4
MOST_NUMBERS = 1 << 40  # in one tensor

_TEXT, _LIST = 8, 9
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}

Scalar = int | float | bool | str


@dataclass(frozen=True, slots=True)
class TensorHead:
    """A tensor's description: `sizes` with the fastest first, `kind` as GGUF numbers them, `offset` into the data."""

    name: str
    sizes: tuple[int, ...]
    kind: int
    offset: int

    @property
    def numbers(self) -> int:
        """How many it holds."""
        return math.prod(self.sizes)


@dataclass(frozen=True, slots=True)
class Header:
    """`fields`: the single values; `lengths`: of the lists; `data_from`: the offset of the tensors' bytes."""

    fields: Mapping[str, Scalar]
    lengths: Mapping[str, int]
    tensors: tuple[TensorHead, ...]
    data_from: int
    lists: Mapping[str, Sequence[Scalar]]  # the items of the requested lists


def read_header(path: Path, lists: Collection[str] = ()) -> Header:
    """The head of `path`, with the contents of these `lists`; raises ModelInvalidError for a damaged or other file."""
    try:
        with path.open("rb") as file:
            return _read(_HeaderReader(file), lists)
    except (_MalformedFileError, UnicodeDecodeError) as error:
        raise ModelInvalidError(f"{path} cannot be read: {error}", DAMAGED_HINT) from error
    except OSError as error:
        raise ModelInvalidError(
            f"{path} cannot be read: {error.strerror}", "Name a file that exists and that you can read."
        ) from error


class _MalformedFileError(Exception):
    """The damage of a file; leaves this module as a `ModelInvalidError`."""


class _HeaderReader:
    """A file read forwards, never beyond its end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self.place = 0

    def take(self, count: int) -> bytes:
        if count > self.size - self.place:
            raise _MalformedFileError("it ends within its header")
        data = self._file.read(count)
        if len(data) != count:
            raise _MalformedFileError("it became shorter while it was read")
        self.place += count
        return data

    def number(self, form: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def count(self, most: int, what: str, form: str = "<Q") -> int:
        value = int(self.number(form))
        if not 0 <= value <= most:
            raise _MalformedFileError(f"it claims {value} {what}")
        return value

    def text(self) -> str:
        return self.take(self.count(MOST_TEXT, "bytes in one string")).decode()

    def skip_text(self) -> None:
        self.take(self.count(MOST_TEXT, "bytes in one string"))


def _read(reader: _HeaderReader, wanted: Collection[str]) -> Header:
    if reader.size < 4 or reader.take(4) != b"GGUF":
        raise _MalformedFileError("it is not a GGUF file")
    version = reader.number("<I")
    if version not in VERSIONS:
        raise _MalformedFileError(
            f"it has format version {version}; this program reads {', '.join(map(str, VERSIONS))}"
        )
    tensors = reader.count(MOST_TENSORS, "tensors")
    fields: dict[str, Scalar] = {}
    lengths: dict[str, int] = {}
    lists: dict[str, Sequence[Scalar]] = {}
    for name, value, length in _fields(reader, reader.count(MOST_FIELDS, "fields"), wanted):
        if name in fields or name in lengths:
            raise _MalformedFileError(f"it defines {name} twice")
        if isinstance(value, list):
            lengths[name] = length
            if name in wanted:
                lists[name] = value
        else:
            fields[name] = value
    heads = tuple(_tensor(reader) for _ in range(tensors))
    if len({head.name for head in heads}) != len(heads):
        raise _MalformedFileError("it defines a tensor twice")
    alignment = fields.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment > 1 << 16 or alignment & (alignment - 1):
        raise _MalformedFileError(f"its alignment {alignment} is invalid")
    return Header(fields, lengths, heads, -(-reader.place // alignment) * alignment, lists)


def _fields(
    reader: _HeaderReader, count: int, wanted: Collection[str]
) -> Iterator[tuple[str, Scalar | list[Scalar], int]]:
    """(name, value, 0) of a single value, (name, items, length) of a list; the items of `wanted` lists alone."""
    for _ in range(count):
        name, kind = reader.text(), reader.number("<I")
        if kind == _TEXT:
            yield name, reader.text(), 0
        elif kind == _LIST:
            yield name, *_list(reader, keep=name in wanted)
        elif (form := _SCALARS.get(int(kind))) is not None:
            yield name, reader.number(form), 0
        else:
            raise _MalformedFileError(f"{name} has the unknown type {kind}")


def _list(reader: _HeaderReader, *, keep: bool) -> tuple[list[Scalar], int]:
    """A list's items, none where they are not to be kept, and how many it has."""
    kind, length = reader.number("<I"), reader.count(MOST_ITEMS, "items in one list")
    items: list[Scalar] = []
    if kind == _TEXT:
        for _ in range(length):
            if keep:
                items.append(reader.text())
            else:
                reader.skip_text()
    elif (form := _SCALARS.get(int(kind))) is not None:
        data = reader.take(length * struct.calcsize(form))
        if keep:
            items = [value for (value,) in struct.iter_unpack(form, data)]
    else:
        raise _MalformedFileError(f"it has a list of the unknown type {kind}")
    return items, length


def _tensor(reader: _HeaderReader) -> TensorHead:
    name = reader.text()
    dimensions = reader.count(MOST_DIMENSIONS, f"dimensions in {name}", "<I")
    sizes = tuple(reader.count(MOST_NUMBERS, f"numbers in {name}") for _ in range(dimensions))
    head = TensorHead(name, sizes, int(reader.number("<I")), int(reader.number("<Q")))
    if not 0 < head.numbers <= MOST_NUMBERS:
        raise _MalformedFileError(f"it claims {head.numbers} numbers in {name}")
    return head


EMBEDDING = "token_embd.weight"
MOST_SIZE = 1 << 26  # largest number in a model's description; the longest contexts are ten million tokens
KIND_HINT = "Use the same model in another form, such as Q4_K_M, Q8_0 or BF16."
_BLOCK = re.compile(r"blk\.(\d{1,5})\.")
_SIZES = ("_length", "_count", "vocab_size")


def check_header(gguf: Path, lists: Collection[str] = ()) -> Header:
    """The checked head of a GGUF with the contents of `lists`; ModelInvalidError for any other or damaged file."""
    header = read_header(gguf, lists)
    if not isinstance(header.fields.get("general.architecture"), str):
        raise ModelInvalidError(f"{gguf} cannot be read: its header has no architecture", DAMAGED_HINT)
    _check_tensors(header, gguf)
    _check_sizes(header, gguf)
    return header


def _check_tensors(header: Header, gguf: Path) -> None:
    """Check that every tensor is of a known kind, and that its bytes are in the file."""
    kinds = {number: kind_of(number) for number in {tensor.kind for tensor in header.tensors}}
    available = gguf.stat().st_size - header.data_from
    for tensor in header.tensors:
        kind = kinds[tensor.kind]
        if kind is None:
            raise ModelInvalidError(f"{gguf} has weights of the unsupported type {kind_name(tensor.kind)}", KIND_HINT)
        if tensor.sizes[:1] and tensor.sizes[0] % kind.numbers:
            raise ModelInvalidError(
                f"{gguf} cannot be read: {tensor.name} is not a whole number of blocks", DAMAGED_HINT
            )
        if tensor.offset + tensor.numbers // kind.numbers * kind.size > available:
            raise ModelInvalidError(f"{gguf} is cut short", DAMAGED_HINT)
    if not header.tensors:
        raise ModelInvalidError(f"{gguf} has no tensors", DAMAGED_HINT)


def kind_name(kind: int) -> str:
    """The name of a kind of weights; its number where it has none."""
    from gguf import GGMLQuantizationType  # noqa: PLC0415

    return next((known.name for known in GGMLQuantizationType if known == kind), str(kind))


def _check_sizes(header: Header, gguf: Path) -> None:
    """Check that the metadata fits the tensors: a library would make a model as large as the metadata says."""
    by_name = {tensor.name: tensor for tensor in header.tensors}
    if EMBEDDING not in by_name:
        raise ModelInvalidError(f"{gguf} lacks the tensor {EMBEDDING}", DAMAGED_HINT)
    embedding = by_name[EMBEDDING]
    if len(embedding.sizes) != 2:
        raise ModelInvalidError(f"{gguf} cannot be read: {EMBEDDING} has the shape {embedding.sizes}", DAMAGED_HINT)
    width, rows = embedding.sizes
    blocks = {match[1] for name in by_name if (match := _BLOCK.match(name))}
    inner = by_name["blk.0.ffn_up.weight"].sizes[-1] if "blk.0.ffn_up.weight" in by_name else MOST_SIZE
    architecture = str(header.fields["general.architecture"])
    least_most = {
        "embedding_length": (width, width),
        "block_count": (len(blocks), len(blocks)),
        "feed_forward_length": (1, inner),  # some keep gate and up in one tensor
        "vocab_size": (1, 2 * rows),
    }
    for name, said in header.fields.items():
        kind = name.removeprefix(f"{architecture}.")
        if kind == name or isinstance(said, (str, float, bool)) or not name.endswith(_SIZES):
            continue
        least, most = least_most.get(kind, (0, MOST_SIZE))
        if not least <= said <= most:
            raise ModelInvalidError(f"{gguf} cannot be read: {name} has the invalid value {said}", DAMAGED_HINT)
    tokens = header.lengths.get("tokenizer.ggml.tokens", 0)
    if not 0 < tokens <= rows:
        raise ModelInvalidError(
            f"{gguf} cannot be read: it lists {tokens} tokens, but its embedding has {rows} rows", DAMAGED_HINT
        )
