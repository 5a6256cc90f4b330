"""The features of CPUs, as three systems name them on ARM, and how LLVM is told of them."""

import os
import subprocess
import sys

import pytest
from llvmlite import binding
from numba import config

from fastcoder_lsp.kernels import processor
from fastcoder_lsp.kernels.processor import (
    HWCAP,
    HWCAP2,
    arm_features,
    features_on_linux,
    features_on_macos,
    features_on_windows,
    is_arm,
    limited,
)


@pytest.mark.parametrize(
    ("machine", "expected"), [("aarch64", True), ("arm64", True), ("ARM64", True), ("x86_64", False), ("armv7l", False)]
)
def test_what_is_an_arm_cpu(machine: str, expected: bool) -> None:
    assert is_arm(machine) is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (0x0000_00FF, 0, set()),  # Cortex-A72 (Raspberry Pi 4)
        (0x0010_FFFF, 0, {"lse", "dotprod"}),  # Cortex-A76 (Raspberry Pi 5), Neoverse N1
        (0x0010_FFFF, 0x2000, {"lse", "dotprod", "i8mm"}),  # Neoverse V1 (Graviton 3)
    ],
)
def test_linux_says_it_in_bits(first: int, second: int, expected: set[str]) -> None:
    assert features_on_linux({HWCAP: first, HWCAP2: second}.__getitem__) == expected


def test_macos_says_it_by_names() -> None:
    """An M1 has byte products, not those of pairs; a name that a system does not know is one it has not."""
    m1 = {b"hw.optional.arm.FEAT_LSE": 1, b"hw.optional.arm.FEAT_DotProd": 1, b"hw.optional.arm.FEAT_I8MM": 0}
    assert features_on_macos(lambda name: m1.get(name, 0)) == {"lse", "dotprod"}
    assert features_on_macos(lambda _name: 1) == {"lse", "dotprod", "i8mm"}
    assert not features_on_macos(lambda _name: 0)


def test_windows_says_it_by_numbers() -> None:
    assert features_on_windows(lambda number: number in (34, 43, 66)) == {"lse", "dotprod", "i8mm"}
    assert features_on_windows(lambda number: number == 43) == {"dotprod"}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("amx", {"avx2", "avx512f", "avx512vnni", "avxvnni", "amx-int8"}),
        ("vnni-512", {"avx2", "avx512f", "avx512vnni", "avxvnni"}),
        ("vnni-256", {"avx2", "avxvnni"}),
        ("avx2", {"avx2"}),
        ("plain", set[str]()),
    ],
)
def test_each_kind_has_only_its_own_features(kind: str, expected: set[str]) -> None:
    host = dict.fromkeys(("avx2", "avx512f", "avx512vnni", "avxvnni", "amx-int8"), True) | {"sse4a": False}
    found = limited(host, kind)
    assert {name for name, there in found.items() if there} == expected
    assert found.keys() == host.keys()  # LLVM is told of each that it is missing: its table of CPUs would add it


def test_256_bits_where_only_avx512_encodes_them() -> None:
    found = limited({"avx2": True, "avx512f": True, "avx512vnni": True, "amx-int8": True}, "vnni-256")
    assert {name for name, there in found.items() if there} == {"avx2", "avx512f", "avx512vnni", "prefer-256-bit"}


FORCED = """
import re
from fastcoder_lsp.kernels import kernel
from fastcoder_lsp.engine.int8.dot import kinds_here
print(*[kind.name for kind in kinds_here()])
def add(x, y):
    for i in range(len(x)):
        x[i] += y[i]
import numpy as np, fastcoder_lsp.kernels.decorators as decorators
compiled = decorators.unkept(add)
compiled(np.zeros(99, np.float32), np.ones(99, np.float32))
print(*sorted(set(re.findall("[xyz]mm", "".join(compiled.inspect_asm().values())))))
"""


@pytest.mark.skipif(is_arm(), reason="about x86 CPUs")
def test_a_process_is_compiled_for_the_kind_that_was_asked_for() -> None:
    """AVX2's code has no register of AVX-512, whatever CPU runs it; a kind that is not there is refused."""
    asked = dict(os.environ, FASTCODER_KIND="avx2")
    command = [sys.executable, "-P", "-c", FORCED]
    done = subprocess.run(command, env=asked, check=True, timeout=300, capture_output=True, text=True)
    kinds, registers = done.stdout.splitlines()
    assert kinds == "avx2 plain"
    assert "ymm" in registers
    assert "zmm" not in registers
    done = subprocess.run(
        command, env=asked | {"FASTCODER_KIND": "neon-dot"}, check=False, timeout=300, capture_output=True, text=True
    )
    assert "this CPU cannot run 'neon-dot'" in done.stderr


def test_the_compiler_knows_before_the_first_function_is_made() -> None:
    """numba's compiler is made once: a process that imports our kernels has one that was told."""
    script = (
        "from fastcoder_lsp.kernels import kernel, processor\n"
        "processor_features = {'+' + name for name in processor.arm_features()}\n"
        "from numba.core.registry import cpu_target\n"
        "told = cpu_target.target_context.codegen().magic_tuple()[2].split(',')\n"
        "assert processor_features <= set(told), told\n"
    )
    subprocess.run([sys.executable, "-P", "-c", script], check=True, timeout=300)


@pytest.mark.skipif(not is_arm(), reason="about ARM CPUs")
def test_what_is_found_here_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastcoder_lsp.engine.int8.dot import kinds_here

    names = [kind.name for kind in kinds_here()]
    assert ("neon-dot" in names) is ("dotprod" in arm_features())
    assert ("neon-i8mm" in names) is ({"dotprod", "i8mm"} <= arm_features())


def test_llvm_is_told_only_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTCODER_KIND", raising=False)
    monkeypatch.setattr(config, "CPU_FEATURES", None)
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {"avx512vnni": True, "sve": False})
    monkeypatch.setattr(processor, "arm_features", frozenset[str])

    def told() -> object:
        processor.tell_llvm()
        return vars(config)["CPU_FEATURES"]

    assert told() is None
    monkeypatch.setattr(processor, "arm_features", lambda: frozenset({"dotprod"}))
    assert told() == "+avx512vnni,+dotprod,-sve"
    monkeypatch.setattr(config, "CPU_FEATURES", "+own")
    assert told() == "+own"
