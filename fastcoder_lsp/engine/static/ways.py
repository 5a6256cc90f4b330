"""Names of the kernels: torch's, the default, and those of `fused`."""

import re

TORCH, FUSED = "torch", "fused"
_PART = "(norm|attend|activate|best|follow)"
_OLD = re.compile(f"overlapped|(fused|overlapped) without {_PART}(, ?{_PART})*")
"""Names of version 0.1: kernels launched early, and all kernels but some."""


def way(name: str) -> str:
    """The kernels of a name, torch's for "auto"; raises ValueError for an unknown one."""
    if name in ("auto", TORCH):
        return TORCH
    if name == FUSED or _OLD.fullmatch(name):
        return FUSED
    raise ValueError(f"{name!r} is neither {TORCH} nor {FUSED}")
