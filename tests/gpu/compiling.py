"""Compiling a recorded launch for a GPU that is not there, and reading off what the code needs of it.

Needs Triton, which brings NVIDIA's assembler and its reader; no GPU, no driver.
"""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.fused import triton_kernels
from tests.gpu.launches import Launch

SHARED_KIB = {80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
"""Compute capability → KiB of shared memory that one program may take."""
_READER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


@dataclass(frozen=True, slots=True)
class Needs:
    """`registers` of a thread; bytes of its `stack`, where values lie that found no register; `shared` bytes."""

    registers: int
    stack: int
    shared: int


def compiled(launch: Launch, capability: int) -> Needs:
    """What a launch's code needs on a GPU of this capability; raises where it cannot be compiled."""
    done = code_of(launch, capability)
    return _read(done.asm["cubin"], done.metadata.shared)


def code_of(launch: Launch, capability: int, module: ModuleType = triton_kernels) -> Any:
    """What Triton makes of a launch for such a GPU."""
    kernel: Any = getattr(module, launch.name)
    place = {name: (number,) for number, name in enumerate(kernel.arg_names)}
    types = dict(launch.types)
    source = ASTSource(
        kernel,
        {name: types.get(name, "constexpr") for name in kernel.arg_names},
        {place[name]: value for name, value in launch.constants},
        {place[name]: [["tt.divisibility", 16]] for name in launch.aligned},
    )
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=dict(launch.options))


def _read(code: bytes, shared: int) -> Needs:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        told = subprocess.run([_READER, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = _USAGE.search(told)
    assert found is not None, told
    registers, stack, _static, local = map(int, found.groups())
    return Needs(registers, stack + local, shared)
