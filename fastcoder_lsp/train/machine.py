"""What this machine can train on: its device, its memory, whether products in bf16 are faster here.

Asks torch; decides nothing.
"""

import psutil
import torch

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.train.options import Machine


def machine(device: str, parameters: int, *, drafter: bool = False) -> Machine:
    """The machine behind `device`: "auto", "cpu", "cuda" or "cuda:N".

    Args:
        device: as the user names it.
        parameters: of the model.
        drafter: weights of a drafter are taught, not the model's.

    Raises:
        UsageError: there is no such device.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda") or (kind == "cuda" and not torch.cuda.is_available()):
        raise UsageError(f"this machine has no device {device}", "Use --device cpu.")
    if kind == "cuda":
        memory = int(torch.cuda.get_device_properties(device).total_memory)
        return Machine(device, memory, torch.cuda.is_bf16_supported(), parameters)
    return Machine(
        device, psutil.virtual_memory().available, _has_amx() or (drafter and _has_bf16_vectors()), parameters
    )


def _has_amx() -> bool:
    """Whether this CPU multiplies bf16 in tiles: without, bf16 is slower than fp32 for a whole model."""
    return _supported("_is_amx_tile_supported")


def _has_bf16_vectors() -> bool:
    """Whether it does so by vectors: on a core of a Zen 4 server a drafter's products take half of fp32's time."""
    return _supported("_is_avx512_bf16_supported")


def _supported(name: str) -> bool:
    """What torch says of this CPU, by no public name."""
    ask = getattr(torch.cpu, name, None)
    return ask is not None and bool(ask())
