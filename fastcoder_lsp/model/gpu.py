"""What the NVIDIA driver says of its GPU, asked by its own program: a driver that hangs costs seconds, nothing else.

Owns that question. The program is never waited for beyond its time, not even after it was killed: one that hangs in
the kernel cannot be.
"""

import os
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass

from fastcoder_lsp.config.programs import find_program

TIMEOUT_S = 10.0
"""A driver that nothing keeps loaded takes some seconds to start."""
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class DriverAnswer:
    """`memory_bytes` of the first GPU, 0 for none; `problem`: why the driver's program, if it is here, did not say."""

    memory_bytes: int = 0
    problem: str = ""


def gpu_memory_bytes() -> int:
    """Memory of the first NVIDIA GPU, as its driver says; 0 where there is none."""
    return ask_driver().memory_bytes


def ask_driver(timeout_s: float = TIMEOUT_S) -> DriverAnswer:
    """Ask nvidia-smi."""
    tool = find_program("nvidia-smi")
    if tool is None:
        return DriverAnswer()
    query = [tool, "--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"]
    try:
        said = _output(query, timeout_s)
    except OSError as error:
        return DriverAnswer(problem=f"{tool} cannot be run: {error.strerror}")
    if said is None:
        return DriverAnswer(problem=f"{tool} did not answer in {timeout_s:.0f} s")
    try:
        return DriverAnswer(int(said.split()[0]) << 20)
    except (ValueError, IndexError, OverflowError):
        line = said.decode(errors="replace").strip().partition("\n")[0][:100]
        return DriverAnswer(problem=f"{tool} reported no memory size: {line or 'no output'}")


def _output(command: list[str], timeout_s: float) -> bytes | None:
    """The beginning of what a program prints; None where it does not end in time."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=os.name == "posix",
    )
    said: list[bytes] = []

    def read() -> None:
        assert process.stdout is not None
        with suppress(OSError, ValueError):
            said.append(process.stdout.read(_MOST_BYTES))

    reader = threading.Thread(target=read, name="nvidia-smi", daemon=True)
    reader.start()
    reader.join(timeout_s)
    ended = not reader.is_alive()
    with suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)  # and whatever it started
        else:
            process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)
    if ended and process.stdout is not None:
        process.stdout.close()
    return said[0] if ended and said else None
