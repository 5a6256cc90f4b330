"""Segments: parts in immutable files, mapped into memory.

Defines the file format; a segment is never written to once it has its name. Layout, little-endian:

    magic 8 bytes | version, tokens N, entries M, files F, table length: int64 each | tokenizer identity, 64 bytes
    | CRC-32 of everything else | padding to 256 bytes | starts int64[F + 1] | tokens int32[N] | order int32[M]
    | table: JSON, [key, digest, modified_ns, size, changed_ns] for each file
"""

import json
import mmap
import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np

from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.core.files import TEMPORARY, check_room, delete, private_file, reserve, sync_folder
from fastcoder_lsp.index.part import FileRecord, Part, Tokens32

MAGIC = b"FCLSPSEG"
VERSION = 2
_HEADER = struct.Struct("<8s5q64sI")
_HEADER_SIZE = 256
_CRC_AT = _HEADER.size - 4
_BLOCK = 1 << 24


class DamagedError(Exception):
    """A stored file is invalid: another version, another tokenizer, cut short or altered."""


class SegmentDraft:
    """A segment being written: the caller fills `tokens_N` and `order_M` in place, in the file itself.

    `finish` gives the complete file the name `path`, synced to the disk. After an OSError nothing of it is left.
    """

    def __init__(
        self, path: Path, identity: str, starts: Int64s, records: tuple[FileRecord, ...], entries: int
    ) -> None:
        self._path, self._identity, self._temporary = path, identity, path.with_name(path.name + TEMPORARY)
        n = int(starts[-1])
        table = json.dumps([[r.key, r.digest, r.modified_ns, r.size, r.changed_ns] for r in records]).encode()
        sizes = (VERSION, n, entries, len(records), len(table))
        self._header = _HEADER.pack(MAGIC, *sizes, identity.encode()[:64], 0)[:_CRC_AT]
        at = _HEADER_SIZE + 8 * len(starts)
        size = at + 4 * n + 4 * entries + len(table)
        check_room(path.parent, size)
        self._mapped: mmap.mmap | None = None
        self._file = private_file(self._temporary)
        try:
            reserve(self._file, size)
            self._file.seek(_HEADER_SIZE)
            self._file.write(np.asarray(starts, "<i8").tobytes())
            self._file.seek(at + 4 * n + 4 * entries)
            self._file.write(table)
            self._file.flush()
            self._mapped = mmap.mmap(self._file.fileno(), 0)
        except BaseException:
            self.discard()
            raise
        self.tokens_N: Tokens32 = np.frombuffer(self._mapped, "<i4", n, at)
        self.order_M: Tokens32 = np.frombuffer(self._mapped, "<i4", entries, at + 4 * n)

    def finish(self) -> Part:
        """Complete the file, give it its name, and map it. On failure nothing of it is left."""
        assert self._mapped is not None
        try:
            crc = _checksum(self._mapped, self._header)
            self._mapped[: _HEADER.size] = self._header + struct.pack("<I", crc)
            self._mapped.flush()
            os.fsync(self._file.fileno())
            self._let_go()
            self._temporary.replace(self._path)
        except BaseException:
            self.discard()
            raise
        sync_folder(self._path.parent)
        return read_segment(self._path, self._identity, check=False)

    def discard(self) -> None:
        """Close the file, and delete it."""
        self._let_go()
        delete(self._temporary)

    def _let_go(self) -> None:
        self.tokens_N = self.order_M = np.zeros(0, np.int32)
        # A remaining reference (a traceback's frames) keeps the memory, not the file.
        with suppress(BufferError):
            if self._mapped is not None:
                self._mapped.close()
        with suppress(OSError):  # a full disk was reported by the earlier error
            self._file.close()


def write_segment(part: Part, path: Path, identity: str) -> Part:
    """Write a part to `path`, which appears only when it is complete and synced to the disk; returns it mapped."""
    draft = SegmentDraft(path, identity, part.starts, part.records, len(part.order_M))
    draft.tokens_N[:] = part.tokens_N
    draft.order_M[:] = part.order_M
    return draft.finish()


def read_segment(path: Path, identity: str, *, check: bool = True) -> Part:
    """Map a segment; with `check`, compare the checksum of the whole file, so that a search can trust its order.

    Raises DamagedError if it is not complete, of this version and of the tokenizer `identity`; FileNotFoundError if
    another process has merged it away.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER_SIZE)
        if len(header) < _HEADER_SIZE:
            raise DamagedError(f"{path.name} is cut short")
        magic, version, n, m, files, table_size, made_by, crc = _HEADER.unpack(header[: _HEADER.size])
        if magic != MAGIC or version != VERSION:
            raise DamagedError(f"{path.name} has another format")
        if made_by.rstrip(b"\0") != identity.encode()[:64]:
            raise DamagedError(f"{path.name} belongs to another tokenizer")
        whole = _HEADER_SIZE + 8 * (files + 1) + 4 * n + 4 * m + table_size
        if min(n, m, files, table_size) < 0 or os.fstat(file.fileno()).st_size != whole:
            raise DamagedError(f"{path.name} is cut short")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if check and _checksum(mapped, header) != crc:
        raise DamagedError(f"{path.name} is damaged")
    at = _HEADER_SIZE
    starts = np.frombuffer(mapped, "<i8", files + 1, at)
    tokens_N = np.frombuffer(mapped, "<i4", n, at := at + 8 * (files + 1))
    order_M = np.frombuffer(mapped, "<i4", m, at := at + 4 * n)
    table = json.loads(mapped[at + 4 * m :])
    return Part(tokens_N, order_M, starts, tuple(FileRecord(*row) for row in table), path.name)


def _checksum(mapped: mmap.mmap, header: bytes) -> int:
    crc = zlib.crc32(header[:_CRC_AT])
    with memoryview(mapped) as view:
        for at in range(_HEADER_SIZE, len(view), _BLOCK):
            crc = zlib.crc32(view[at : at + _BLOCK], crc)
    return crc
