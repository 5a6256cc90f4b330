"""Detects the CPU features that compiled code may use, and passes them to LLVM.

LLVM detects x86 features itself. On ARM it guesses from the CPU's name, or detects nothing; therefore this module reads
Linux's auxiliary vector, macOS's sysctl, or Windows's feature numbers. Each kind of byte products is compiled with its
own features only: code for AVX2 is the same on a CPU with AVX-512 as on one without.
"""

import ctypes
import platform
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numba
from llvmlite import binding

from fastcoder_lsp.config.environment import forced_kind

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

_WIDE = ("avx512", "avx10", "amx")
LACKING: Mapping[str, tuple[str, ...]] = {
    "vnni-512": ("amx",),
    "vnni-256": _WIDE,
    "avx2": (*_WIDE, "avxvnni"),
    "plain": (*_WIDE, "avxvnni", "avx2", "dotprod", "i8mm"),
    "neon-dot": ("i8mm",),
}
"""Kind of byte products → prefixes of the names of features that its CPUs lack; a kind without an entry lacks none."""


def is_arm(machine: str = "") -> bool:
    """Whether a CPU, by default this process's, is an ARM CPU of 64 bits."""
    return (machine or platform.machine()).lower() in ("aarch64", "arm64")


@cache
def arm_features() -> frozenset[str]:
    """Which of `lse` (single-instruction atomics), `dotprod` and `i8mm` this ARM CPU is known to have."""
    if not is_arm():
        return frozenset()
    if sys.platform == "darwin":
        return features_on_macos(sysctl)
    if sys.platform == "win32":
        return features_on_windows(_processor_feature)
    return features_on_linux(_auxiliary)


def features_on_linux(auxiliary: Callable[[int], int]) -> frozenset[str]:
    """Features from the auxiliary vector; `auxiliary` returns the value of a key."""
    return frozenset(name for name, (key, bit) in ON_LINUX.items() if auxiliary(key) >> bit & 1)


def features_on_macos(ask: Callable[[bytes], int]) -> frozenset[str]:
    """Features from sysctl; `ask` returns the number of a name, 0 for an unknown one."""
    return frozenset(name for name, asked in ON_MACOS.items() if ask(asked))


def features_on_windows(present: Callable[[int], bool]) -> frozenset[str]:
    """Features from IsProcessorFeaturePresent."""
    return frozenset(name for name, number in ON_WINDOWS.items() if present(number))


def features() -> dict[str, bool]:
    """LLVM's name of each feature → whether compiled code may use it."""
    host = features_of_cpu()
    return limited(host, forced_kind() or ("amx" if host.get("avx512vnni") else "vnni-256"))


def features_of_cpu() -> dict[str, bool]:
    """LLVM's name of each feature → whether this CPU has it."""
    return dict(binding.get_host_cpu_features()) | dict.fromkeys(arm_features(), True)


def limited(host: Mapping[str, bool], kind: str) -> dict[str, bool]:
    """The features of a CPU without those that CPUs of this kind of byte products lack.

    A CPU that encodes 256-bit byte products only in AVX-512, not in AVX, keeps AVX-512 for `vnni-256`.
    """
    lacking = LACKING.get(kind, ())
    if kind == "vnni-256" and host.get("avx512vnni") and not host.get("avxvnni"):
        return limited(host, "vnni-512") | {"prefer-256-bit": True}
    return {name: there and not name.startswith(lacking) for name, there in host.items()}


def tell_llvm() -> None:
    """Set numba's CPU features before its first function is created; a user's setting stays."""
    settings: Any = numba.config
    known, wanted = dict(binding.get_host_cpu_features()), features()
    if settings.CPU_FEATURES is None and wanted != known:
        settings.CPU_FEATURES = ",".join(f"{'+' if there else '-'}{name}" for name, there in sorted(wanted.items()))


def sysctl(name: bytes) -> int:
    """The number of a macOS sysctl; 0 for an unknown name."""
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    failed = ctypes.CDLL(None).sysctlbyname(name, ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return 0 if failed else value.value


def _auxiliary(key: int) -> int:
    ask = ctypes.CDLL(None).getauxval
    ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return int(ask(key))


def _processor_feature(number: int) -> bool:
    windll = getattr(ctypes, "windll")  # noqa: B009 exists only on Windows
    return bool(windll.kernel32.IsProcessorFeaturePresent(number))
