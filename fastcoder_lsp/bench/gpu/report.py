"""The report of a run: a file that grows with every part, and the short table at the end.

Owns their form; measures nothing.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastcoder_lsp.bench.gpu.ceilings import Ceilings
from fastcoder_lsp.bench.gpu.steps import StepTimes

TOP = 14
"""Rows of the simulated table that are printed for a model; the file has all."""


class Report:
    """What was found so far, written whenever something is added: a run that is cut short loses nothing."""

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        self.found: dict[str, Any] = dict(head)
        self._path = path

    def add(self, part: str, value: Any, model: str = "") -> None:
        """Add a part's numbers, for one model where it has them for several."""
        if model:
            self.found.setdefault(part, {})[model] = value
        else:
            self.found[part] = value
        self._path.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")


def of_times(times: StepTimes, limits: Ceilings | None) -> dict[str, Any]:
    """A model's steps with their share of the memory's limit: bytes of weights and cache over measured bandwidth."""
    cells = {}
    for (rows, cached), ms in times.device_ms.items():
        least = limits.read_ms(times.weights + cached * times.slot) if limits is not None else 0.0
        cells[f"{rows}×{cached}"] = {
            "device_ms": ms,
            "step_ms": times.step_ms[rows, cached],
            "limit_ms": least,
            "share_of_limit": least / ms,
        }
    return {
        "kernels": times.kernels,
        "weight_bytes": times.weights,
        "slot_bytes": times.slot,
        "gap_us": times.gap_us(),
        "prefill_ms": {str(tokens): ms for tokens, ms in times.prefill_ms.items()},
        "steps": cells,
    }


def print_short(found: Mapping[str, Any]) -> None:
    """The table that comes last."""
    lines = [
        "",
        f"== {found['machine']['device']}, {found['machine']['date']}" + (" (SMOKE RUN)" if found["smoke"] else ""),
    ]
    if limits := found.get("ceilings"):
        lines.append(f"copy {limits['copy'] / 1e12:.2f} TB/s, bf16 product {limits['product'] / 1e12:.0f} TFLOP/s")
    for model, of_model in found.get("steps", {}).items():
        lines.append(f"{model} [{of_model['kernels']}]: " + "; ".join(_steps(of_model["steps"])))
    for model, gaps in found.get("gaps", {}).items():
        lines.append(f"{model}: host gap " + ", ".join(f"{gap['drafter']} {gap['us']:.0f} µs" for gap in gaps or ()))
    for model, ghosts in found.get("ghost_text", {}).items():
        told = ", ".join(f"{each['p50_ms']:.1f} ms ({each['drafter']}, {each['steps']:.1f} steps)" for each in ghosts)
        lines.append(f"{model}: time to ghost text, one line, SIMULATED ACCEPTANCE: {told}")
    for outcome in found.get("exactness") or ():
        widest = max(outcome["gaps"], default=0.0)
        lines.append(
            f"exactness, {outcome['mode']}: {len(outcome['gaps'])} of {outcome['prompts']} texts differ "
            f"({outcome['per_thousand']:.2f} a thousand tokens), top-2 gap there at most {widest:.4f}"
        )
    for model, cells in found.get("simulated", {}).items():
        lines.append(f"-- SIMULATED ACCEPTANCE (recorded with the 0.5B model), {model}")
        lines += [_cell(cell) for cell in cells[:TOP]]
    lines += [f"skipped {what}" for what in found.get("skipped", ())]
    print("\n".join(lines), flush=True)  # noqa: T201 a script's own words


def _steps(cells: Mapping[str, Mapping[str, float]]) -> Sequence[str]:
    """One length's widths, with the share of the limit."""
    lengths = sorted({int(size.split("×")[1]) for size in cells})
    shown = lengths[min(len(lengths) // 2, len(lengths) - 1)]
    return [
        f"{size} {cell['device_ms']:.3f} ms ({cell['share_of_limit']:.0%})"
        for size, cell in cells.items()
        if size.endswith(f"×{shown}")
    ]


def _cell(cell: Mapping[str, Any]) -> str:
    eager = "" if cell["over_eager"] is None else f", {cell['over_eager']:.1f}× eager transformers"
    return (
        f"   {cell['dataset']} {cell['setting']:8} {cell['approach']:10} {cell['ms_per_token']:.3f} ms/token, "
        f"MAT {cell['mat']:.2f}, {cell['over_plain']:.2f}× plain{eager}"
    )
