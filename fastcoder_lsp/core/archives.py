"""The errors by which a damaged or hostile archive shows."""

import lzma
import struct
import zipfile
import zlib
from typing import Final

DAMAGED_ZIP: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, ValueError, OverflowError),
    *(NotImplementedError, RuntimeError),  # an unknown method, a password
)
"""Errors of `zipfile`; it raises OSError, too."""
