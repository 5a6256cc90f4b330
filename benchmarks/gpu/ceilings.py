"""Part 1: what the device can do at most: bytes through its memory, and bf16 products."""

from dataclasses import dataclass

import torch

from benchmarks.gpu.machine import Bench


@dataclass(frozen=True, slots=True)
class Ceilings:
    """`copy`: bytes read and written a second; `product`: floating-point operations a second."""

    copy: float
    product: float

    def read_ms(self, size: int) -> float:
        """Milliseconds in which so many bytes can be read, if reading goes as fast as copying."""
        return size / self.copy * 1e3


def measure(bench: Bench) -> Ceilings:
    """A large copy, counting bytes read and written, and a large product of random matrices."""
    most = bench.device.memory().free // 8  # two of them, of two bytes a number, in half of what is free
    numbers, side = (1 << 20, 256) if bench.smoke else (min(1 << 31, most), 8192)
    copied = _copy(bench, numbers)
    bench.tidy()
    product = _product(bench, side)
    bench.tidy()
    return Ceilings(copied, product)


def _copy(bench: Bench, numbers: int) -> float:
    source = torch.empty(numbers, dtype=torch.bfloat16, device=bench.device.place).normal_()
    target = torch.empty_like(source)
    return 2 * source.nbytes / bench.ms(lambda: target.copy_(source), repeats=5) * 1e3


def _product(bench: Bench, side: int) -> float:
    left, right = (torch.randn(side, side, device=bench.device.place).to(torch.bfloat16) for _ in range(2))
    return 2.0 * side**3 / bench.ms(lambda: left @ right, repeats=5) * 1e3
