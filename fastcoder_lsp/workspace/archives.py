"""The members of an archive, read in memory: nothing is ever unpacked to the disk.

Owns how much is taken of one, for a few bytes can say that they are many, and what is damaged in one, for the libraries
say it in a dozen ways.
"""

import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.regular import NotRegularError, open_real

ARCHIVES: Final = (".zip", ".whl", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
MAX_BYTES: Final = 2_000_000_000
"""Of all that is taken from an archive, and of what is unpacked on the way to it."""
MAX_MEMBERS: Final = 500_000
_ZIPPED: Final = (".zip", ".whl")
_DAMAGED: Final = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(OSError, EOFError, ValueError, OverflowError, NotImplementedError, RuntimeError),  # the last: a password
)
Wanted = Callable[[str], bool]


class _TooMuchError(Exception):
    """The archive holds more than anybody means to give."""


def members(path: Path, wanted: Wanted, most: int) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the files in an archive that are `wanted` and no larger than `most` bytes.

    Raises:
        UsageError: it cannot be read, is damaged, or is too large; what was read before stands.
    """
    try:
        with BufferedReader(open_real(path.resolve())) as file:
            unpack = _zip if path.suffix in _ZIPPED else _tar
            yield from unpack(file, wanted, most)
    except _TooMuchError as error:
        raise UsageError(
            f"{path} holds more than {MAX_BYTES // 10**9} GB or {MAX_MEMBERS:,} files",
            "Unpack it, and name a part of it.",
        ) from error
    except NotRegularError as error:
        raise UsageError(
            f"{path} is {error.strerror}", "Name folders, code files, .zip, .whl or .tar archives."
        ) from error
    except _DAMAGED as error:
        words = str(error) or type(error).__name__
        hint = "Use a complete archive without a password."
        raise UsageError(f"{path} cannot be read: {words}", hint) from error


def _zip(file: BinaryIO, wanted: Wanted, most: int) -> Iterator[tuple[str, bytes]]:
    taken = 0
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if len(entries) > MAX_MEMBERS:
            raise _TooMuchError
        for member in entries:
            if member.is_dir() or member.file_size > most or not wanted(member.filename):
                continue
            taken += member.file_size
            if taken > MAX_BYTES:
                raise _TooMuchError
            yield member.filename, archive.read(member)


def _tar(file: BinaryIO, wanted: Wanted, most: int) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=file) as archive:
        for number, member in enumerate(archive):
            # What is skipped has to be unpacked too.
            if number >= MAX_MEMBERS or member.offset_data + member.size > MAX_BYTES:
                raise _TooMuchError
            if member.isfile() and member.size <= most and wanted(member.name):
                opened = archive.extractfile(member)
                if opened is not None:
                    yield member.name, opened.read(most)
