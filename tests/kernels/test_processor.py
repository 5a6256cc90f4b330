"""What an ARM CPU has, as three systems say it, and how LLVM is told."""

import subprocess
import sys

import pytest
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
    told_features,
)


@pytest.mark.parametrize(
    ("machine", "expected"), [("aarch64", True), ("arm64", True), ("ARM64", True), ("x86_64", False), ("armv7l", False)]
)
def test_what_is_an_arm_cpu(machine: str, expected: bool) -> None:
    """Linux, macOS and Windows name it each in their way; 32 bits are another instruction set."""
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
    """Snapdragon X has all of them."""
    assert features_on_windows(lambda number: number in (34, 43, 66)) == {"lse", "dotprod", "i8mm"}
    assert features_on_windows(lambda number: number == 43) == {"dotprod"}


def test_llvm_is_told_what_it_does_not_know() -> None:
    assert told_features("-sve,+dotprod", frozenset({"dotprod", "i8mm"})) == "-sve,+dotprod,+i8mm"
    assert told_features("", frozenset({"lse"})) == "+lse"
    assert told_features("+aes", frozenset()) == "+aes"


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
    """What this CPU says goes to the kinds of products."""
    from fastcoder_lsp.engine.int8.dot import kinds_here

    names = [kind.name for kind in kinds_here()]
    assert ("neon-dot" in names) is ("dotprod" in arm_features())
    assert ("neon-i8mm" in names) is ({"dotprod", "i8mm"} <= arm_features())


def test_other_cpus_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is nothing to tell, and where a user said it, numba's setting is not touched."""
    monkeypatch.setattr(config, "CPU_FEATURES", None)
    monkeypatch.setattr(processor, "arm_features", frozenset[str])

    def told() -> object:
        return vars(config)["CPU_FEATURES"]

    processor.tell_llvm()
    assert told() is None
    monkeypatch.setattr(processor, "arm_features", lambda: frozenset({"dotprod"}))
    monkeypatch.setattr(config, "CPU_FEATURES", "+own")
    processor.tell_llvm()
    assert told() == "+own"
