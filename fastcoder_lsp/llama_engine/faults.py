"""The record of crashes in llama.cpp's code, each of which ends the process: a second one is the last.

The library calls us before it aborts for a failed assertion, and the C++ runtime for an error that nothing catches.
The supervisor starts the process anew, and a model that has crashed twice within a week is refused, so that it cannot
end one process after the other.
"""

import ctypes
import hashlib
import json
import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from llama_cpp._ggml import libggml

from fastcoder_lsp.core.files import private_folder, read_json, replace_file
from fastcoder_lsp.errors import ResourceError

logger = logging.getLogger(__name__)
_MOST, _REMEMBERED_S = 2, 7 * 24 * 3600.0
_CALLBACK, _HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p), ctypes.CFUNCTYPE(None)
_SET_TERMINATE = "_ZSt13set_terminatePFvvE"
"""std::set_terminate, in either of the C++ runtimes."""
_RUNTIMES = ("libstdc++.so.6", "libc++.1.dylib")
_RESERVE = 4 << 20
"""Bytes that are kept free for the record."""
_UNCAUGHT = b"an error that its code does not catch, most likely because memory ran out"


@dataclass(frozen=True, slots=True)
class CrashRecord:
    """The crashes with one model and version of the library, kept at `path`."""

    path: Path

    @classmethod
    def of(cls, cache: Path, model: str) -> "CrashRecord":
        """The record of what `model` names, in the cache folder."""
        return cls(cache / "tuning" / f"llama-crashes-{hashlib.sha256(model.encode()).hexdigest()[:16]}.json")

    def check(self) -> None:
        """Raise ResourceError if there were too many crashes lately."""
        recent = self._recent()
        if len(recent) >= _MOST:
            raise ResourceError(
                f"llama.cpp crashed {len(recent)} times with this model: {recent[-1][1]}",
                f"Use another model or engine. To try again, delete {self.path}.",
            )

    def watch(self) -> object:
        """Record crashes of this process from now on, until another record does; the result must be kept alive."""
        callback = _CALLBACK(self._add)
        with suppress(AttributeError):  # a build without it: crashes stay unrecorded
            libggml.ggml_set_abort_callback(callback)
        handler = _HANDLER(partial(self._end, [bytes(_RESERVE)]))
        for runtime in _RUNTIMES:
            with suppress(OSError, AttributeError):
                getattr(ctypes.CDLL(runtime), _SET_TERMINATE)(handler)
        return callback, handler

    def _end(self, reserve: list[bytes]) -> None:
        reserve.clear()  # memory for what follows
        try:
            self._add(_UNCAUGHT)
        finally:
            os.abort()

    def _recent(self) -> list[tuple[float, str]]:
        found = read_json(self.path).get("crashes")
        entries = [
            (float(entry["time"]), str(entry["reason"]))
            for entry in (found if isinstance(found, list) else ())
            if isinstance(entry, dict) and isinstance(entry.get("time"), int | float) and "reason" in entry
        ]
        return [entry for entry in entries if 0 <= time.time() - entry[0] < _REMEMBERED_S]

    def _add(self, message: bytes) -> None:
        reason = message.decode(errors="replace").strip()[:300]
        logger.critical("llama.cpp failed, and this process ends: %s", reason)
        crashes = [{"time": when, "reason": why} for when, why in (*self._recent(), (time.time(), reason))]
        with suppress(OSError):
            private_folder(self.path.parent)
            replace_file(self.path, json.dumps({"crashes": crashes}).encode())
