"""The parts of this machine that models need: memory, the GPU's memory, power, and optional packages.

Both sizes of memory are the least of the machine's, its container's and this process's own limit: inside a container
the system reports the machine's memory, which the container may not use.

The GPU's memory comes from the NVIDIA driver's own program. The wait for it is bounded, even after it was killed: a
program that hangs in the kernel cannot be killed.
"""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import psutil

from fastcoder_lsp.config.environment import find_program, missing_packages
from fastcoder_lsp.errors import InstallationError, ResourceError

_CGROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60


def available_bytes() -> int:
    """Bytes that can be taken now."""
    left = (left for _, left in (*_own_limit(), *_container()))
    return max(0, min((psutil.virtual_memory().available, *left)))


def installed_bytes() -> int:
    """Bytes of the machine's memory that this process may ever have."""
    return min((psutil.virtual_memory().total, *(most for most, _ in (*_own_limit(), *_container()))))


def on_battery() -> bool:
    """Whether the machine runs on its battery; False where it has none, or does not say."""
    with suppress(OSError, RuntimeError, AttributeError):  # AttributeError: psutil has no such function on some systems
        state = psutil.sensors_battery()
        return state is not None and state.power_plugged is False
    return False


def require_memory(needed: int) -> None:
    """Check that a model of `needed` bytes fits. Raises ResourceError if memory does not suffice."""
    available = available_bytes()
    if needed > available:
        raise ResourceError(
            f"the model needs {needed / 1e9:.1f} GB of memory; {available / 1e9:.1f} GB are free",
            "Close other programs, or use a smaller model or context.",
        )


def _own_limit() -> Iterator[tuple[int, int]]:
    """The limit on this process's address space (`ulimit -v`), and what it leaves."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 not there on Windows

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        yield limit, limit - psutil.Process().memory_info().vms


def _container(root: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> Iterator[tuple[int, int]]:
    """The limit of each control group above this process, and what it leaves, in both versions of cgroups."""
    with suppress(OSError):
        for line in own.read_text(encoding="utf-8", errors="replace").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                yield from _left(root, path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                yield from _left(root / "memory", path, *names)


def _left(root: Path, path: str, limit: str, used: str, cached: str) -> Iterator[tuple[int, int]]:
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        if folder.is_relative_to(root) or folder == root:
            with suppress(OSError, ValueError):
                most = int((folder / limit).read_text())
                if most < _UNLIMITED:
                    rows = dict(row.split() for row in (folder / "memory.stat").read_text().splitlines())
                    yield most, most - int((folder / used).read_text()) + int(rows.get(cached, 0))


TIMEOUT_S = 10.0
"""A driver that nothing keeps loaded takes some seconds to start."""
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class DriverAnswer:
    """`memory_bytes` of the first GPU, 0 for none; `problem`: why the driver's program failed, if it is here."""

    memory_bytes: int = 0
    problem: str = ""


def gpu_memory_bytes() -> int:
    """Memory of the first NVIDIA GPU by its driver; 0 where there is none."""
    return ask_driver().memory_bytes


def usable_gpu_bytes() -> int:
    """The same, 0 where torch is not installed, without which no GPU is used."""
    try:
        has_torch = importlib.util.find_spec("torch") is not None
    except ImportError:  # a finder of modules may refuse it
        has_torch = False
    return gpu_memory_bytes() if has_torch else 0


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
    """The beginning of a program's output; None where it does not end in time."""
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


_CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own index of builds a tenth of the size; pip prefers them, for their version is the same with a suffix."""


def require_packages(purpose: str, *names: str) -> None:
    """Check that the packages `names` are installed; imports none of them.

    Raises:
        InstallationError: some are missing.
    """
    if lacking := missing_packages(*names):
        raise InstallationError(
            f"{purpose} needs {' and '.join(lacking)}, which this installation lacks", f"Run: {install_line(*lacking)}"
        )


_DISTRIBUTIONS = {"llama_cpp": "llama-cpp-python"}
"""Packages that are imported by another name than they are installed by."""


def install_line(*names: str) -> str:
    """A command that installs packages: by the smallest extra that has them all, torch in its smallest build."""
    names = tuple(_DISTRIBUTIONS.get(name, name) for name in names)
    small = "torch" in names and sys.platform == "linux" and not gpu_memory_bytes()
    options = [f"--extra-index-url {_CPU_BUILDS}"] if small else []
    extras = sorted(_extras().items(), key=lambda extra: len(extra[1]))
    extra = next((extra for extra, packages in extras if packages.issuperset(names)), None)
    wanted = names if extra is None else (f'"fastcoder-lsp[{extra}]"',)
    return " ".join([f"{sys.executable} -m pip install", *options, *wanted])


def _extras() -> dict[str, set[str]]:
    """The packages of each extra of this program."""
    found: dict[str, set[str]] = defaultdict(set)
    with suppress(PackageNotFoundError):  # a bare checkout
        for requirement in requires("fastcoder-lsp") or ():
            if (match := _OF_EXTRA.match(requirement)) is not None:
                found[match[2]].add(match[1])
    return found


_OF_EXTRA = re.compile(r"""([\w.-]+).*;.*\bextra == ['"]([\w-]+)['"]""")
