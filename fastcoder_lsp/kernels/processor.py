"""What an ARM CPU can do beyond every ARM CPU's instructions, and how LLVM is told of it.

Owns asking the system: Linux by the process's auxiliary vector, macOS by sysctl, Windows by what it calls features.
LLVM knows by itself what an x86 CPU has; of an ARM CPU it knows, depending on the system, nothing or what a list of
names says, so that code for it would use what every such CPU has, and refuse to use more.
"""

import ctypes
import platform
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from llvmlite import binding

HWCAP, HWCAP2 = 16, 26
"""Keys of the auxiliary vector (Linux, include/uapi/linux/auxvec.h)."""
ON_LINUX = {"lse": (HWCAP, 8), "dotprod": (HWCAP, 20), "i8mm": (HWCAP2, 13)}
"""LLVM's name → key and bit: HWCAP_ATOMICS, HWCAP_ASIMDDP, HWCAP2_I8MM (arch/arm64/include/uapi/asm/hwcap.h)."""
ON_MACOS = {
    "lse": b"hw.optional.arm.FEAT_LSE",
    "dotprod": b"hw.optional.arm.FEAT_DotProd",
    "i8mm": b"hw.optional.arm.FEAT_I8MM",
}
"""LLVM's name → sysctl's (Apple: Determining Instruction Set Characteristics)."""
ON_WINDOWS = {"lse": 34, "dotprod": 43, "i8mm": 66}
"""LLVM's name → number: PF_ARM_V81_ATOMIC_INSTRUCTIONS_AVAILABLE, PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE,
PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE (winnt.h)."""


def is_arm(machine: str = "") -> bool:
    """Whether a CPU, by default this process's, is an ARM CPU of 64 bits."""
    return (machine or platform.machine()).lower() in ("aarch64", "arm64")


@cache
def arm_features() -> frozenset[str]:
    """Of `lse` (atomics in one instruction), `dotprod` and `i8mm`, what this ARM CPU has; nothing where none says."""
    if not is_arm():
        return frozenset()
    if sys.platform == "darwin":
        return features_on_macos(sysctl)
    if sys.platform == "win32":
        return features_on_windows(_processor_feature)
    return features_on_linux(_auxiliary)


def features_on_linux(auxiliary: Callable[[int], int]) -> frozenset[str]:
    """Features by the auxiliary vector: `auxiliary` gives the value of a key."""
    return frozenset(name for name, (key, bit) in ON_LINUX.items() if auxiliary(key) >> bit & 1)


def features_on_macos(ask: Callable[[bytes], int]) -> frozenset[str]:
    """Features by sysctl: `ask` gives the number of a name, 0 where there is no such name."""
    return frozenset(name for name, asked in ON_MACOS.items() if ask(asked))


def features_on_windows(present: Callable[[int], bool]) -> frozenset[str]:
    """Features by IsProcessorFeaturePresent."""
    return frozenset(name for name, number in ON_WINDOWS.items() if present(number))


def told_features(known: str, found: frozenset[str]) -> str:
    """LLVM's list of features `known` with those that were `found`."""
    more = [f"+{name}" for name in sorted(found) if f"+{name}" not in known.split(",")]
    return ",".join([*filter(None, [known]), *more])


def tell_llvm() -> None:
    """Have numba's compiler use what this ARM CPU has. Before the first function is made; what a user set stays."""
    settings: Any = numba.config
    if settings.CPU_FEATURES is None and arm_features():
        settings.CPU_FEATURES = told_features(binding.get_host_cpu_features().flatten(), arm_features())


def sysctl(name: bytes) -> int:
    """What macOS calls `name`, a number; 0 where there is no such name."""
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    failed = ctypes.CDLL(None).sysctlbyname(name, ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return 0 if failed else value.value


def _auxiliary(key: int) -> int:
    ask = ctypes.CDLL(None).getauxval
    ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return int(ask(key))


def _processor_feature(number: int) -> bool:
    windll = getattr(ctypes, "windll")  # noqa: B009 there on Windows alone
    return bool(windll.kernel32.IsProcessorFeaturePresent(number))
