"""The conversion of a GGUF to an ordinary transformers folder by transformers: the parent's side.

For files that cannot be read directly (`gguf_folder`). Owns the diagnosis of failures. The work
runs in a process of its own (`convert_worker`), so that its memory is returned and a damaged file can hurt nothing
else. torch is never imported here.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from fastcoder_lsp import errors
from fastcoder_lsp.core import Progress
from fastcoder_lsp.errors import FastcoderError, InstallationError, ModelInvalidError, ResourceError
from fastcoder_lsp.model.store import disk_full

DISK_SIGNALS = (signal.SIGBUS, signal.SIGXFSZ) if hasattr(signal, "SIGBUS") else ()
_SAYS_DISK_FULL = ("No space left", "File too large", "Disk quota exceeded")
_SAYS_NO_MEMORY = (
    "MemoryError",
    "not enough memory",
    "allocate memory",
    "bad_alloc",
    "failed to map segment",  # a library that finds no room
    "OutOfMemory",
)


def convert(gguf: Path, folder: Path, root: Path, progress: Progress) -> None:
    """Write configuration, tokenizer and fp32 weights of `gguf` into the existing `folder`, in another process.

    Raises:
        ModelInvalidError: the file is damaged or of an architecture that transformers cannot read.
        ResourceError: memory or disk does not suffice.
    """
    # -P: nothing is imported from the current folder, which may be somebody's repository.
    command = [sys.executable, "-P", "-m", "fastcoder_lsp.model.convert_worker", str(gguf), str(folder)]
    settings = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    with (
        tempfile.TemporaryFile(dir=folder.parent) as complaints,
        # The worker ends when its stdin does: it never outlives us.
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, env=os.environ | settings
        ) as worker,
    ):
        assert worker.stdout is not None
        try:
            for line in worker.stdout:
                if line.startswith(b"{"):  # a library may print too
                    _take(json.loads(line), progress)
            worker.wait()
        finally:
            worker.kill()
        if worker.returncode != 0:
            complaints.seek(0)
            raise _death(worker.returncode, gguf, root, complaints.read().decode(errors="replace"))


def _take(event: dict[str, object], progress: Progress) -> None:
    """Take one line of the worker: progress, or an error."""
    if "error" in event:
        kind: type[FastcoderError] = getattr(errors, str(event["error"]))
        raise kind(str(event["message"]), str(event["hint"]))
    progress(float(str(event["share"])), str(event["what"]))


def _death(code: int, gguf: Path, root: Path, complaints: str) -> FastcoderError:
    """The error for a worker that ended with `code`, from its last output."""
    if -code in DISK_SIGNALS or any(said in complaints for said in _SAYS_DISK_FULL):
        return disk_full(root, f"converting {gguf.name}")
    if code == -signal.SIGTERM:
        return ResourceError(f"the conversion of {gguf.name} was stopped", "Run it again.")
    if (hasattr(signal, "SIGKILL") and code == -signal.SIGKILL) or any(said in complaints for said in _SAYS_NO_MEMORY):
        return ResourceError(
            f"the system stopped the conversion of {gguf.name}, probably because memory ran out",
            "Close other programs, or use a smaller model.",
        )
    last = complaints.strip().rpartition("\n")[2][:300] or f"exit code {code}"
    if any(said in last for said in ("ModuleNotFoundError", "ImportError")):
        return InstallationError(f"{gguf.name} cannot be converted: {last}")
    if code < 0:
        return ResourceError(
            f"the conversion of {gguf.name} crashed (signal {-code})",
            "Run it again. If it crashes again, download the model again.",
        )
    return ModelInvalidError(
        f"{gguf} cannot be converted: {last}",
        "The file is damaged or of an unsupported kind. Download it again, or use another one.",
    )
