"""The record of engines that a GPU fault ended: the next start takes another one.

After an illegal access or a lost device every later call of the process fails, so the process exits, as a hanging one
does.
"""

import hashlib
import logging
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from fastcoder_lsp import __version__
from fastcoder_lsp.core.files import read_json
from fastcoder_lsp.engine.trial import write_json

logger = logging.getLogger(__name__)
REMEMBERED_S = 7 * 24 * 3600.0
"""A kind of engine is tried again this long after its fault: the driver may have been fixed meanwhile."""
LOST = 70  # exit code of a process that ends itself after a GPU fault; the same as of one that hangs


@dataclass(frozen=True, slots=True)
class GpuFaults:
    """The record, at `path`, of faults by kind of engine, for one GPU and its driver's versions."""

    path: Path

    def of(self, kind: str) -> str | None:
        """A kind's recent fault; None if there is none."""
        found: dict[str, Any] = read_json(self.path).get(kind) or {}
        try:
            return str(found["reason"]) if 0 <= time.time() - float(found["time"]) < REMEMBERED_S else None
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def record(self, kind: str, reason: str) -> None:
        """Record a fault."""
        write_json(self.path, read_json(self.path) | {kind: {"reason": reason, "time": time.time()}})

    def end(self, kind: str, reason: str) -> NoReturn:
        """Record a fault and exit at once: every later call to this GPU would fail in this process."""
        self.record(kind, reason)
        logger.critical("the GPU failed while %s ran: %s: this process ends", kind, reason)
        for stream in (sys.__stderr__, *(handler for handler in logging.getLogger().handlers)):
            if stream is not None:
                stream.flush()
        os._exit(LOST)


def gpu_faults(cache: Path) -> GpuFaults:
    """The record of the current GPU; torch has CUDA."""
    key = hashlib.sha256(f"{__version__} {cuda_machine()}".encode()).hexdigest()[:16]
    return GpuFaults(cache / "tuning" / f"faults-{key}.json")


def cuda_machine() -> str:
    """Names the GPU, and the versions of its driver and libraries."""
    import torch  # noqa: PLC0415 its import takes seconds

    found = torch.cuda.get_device_name(), torch.cuda.get_device_capability(), torch.__version__, torch.version.cuda
    return " ".join(map(str, found))


def is_lost() -> bool:
    """Whether CUDA's errors persist, so that every call fails."""
    import torch  # noqa: PLC0415 as above

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
