"""Which kernels the graph engine launches, and with what: recorded from the launching code itself, on empty tensors.

Owns the recording. What it says of a launch is what Triton would specialise on, so that the kernels can be compiled for
GPUs that are not there exactly as they would be on them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from triton.runtime.jit import JITFunction

_TYPES = {torch.bfloat16: "bf16", torch.float32: "fp32", torch.int8: "i8", torch.int32: "i32", torch.int64: "i64"}
_OPTIONS = ("num_warps", "num_stages")
ALIGNED = 16
"""Bytes, and a factor of integers, that Triton makes use of."""


@dataclass(frozen=True, slots=True)
class Launch:
    name: str
    types: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...]
    aligned: tuple[str, ...]
    options: tuple[tuple[str, Any], ...]


@contextmanager
def recorded() -> Iterator[set[Launch]]:
    """Everything that is launched meanwhile, which does nothing."""
    found = set[Launch]()
    run: Any = JITFunction.run

    def note(kernel: Any, *given: Any, grid: Any, warmup: bool, **named: Any) -> None:
        assert all(count >= 1 for count in grid), (kernel.__name__, grid)
        found.add(_launch(kernel, given, named))

    JITFunction.run = note
    try:
        yield found
    finally:
        JITFunction.run = run


def _launch(kernel: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Launch:
    options = tuple((name, named.pop(name)) for name in _OPTIONS if name in named)
    bound = dict(zip(kernel.arg_names, given, strict=False)) | named
    assert set(bound) == set(kernel.arg_names), kernel.__name__
    types, constants, aligned = [], [], []
    for parameter in kernel.params:
        name, value = parameter.name, bound[parameter.name]
        if parameter.is_constexpr or (isinstance(value, int) and value == 1 and not parameter.do_not_specialize):
            constants.append((name, value))
        elif isinstance(value, torch.Tensor):
            types.append((name, "*" + _TYPES[value.dtype]))
            offset = value.storage_offset() * value.itemsize
            if offset % ALIGNED == 0 and not parameter.do_not_specialize_on_alignment:
                aligned.append(name)
        elif isinstance(value, float):
            types.append((name, "fp32"))
        else:
            types.append((name, "i32" if value < 1 << 31 else "i64"))
            if value % ALIGNED == 0 and not parameter.do_not_specialize:
                aligned.append(name)
    return Launch(kernel.__name__, tuple(types), tuple(constants), tuple(aligned), options)
