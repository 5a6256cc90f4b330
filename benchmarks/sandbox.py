"""Running a program that a model wrote: in a process of its own, with little time, little memory, no files, no network.

Owns the limits. What the system enforces: CPU and wall time, memory, no file may grow, no process may be begun, and on
Linux, where it allows that, a network of its own without any device. Beside these, Python is told to refuse sockets,
processes and writing. It is no prison for an adversary; what runs is the work of a code model.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """`seconds` of CPU, and twice as many by the clock and a little; `memory` in bytes."""

    seconds: int = 4
    memory: int = 512 * MIB


_GUARD = """
import sys
def _refuse(event, arguments):
    kind = event.partition(".")[0]
    if kind in ("socket", "subprocess", "shutil", "ctypes", "winreg", "ftplib", "urllib", "http", "smtplib"):
        raise PermissionError(event)
    if event in ("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.kill", "os.remove",
                 "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate",
                 "os.putenv", "pty.spawn", "signal.pthread_kill"):
        raise PermissionError(event)
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & 0x3):
            raise PermissionError(event)
source = sys.stdin.read()
limit = {limit}
if limit:
    import resource
    cpu, memory = limit
    for kind, value in (("CPU", cpu), ("AS", memory), ("FSIZE", 0), ("CORE", 0), ("NOFILE", 32), ("NPROC", 0)):
        try:
            resource.setrlimit(getattr(resource, "RLIMIT_" + kind), (value, value))
        except (ValueError, OSError, AttributeError):
            pass
code = compile(source, "answer", "exec")
sys.addaudithook(_refuse)
exec(code, {{"__name__": "answer"}})
sys.exit({reached})
"""
_REACHED = 77
"""The exit code of a program that ran to its end; one that leaves early by itself has another."""


def passes(program: str, limits: SandboxLimits | None = None) -> bool:
    """Whether `program` runs to its end without an exception, within the limits."""
    limits = limits or SandboxLimits()
    posix = os.name == "posix"
    guard = _GUARD.format(limit=(limits.seconds, limits.memory) if posix else None, reached=_REACHED)
    command = [*_without_network(), sys.executable, "-I", "-S", "-B", "-c", guard]
    with tempfile.TemporaryDirectory(prefix="answer-") as folder:
        try:
            done = subprocess.run(
                command,
                input=program.encode("utf-8", errors="replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={"PATH": os.defpath, "PYTHONHASHSEED": "0"},
                timeout=2 * limits.seconds + 2,
                start_new_session=posix,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == _REACHED


@cache
def _without_network() -> tuple[str, ...]:
    """The command that gives a process a network of its own, where this system has it and lets us."""
    tool = shutil.which("unshare")
    if tool is None:
        return ()
    command = (tool, "--net", "--map-root-user", "--")
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return command if tried.returncode == 0 else ()
