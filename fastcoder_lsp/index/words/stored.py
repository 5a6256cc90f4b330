"""An index of words on the disk: one file, which appears whole, and whose lists are mapped when it is read.

Owns the file's format. What is mapped takes no memory of its own but for the lists that are asked for. Layout,
little-endian:

    magic 8 bytes | version, words, files F, postings P, bytes of keys K: int64 each | CRC-32 of everything else
    | padding to 64 bytes | starts int32[words + 1] | lengths float32[F] | stamps int64[F] | files uint16[P] | keys

Keys are joined by zero bytes, which no path has. History of the version: 1 the first; it changes, too, whenever a text
has other words than before.
"""

import mmap
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.index.files import appearing, check_room, private_folder
from fastcoder_lsp.index.words.postings import Postings
from fastcoder_lsp.index.words.terms import TERMS

MAGIC = b"FCLSPWRD"
VERSION = 1
MOST_BYTES = 1_000_000_000
"""Of a file that is read: larger than any that is written."""
_HEADER = struct.Struct("<8s5qI")
_HEADER_SIZE = 64
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class StoredWords:
    """All that an index knows.

    Attributes:
        postings: by files' numbers.
        keys: the files', by their numbers.
        lengths: float32, how many different words each file has.
        stamps: int64, what tells whether a file has changed.
    """

    postings: Postings
    keys: tuple[str, ...]
    lengths: npt.NDArray[np.float32]
    stamps: npt.NDArray[np.int64]


def write(path: Path, words: StoredWords) -> None:
    """Put an index at `path`, in a folder that only the user may enter.

    Raises:
        OSError: it cannot be written; what was there is still there.
    """
    postings = words.postings
    keys = "\0".join(words.keys).encode("utf-8", "surrogatepass")
    parts = (
        np.ascontiguousarray(postings.starts, "<i4"),
        np.ascontiguousarray(words.lengths, "<f4"),
        np.ascontiguousarray(words.stamps, "<i8"),
        np.ascontiguousarray(postings.files, "<u2"),
        np.frombuffer(keys, np.uint8),
    )
    header = _HEADER.pack(MAGIC, VERSION, TERMS, len(words.keys), len(postings.files), len(keys), 0)
    crc = zlib.crc32(header)
    for part in parts:
        crc = zlib.crc32(part.data, crc)
    folder = private_folder(path.parent)
    check_room(folder, _HEADER_SIZE + sum(part.nbytes for part in parts))
    with appearing(path) as file:
        file.write((header[: -struct.calcsize("<I")] + struct.pack("<I", crc)).ljust(_HEADER_SIZE, b"\0"))
        for part in parts:
            file.write(part.data)


def read(path: Path) -> StoredWords | None:
    """The index at `path`; None where there is none, or it is not what this program writes.

    Raises:
        OSError: the disk does not give it.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_SIZE)
            sizes = _sizes(header)
            if sizes is None or path.stat().st_size != _HEADER_SIZE + sum(sizes):
                return None
            if not _whole(header, iter(lambda: file.read(_BLOCK), b"")):
                return None
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        return None
    starts_at, lengths_at, stamps_at, files_at, keys_at = np.cumsum((_HEADER_SIZE, *sizes[:-1])).tolist()
    count, postings = sizes[1] // 4, sizes[3] // 2
    words = StoredWords(
        Postings(np.frombuffer(mapped, "<i4", TERMS + 1, starts_at), np.frombuffer(mapped, "<u2", postings, files_at)),
        tuple(mapped[keys_at:].decode("utf-8", "surrogatepass").split("\0")) if count else (),
        np.frombuffer(mapped, "<f4", count, lengths_at).copy(),
        np.frombuffer(mapped, "<i8", count, stamps_at).copy(),
    )
    return words if len(words.keys) == count else None


def _sizes(header: bytes) -> tuple[int, int, int, int, int] | None:
    """Bytes of the file's parts behind its header; None where that is not ours."""
    if len(header) < _HEADER_SIZE:
        return None
    magic, version, terms, files, postings, keys, _ = _HEADER.unpack(header[: _HEADER.size])
    if (magic, version, terms) != (MAGIC, VERSION, TERMS) or not all(
        0 <= n < MOST_BYTES for n in (files, postings, keys)
    ):
        return None
    return 4 * (TERMS + 1), 4 * files, 8 * files, 2 * postings, keys


def _whole(header: bytes, blocks: Iterator[bytes]) -> bool:
    """Whether the checksum is right: then every number in it is one that we wrote."""
    *known, told = _HEADER.unpack(header[: _HEADER.size])
    crc = zlib.crc32(_HEADER.pack(*known, 0))
    for block in blocks:
        crc = zlib.crc32(block, crc)
    return bool(crc == told)
