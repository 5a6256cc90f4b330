"""What this machine can train on: its device, its memory, whether products in bf16 are faster here.

Asks torch; decides nothing.
"""

import psutil
import torch

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.train.options import Machine


def machine(device: str, parameters: int) -> Machine:
    """The machine behind `device`: "auto", "cpu", "cuda" or "cuda:N".

    Raises:
        UsageError: there is no such device.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda") or (kind == "cuda" and not torch.cuda.is_available()):
        raise UsageError(f"this machine has no device {device} to train on", "Take --device cpu.")
    if kind == "cuda":
        memory = int(torch.cuda.get_device_properties(device).total_memory)
        return Machine(device, memory, torch.cuda.is_bf16_supported(), parameters)
    return Machine(device, psutil.virtual_memory().available, _has_bf16(), parameters)


def _has_bf16() -> bool:
    """Whether this CPU multiplies bf16, by vectors or in tiles: without, bf16 is slower than fp32.

    On a core of a Zen 4 server (vectors) torch's products of a training step take half of fp32's time.
    """
    try:
        return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())  # noqa: SLF001 no public names
    except AttributeError:
        return False
