"""The whole run: all parts in the order of their worth, within the time that there is.

Owns the order and the options. A part that fails is told and left out: the others are worth having.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import torch

from fastcoder_lsp.bench.gpu import acceptance, ceilings, exact, ghost, loop, peers, products, real, simulate, steps
from fastcoder_lsp.bench.gpu.acceptance import Dataset
from fastcoder_lsp.bench.gpu.ceilings import Ceilings
from fastcoder_lsp.bench.gpu.machine import Bench, facts, say
from fastcoder_lsp.bench.gpu.report import Report, of_times, print_short
from fastcoder_lsp.bench.gpu.shapes import MODELS, TINY, Named, named
from fastcoder_lsp.bench.gpu.steps import StepTimes
from fastcoder_lsp.engine.static.device import CpuDevice, CudaDevice

SECONDS = 520.0
"""The run's length at most: under nine minutes."""
A_MODEL = 30.0
"""Seconds without which no further model is begun."""
TO_COMPILE = 120.0
"""Seconds without which torch.compile is left out: two shapes take most of a minute each."""
IN_DETAIL = 2
"""Models that get all parts: those that figures are set for."""
Found = TypeVar("Found")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything; 1 where there is nothing to run it on."""
    parser = argparse.ArgumentParser(description="Measure the graph engine on a GPU; a short table comes last.")
    parser.add_argument("--out", type=Path, default=Path("bench_gpu.json"), help="full numbers (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length at most (default: %(default)s)")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU: does every line run?")
    parser.add_argument("--models", default="", help="only models whose names hold one of these, by comma")
    parser.add_argument("--kernels", choices=("auto", "torch", "fused"), default="auto", help="default: the quicker")
    parser.add_argument("--no-peers", action="store_true", help="leave transformers out")
    parser.add_argument("--acceptance", type=Path, default=acceptance.FILE, help="recorded steps; default: the shipped")
    chosen = parser.parse_args(arguments)
    if not chosen.smoke and not torch.cuda.is_available():
        say("this machine has no GPU that torch can use; --smoke runs small on the CPU")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(chosen, Path(folder))
        report = Report(chosen.out, {"smoke": chosen.smoke, "machine": facts(bench.device)})
        say(f"{bench.device.name}, torch {torch.__version__}")
        _Run(bench, chosen, report).all()
    print_short(report.found)
    say(f"full numbers: {chosen.out}")
    return 0


def make_bench(chosen: argparse.Namespace, cache: Path) -> Bench:
    """The sizes of the run."""
    wanted = [part for part in chosen.models.split(",") if part]
    models = [
        model
        for model in named(TINY if chosen.smoke else MODELS)
        if not wanted or any(part in model.name for part in wanted)
    ]
    return Bench(
        device=CpuDevice() if chosen.smoke else CudaDevice(),
        dtype=torch.float32 if chosen.smoke else torch.bfloat16,
        models=models,
        widths=(1, 16) if chosen.smoke else (1, 2, 4, 8, 16, 32, 64),
        lengths=(64, 600) if chosen.smoke else (512, 1024, 2048, 3900),
        deadline=time.monotonic() + chosen.seconds,
        cache=cache,
        smoke=chosen.smoke,
        repeats=2 if chosen.smoke else 20,
        context=1024 if chosen.smoke else 4096,
    )


class _Run:
    """One run, part by part."""

    def __init__(self, bench: Bench, chosen: argparse.Namespace, report: Report) -> None:
        self._bench, self._chosen, self._report = bench, chosen, report
        self._limits: Ceilings | None = None
        self._recorded: list[Dataset] = []

    def all(self) -> None:
        """Everything, until the time is up."""
        bench, report = self._bench, self._report
        self._limits = self._part("ceilings", lambda: ceilings.measure(bench))
        report.add("ceilings", asdict(self._limits) if self._limits else None)
        self._recorded = acceptance.read(self._chosen.acceptance)
        if not self._recorded:
            bench.skip("simulated acceptance", f"{self._chosen.acceptance} is absent; see docs/gpu.md")
        for number, model in enumerate(bench.models):
            if bench.left() < A_MODEL:
                bench.skip(model.name, "no time left")
            else:
                self._model(model, in_detail=number < IN_DETAIL, exactness=number == 0)
        self._real()
        self._compiled()
        report.add("skipped", bench.skipped)

    def _model(self, model: Named, *, in_detail: bool, exactness: bool) -> None:
        """Parts 2, 3 and 5 on one model."""
        bench, report = self._bench, self._report
        times = self._part(f"steps of {model.name}", lambda: self._steps(model))
        if times is None:
            return
        report.add("steps", of_times(times, self._limits), model.name)
        eager_ms = None
        if not self._chosen.no_peers:
            sizes = [(rows, bench.lengths[1]) for rows in ((1, 16) if in_detail else (1,))]
            found = self._part(
                f"transformers on {model.name}", lambda: peers.measure(bench, model, sizes, compiled=False)
            )
            report.add("peers", found, model.name)
            eager_ms = next(iter((found or {}).get("eager", {}).values()), None)
        cells = simulate.simulate(self._recorded, model.name, times, eager_ms)
        report.add("simulated", [asdict(cell) for cell in cells], model.name)
        if in_detail:
            self._detail(model, times.kernels)
        if exactness:
            outcome = self._part("exactness", lambda: exact.measure(bench, model, times.kernels))
            report.add("exactness", [asdict(e) | {"per_thousand": e.per_thousand} for e in outcome or ()])

    def _steps(self, model: Named) -> StepTimes:
        """All sizes by the quicker kernels, after both were tried at two of them."""
        bench, asked = self._bench, self._chosen.kernels
        if asked != "auto" or not bench.device.captures:
            return steps.measure(bench, model, "torch" if asked == "auto" else asked)
        probe = [(1, bench.lengths[1]), (16, bench.lengths[1])]
        tried = {"torch": steps.measure(bench, model, "torch", sizes=probe)}
        fused = self._part(f"fused kernels on {model.name}", lambda: steps.measure(bench, model, "fused", sizes=probe))
        if fused is not None:
            error = steps.disagreement(bench, model)
            say(f"{model.name}: fused kernels differ from torch's by {error:.2%} of the logits' norm")
            self._report.add("fused_disagreement", error, model.name)
            if error <= steps.MOST_DISAGREEMENT:
                tried["fused"] = fused
        self._report.add("kernels", {name: of_times(t, self._limits) for name, t in tried.items()}, model.name)
        quicker = min(tried, key=lambda name: sum(tried[name].device_ms.values()))
        return steps.measure(bench, model, quicker)

    def _detail(self, model: Named, kernels: str) -> None:
        """What only some models get: the host's gap, the time to ghost text, and rounded weights."""
        bench, report = self._bench, self._report
        gaps = self._part(f"host gap of {model.name}", lambda: loop.host_gap(bench, model, kernels))
        report.add("gaps", [asdict(gap) for gap in gaps or ()], model.name)
        ghosts = self._part(f"time to ghost text of {model.name}", lambda: ghost.measure(bench, model, kernels))
        report.add("ghost_text", [asdict(each) for each in ghosts or ()], model.name)
        report.add("products", self._part("rounded products", lambda: products.measure(bench, model)), model.name)
        sizes = [(1, bench.lengths[1]), (16, bench.lengths[1])]
        for precision in ("int8", "int4"):
            times = self._part(
                f"{precision} steps of {model.name}",
                lambda p=precision: steps.measure(bench, model, kernels, sizes=sizes, precision=p),  # type: ignore[misc]
            )
            report.add(precision, of_times(times, self._limits) if times else None, model.name)

    def _real(self) -> None:
        """Part 4."""
        missing = "a smoke run" if self._chosen.smoke else real.why_not()
        if missing:
            self._bench.skip("the real model", missing)
            return
        found = self._part("the real model", lambda: real.measure(self._bench, self._bench.cache, "cuda-graphs"))
        self._report.add("real", found)

    def _compiled(self) -> None:
        """Part 2's last column, which takes longest."""
        bench = self._bench
        if self._chosen.no_peers or bench.left() < (0 if bench.smoke else TO_COMPILE):
            bench.skip("torch.compile", "no time left, or not asked for")
            return
        sizes = [(1, bench.lengths[1])]
        self._report.add(
            "compiled", self._part("compiled", lambda: peers.measure(bench, bench.models[0], sizes, compiled=True))
        )

    def _part(self, name: str, work: Callable[[], Found]) -> Found | None:
        """Run one part; what it raises costs this part alone."""
        started = time.monotonic()
        try:
            found = work()
        except Exception as why:  # noqa: BLE001 see the module's docstring
            self._bench.skip(name, f"{type(why).__name__}: {why}"[:300])
            self._bench.tidy()
            return None
        say(f"{name}: {time.monotonic() - started:.0f} s, {self._bench.left():.0f} s left")
        return found
