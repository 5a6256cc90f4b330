"""Which way of computing is quickest on this machine: tried once, remembered by GPU, versions, and model.

Owns the trials and their record. A way that fails, or that does not agree with the plain one, is out; what was never
tried is never taken.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from fastcoder_lsp.engine.static.device import Device
from fastcoder_lsp.engine.static.products import Make, Product, possible

logger = logging.getLogger(__name__)
FORMAT = 3
"""Rises when ways are tried otherwise, or do more: what was chosen before says nothing of them."""
WIDTHS = (1, 16, 64)
"""Rows that ways are compared at."""
TOLERANCE = 0.05
"""Relative difference of results, as norms: ten times what another order of summation makes in bf16."""
REPEATS = 30
ROTATED_BYTES = 256 << 20
"""A product is timed over copies of its weights that are so large together: in a pass, too, no cache holds them."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, and the milliseconds of all that were tried (those that failed are absent)."""

    chosen: str
    ms: Mapping[str, float]


class Tuning:
    """Choices of one machine and model, kept in a file."""

    def __init__(self, folder: Path, device: Device, identity: str) -> None:
        key = f"{FORMAT} {device.name} {torch.__version__} {torch.version.cuda} {identity}"
        self._path = folder / "tuning" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"

    def recall(self, question: str) -> Choice | None:
        """What was chosen before; None where it was never asked, or the record cannot be read."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))[question]
            return Choice(str(found["chosen"]), {str(name): float(ms) for name, ms in found["ms"].items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def remember(self, question: str, choice: Choice) -> None:
        """Keep a choice; a folder that cannot be written costs a trial at the next start, no more."""
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            kept = {}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps({**kept, question: asdict(choice)}, indent=1) + "\n", encoding="utf-8")
            new.replace(self._path)
        except OSError as error:
            logger.warning("tuning cannot be kept: %s", error)


def choose_product(weight_NE: torch.Tensor, precision: str, device: Device) -> Choice:
    """Time a model's own matrix in every way that `precision` has, against the last one, which runs everywhere."""
    ways = possible(precision, overlaps=device.overlaps)
    plain = list(ways)[-1]
    rows = {width: torch.randn(width, weight_NE.shape[1], device=device.place).to(weight_NE.dtype) for width in WIDTHS}
    expected = {width: ways[plain](weight_NE, None)(x) for width, x in rows.items()}
    found: dict[str, float] = {}
    for name, make in ways.items():
        ms = _try(name, make, weight_NE, rows, expected, device)
        if ms is not None:
            found[name] = ms
    return Choice(min(found, key=lambda name: found[name]), found)


def _try(
    name: str,
    make: Make,
    weight_NE: torch.Tensor,
    rows: Mapping[int, torch.Tensor],
    expected: Mapping[int, torch.Tensor],
    device: Device,
) -> float | None:
    """Milliseconds of one way, summed over the widths; None where it fails or says something else."""
    total = 0.0
    try:
        products = [make(weight_NE.clone(), None)]
        copies = ROTATED_BYTES // products[0].bytes if device.captures else 0
        products += [make(weight_NE.clone(), None) for _ in range(copies)]
        for width, x_TE in rows.items():
            if not agree(products[0](x_TE), expected[width]):
                logger.warning("product %s disagrees at %d rows and is not used", name, width)
                return None
            total += time_ms(_repeated(device, products, x_TE), device) / len(products)
    except torch.OutOfMemoryError:
        raise
    except Exception as why:  # noqa: BLE001 Triton's and torchao's exceptions are no errors of torch
        logger.info("product %s cannot be used here: %s", name, why)
        return None
    return total


def _repeated(device: Device, products: Sequence[Product], x_TE: torch.Tensor) -> Callable[[], None]:
    def work() -> None:
        for product in products:
            product(x_TE)

    return device.capture(work)


def agree(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two results are one but for rounding; what is not finite agrees with nothing."""
    difference = (found.float() - expected.float()).norm() / expected.float().norm()
    return bool(difference <= TOLERANCE)


def time_ms(work: Callable[[], None], device: Device) -> float:
    """Milliseconds of one run among many in a row, the median of three rows."""
    taken = []
    for _ in range(3):
        device.mark()
        device.wait()
        started = time.perf_counter()
        for _ in range(REPEATS):
            work()
        device.mark()
        device.wait()
        taken.append((time.perf_counter() - started) * 1e3 / REPEATS)
    return sorted(taken)[1]
