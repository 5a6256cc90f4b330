"""The report of a run: a folder that grows with every part, and the short table.

Owns their form; measures nothing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.machine import say
from benchmarks.gpu.steps import StepTimes

TOP = 14
"""Rows of the simulated table that are printed for a model; the file has all."""
DATASHEET = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.04e12, "RTX 5090": 1.79e12, "RTX 4090": 1.01e12, "L4": 0.3e12}
"""Bytes a second by the vendor's word, by a part of the GPU's name."""


class Report:
    """What was found so far, written whenever something is added: a run that is cut short loses nothing.

    `report.json` has the numbers, `report.txt` the short table; beside them every part leaves its own files.
    """

    def __init__(self, folder: Path, *, smoke: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.found: dict[str, Any] = {"smoke": smoke, "machine": {"device": "not known yet", "date": ""}, "skipped": []}
        self._folder, self._parts = folder, 0

    def files(self, what: str) -> Path:
        """Where a part's files go, without their ending; numbered in the order of the run."""
        self._parts += 1
        return self._folder / f"{self._parts:02d}-{re.sub(r'[^A-Za-z0-9]+', '-', what).lower()}"

    def take(self, result: Mapping[str, Any], machine: Mapping[str, Any], model: str) -> None:
        """A part's result: its numbers, for one model where it has them for one, and what it left out."""
        self.found["machine"] = machine
        self.found["skipped"] += result["skipped"]
        for part, value in result["found"].items():
            self.add(part, value, model)
        self._write()

    def add(self, part: str, value: Any, model: str = "") -> None:
        """Add numbers to the report."""
        if model:
            of_model = self.found.setdefault(part, {})
            old = of_model.get(model)
            of_model[model] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        else:
            self.found[part] = value
        self._write()

    def skip(self, what: str, why: str) -> None:
        """Something was left out: told at once, and in the report."""
        say(f"skipped {what}: {why}")
        self.found["skipped"].append(f"{what}: {why}")
        self._write()

    def _write(self) -> None:
        (self._folder / "report.json").write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
        (self._folder / "report.txt").write_text("\n".join(short(self.found)) + "\n", encoding="utf-8")


def of_measured(times: StepTimes) -> dict[str, Any]:
    """A model's steps as plain values."""
    return {
        "kernels": times.kernels,
        "weight_bytes": times.weights,
        "slot_bytes": times.slot,
        "gap_us": times.gap_us(),
        "prefill_ms": {str(tokens): ms for tokens, ms in times.prefill_ms.items()},
        "best_ms": {str(rows): ms for rows, ms in times.best_ms.items()},
        "steps": {
            f"{rows}×{cached}": {"device_ms": ms, "step_ms": times.step_ms[rows, cached]}
            for (rows, cached), ms in times.device_ms.items()
        },
    }


def measured(value: Mapping[str, Any]) -> StepTimes:
    """The steps again, from their plain values."""
    sizes = {name: tuple(map(int, name.split("×"))) for name in value["steps"]}
    return StepTimes(
        kernels=value["kernels"],
        device_ms={(sizes[name][0], sizes[name][1]): each["device_ms"] for name, each in value["steps"].items()},
        step_ms={(sizes[name][0], sizes[name][1]): each["step_ms"] for name, each in value["steps"].items()},
        prefill_ms={int(tokens): ms for tokens, ms in value["prefill_ms"].items()},
        weights=value["weight_bytes"],
        slot=value["slot_bytes"],
        best_ms={int(rows): ms for rows, ms in value["best_ms"].items()},
    )


def shares(found: Mapping[str, Any], steps: Mapping[str, Any], size: str) -> dict[str, float]:
    """How near a step comes to reading weights and KV cache once: of the copy that was measured, of the datasheet."""
    cached, ms = int(size.split("×")[1]), steps["steps"][size]["device_ms"]
    least = steps["weight_bytes"] + cached * steps["slot_bytes"]
    rates = {"copy": (found.get("ceilings") or {}).get("copy")}
    rates["datasheet"] = next((rate for part, rate in DATASHEET.items() if part in found["machine"]["device"]), None)
    return {name: least / rate / ms * 1e3 for name, rate in rates.items() if rate}


def short(found: Mapping[str, Any]) -> list[str]:
    """The table that comes last."""
    machine = found["machine"]
    lines = ["", f"== {machine['device']}, {machine['date']}" + (" (SMOKE RUN)" if found["smoke"] else "")]
    lines += [f"{question}: {answer}" for question, answer in found.get("works", {}).items()]
    if limits := found.get("ceilings"):
        lines.append(f"copy {limits['copy'] / 1e12:.2f} TB/s, bf16 product {limits['product'] / 1e12:.0f} TFLOP/s")
    for model, steps in found.get("steps", {}).items():
        lines.append(f"{model}, RANDOM WEIGHTS [{steps['kernels']}]: " + "; ".join(_steps(found, steps)))
    for model, ways in found.get("disagreement", {}).items():
        told = ", ".join(f"{max(apart.values()):.2%} ({name})" for name, apart in ways.items())
        lines.append(f"{model}: our kernels' logits differ from torch's by at most {told}")
    for model, peers in found.get("peers", {}).items():
        told = "; ".join(
            f"{name} " + ", ".join(f"{k} {ms:.2f}" for k, ms in times.items()) for name, times in peers.items()
        )
        lines.append(f"{model}: transformers, ms: {told}")
    for model, gaps in found.get("gaps", {}).items():
        lines.append(f"{model}: host gap " + ", ".join(f"{gap['drafter']} {gap['us']:.0f} µs" for gap in gaps))
    for model, ghosts in found.get("ghost_text", {}).items():
        told = ", ".join(f"{each['p50_ms']:.1f} ms ({each['drafter']}, {each['steps']:.1f} steps)" for each in ghosts)
        lines.append(f"{model}: time to ghost text, one line, SIMULATED ACCEPTANCE: {told}")
    for model, ways in found.get("reference", {}).items():
        lines += [_reference(model, name, each) for name, each in ways.items()]
    for model, outcomes in found.get("exactness", {}).items():
        lines += [_exactness(model, outcome) for outcome in outcomes]
    for model, cells in found.get("simulated", {}).items():
        lines.append(f"-- SIMULATED ACCEPTANCE (recorded with the 0.5B model), {model}")
        lines += [_cell(cell) for cell in cells[:TOP]]
    return lines + [f"skipped {what}" for what in found.get("skipped", ())]


def _reference(model: str, name: str, outcome: Mapping[str, Any]) -> str:
    verdict = "right, but for ties" if outcome["sound"] else "WRONG"
    return (
        f"{model}: {name} against eager transformers: {verdict}; {len(outcome['gaps'])} of {outcome['tokens']} tokens "
        f"differ, by at most {max(outcome['gaps'], default=0.0):.4f}"
    )


def _exactness(model: str, outcome: Mapping[str, Any]) -> str:
    widest = max(outcome["gaps"], default=0.0)
    return (
        f"{model}: exactness, {outcome['mode']}: {len(outcome['gaps'])} of {outcome['prompts']} texts differ "
        f"({outcome['per_thousand']:.2f} a thousand tokens), top-2 gap there at most {widest:.4f}"
    )


def _steps(found: Mapping[str, Any], steps: Mapping[str, Any]) -> Sequence[str]:
    """The steps of each width at one length, with their shares."""
    lengths = sorted({int(size.split("×")[1]) for size in steps["steps"]})
    shown = lengths[len(lengths) // 2]
    told = []
    for size, cell in steps["steps"].items():
        if size.endswith(f"×{shown}"):
            of = ", ".join(f"{share:.0%} of the {name}" for name, share in shares(found, steps, size).items())
            told.append(f"{size} {cell['device_ms']:.3f} ms" + (f" ({of})" if of else ""))
    return told


def _cell(cell: Mapping[str, Any]) -> str:
    eager = "" if cell["over_eager"] is None else f", {cell['over_eager']:.1f}× eager transformers"
    return (
        f"   {cell['dataset']} {cell['setting']:8} {cell['approach']:10} {cell['ms_per_token']:.3f} ms/token, "
        f"MAT {cell['mat']:.2f}, {cell['over_plain']:.2f}× plain{eager}"
    )
