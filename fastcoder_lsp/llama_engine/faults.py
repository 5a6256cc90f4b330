"""The record of crashes in llama.cpp's code, each of which ends the process: a second one is the last.

Python writes each fatal signal into the record, and the library its failed assertion before that. The supervisor starts
the process anew, and a model that has crashed twice, with less than a week between, is refused, so that it cannot end
one process after the other.
"""

import ctypes
import faulthandler
import hashlib
import logging
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from llama_cpp._ggml import libggml

from fastcoder_lsp.core.files import private_folder
from fastcoder_lsp.errors import ResourceError

logger = logging.getLogger(__name__)
_MOST, _REMEMBERED_S = 2, 7 * 24 * 3600.0
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_CRASH = re.compile(r"^(?:llama\.cpp: (.+)\n)?(?:Fatal Python error|Windows fatal exception): (.+)$", re.MULTILINE)
"""A crash in the record: the failed assertion, and the signal."""


@dataclass(frozen=True, slots=True)
class CrashRecord:
    """The crashes with one model and version of the library, kept at `path`."""

    path: Path

    @classmethod
    def of(cls, cache: Path, model: str) -> "CrashRecord":
        """The record of what `model` names, in the cache folder."""
        return cls(cache / "tuning" / f"llama-crashes-{hashlib.sha256(model.encode()).hexdigest()[:16]}.txt")

    def check(self) -> None:
        """Raise ResourceError if there were too many crashes lately."""
        crashes = self._recent()
        if len(crashes) >= _MOST:
            raise ResourceError(
                f"llama.cpp crashed {len(crashes)} times with this model: {crashes[-1]}",
                f"Use another model or engine. To try again, delete {self.path}.",
            )

    def watch(self) -> Callable[[], object] | None:
        """What has crashes of this process recorded here from its call on, until another's is called; keep it alive."""
        try:
            private_folder(self.path.parent)
            record = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError:  # crashes stay unrecorded
            return None

        def failed(message: bytes) -> None:
            reason = " ".join(message.decode(errors="replace").split())[:300]
            logger.critical("llama.cpp failed, and this process ends: %s", reason)
            with suppress(OSError):
                os.write(record, f"llama.cpp: {reason}\n".encode())
                os.write(2, f"llama.cpp failed, and this program ends: {reason}\n".encode())

        callback = _CALLBACK(failed)

        def take_over() -> None:
            faulthandler.enable(record, all_threads=False)
            with suppress(AttributeError):  # a build without it: the signal alone is recorded
                libggml.ggml_set_abort_callback(callback)

        return take_over

    def _recent(self) -> list[str]:
        with suppress(OSError):
            if time.time() - self.path.stat().st_mtime <= _REMEMBERED_S:
                text = self.path.read_text("utf-8", errors="replace")
                return [found[1] or found[2] for found in _CRASH.finditer(text)]
            self.path.unlink()
        return []
