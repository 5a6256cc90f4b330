"""The whole run: all parts in the order of their worth, in processes of their own, within the time that there is.

Owns the order, the options, and the folder of results, which is written after every part. A part that fails, hangs or
dies is told and left out: the others are worth having.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import acceptance, simulate
from benchmarks.gpu.machine import say
from benchmarks.gpu.parts import OF_ALL
from benchmarks.gpu.report import Report, measured, short
from benchmarks.gpu.shapes import MODELS, TINY
from benchmarks.gpu.steps import MOST_DISAGREEMENT
from fastcoder_lsp.engine.static.ways import FUSED, TORCH, way

SECONDS = 540.0
"""The run's length at most, under ten minutes; a first look takes two."""
FIRST_SECONDS = 120.0
A_PART = 150.0
"""Seconds that one part may take."""
LEAST = 8.0
"""Seconds without which no part is begun."""
IN_DETAIL = 3
"""Models that get all parts: those that figures are set for."""
DETAILS = ("gaps", "ghost", "products", "int8", "int4")
CHECKOUT = Path(__file__).parents[3]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything; 1 where there is nothing to run it on."""
    parser = argparse.ArgumentParser(description="Measure the graph engine on a GPU; a short table comes last.")
    parser.add_argument("--out", type=Path, default=Path("bench_gpu"), help="folder for results (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=None, help=f"length at most (default: {SECONDS}; first: 120)")
    parser.add_argument(
        "--first", action="store_true", help="a first look in two minutes: does it work, how fast is it"
    )
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU: does every line run?")
    parser.add_argument("--models", default="", help="only models whose names hold one of these, by comma")
    parser.add_argument(
        "--kernels",
        type=_kernels,
        default="auto",
        help=f"{TORCH} or {FUSED}; default: the quickest that is right",
    )
    parser.add_argument("--no-peers", action="store_true", help="leave transformers out")
    parser.add_argument("--acceptance", type=Path, default=acceptance.FILE, help="recorded steps; default: the shipped")
    chosen = parser.parse_args(arguments)
    if not chosen.smoke and not torch.cuda.is_available():
        say("this machine has no GPU that torch can use; --smoke runs small on the CPU")
        return 1
    run = _Run(chosen)
    run.all()
    print("\n".join(short(run.report.found)), flush=True)  # noqa: T201 a script's own words
    say(f"everything is in the folder {chosen.out.resolve()}: send it whole (docs/gpu.md)")
    return 0


def _kernels(name: str) -> str:
    """The option's value; argparse tells why it is refused."""
    return name if name == "auto" else way(name)


class _Run:
    """One run of the benchmark, part by part."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self._chosen = chosen
        seconds = chosen.seconds or (FIRST_SECONDS if chosen.first else SECONDS)
        self._deadline = time.monotonic() + seconds
        self.report = Report(chosen.out.resolve(), smoke=chosen.smoke)
        wanted = [part for part in chosen.models.split(",") if part]
        known = TINY if chosen.smoke else MODELS
        self._models = [name for name in known if not wanted or any(part in name for part in wanted)]
        self._recorded = acceptance.read(chosen.acceptance)
        if not self._recorded:
            self.report.skip("simulated acceptance", f"{chosen.acceptance} is absent; see docs/gpu.md")

    def all(self) -> None:
        """Run all parts, until the time is up."""
        self._parts(["works"], self._models[0])
        if self._chosen.first:
            self._first(self._models[0])
            return
        for number, model in enumerate(self._models):
            exactness = ("reference", "exactness") if number == 0 else ()
            self._model(model, ("steps", *(DETAILS if number < IN_DETAIL else ()), *exactness))
        self._parts(["real"], self._models[0], each=self._left())
        if not self._chosen.no_peers:
            for model in self._models[:IN_DETAIL]:
                self._parts(["compiled"], model)

    def _first(self, model: str) -> None:
        """What a first look is for, and then what time is left for: the real model, if there is one, says more."""
        kernels = self._kernels(model)
        self._parts(["steps", "reference", "ghost"], model, kernels)
        self._simulate(model)
        self._parts(["real"], model, each=self._left())
        self._parts(["exactness"], model, kernels)

    def _model(self, model: str, parts: Sequence[str]) -> None:
        """All parts of one model."""
        self._parts(parts, model, self._kernels(model))
        if not self._chosen.no_peers:
            self._parts(["peers"], model)
        self._simulate(model)

    def _kernels(self, model: str) -> str:
        """The quickest kernels, of those whose logits are torch's."""
        if self._chosen.kernels != "auto" or self._chosen.smoke:
            return TORCH if self._chosen.kernels == "auto" else str(self._chosen.kernels)
        self._parts(["probe"], model, TORCH)
        self._parts(["probe", "disagreement"], model, FUSED)
        probes = self.report.found.get("probes", {}).get(model, {})
        apart = self.report.found.get("disagreement", {}).get(model, {})
        sound = [name for name in (FUSED,) if apart.get(name) and max(apart[name].values()) <= MOST_DISAGREEMENT]
        tried = [name for name in (TORCH, *sound) if name in probes]
        taken = {name: sum(each["device_ms"] for each in probes[name]["steps"].values()) for name in tried}
        return min(tried, key=lambda name: taken[name], default=TORCH)

    def _simulate(self, model: str) -> None:
        """What the recorded steps would take with the times that were measured."""
        steps = self.report.found.get("steps", {}).get(model)
        if steps is None:
            return
        eager = self.report.found.get("peers", {}).get(model, {}).get("eager", {})
        cells = simulate.simulate(self._recorded, model, measured(steps), next(iter(eager.values()), None))
        self.report.add("simulated", [simulate.told(cell) for cell in cells], model)

    def _parts(self, parts: Sequence[str], model: str, kernels: str = "torch", *, each: float = A_PART) -> None:
        """Run some parts in one process; where it dies or hangs in one of them, another process does the rest."""
        left = list(parts)
        while left:
            what = f"{'-'.join(left)} {model} {kernels}"
            seconds = min(each * len(left), self._left())
            if seconds < LEAST:
                self.report.skip(f"{', '.join(left)} of {model}", "no time left")
                return
            request = {
                "parts": left,
                "model": model,
                "kernels": kernels,
                "seconds": seconds,
                "smoke": self._chosen.smoke,
                "brief": self._chosen.first,
            }
            began = time.monotonic()
            done, why = self._process(request, self.report.files(what), seconds)
            for part in done.get("done", ()):
                self.report.take(part, done["machine"], "" if part["part"] in OF_ALL else model)
            say(f"{what}: {time.monotonic() - began:.0f} s, {self._left():.0f} s left")
            left = left[len(done.get("done", ())) :]
            if left:
                self.report.skip(f"{left.pop(0)} of {model}", why)

    def _process(self, request: dict[str, Any], files: Path, seconds: float) -> tuple[dict[str, Any], str]:
        """What the parts' process found, and what it died of if it did."""
        asked, result, log = (files.with_suffix(end) for end in (".request.json", ".json", ".log"))
        asked.write_text(json.dumps(request), encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.gpu.process", str(asked), str(result)]
        path = os.pathsep.join([str(CHECKOUT), *([os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else [])])
        why = ""
        with log.open("w", encoding="utf-8") as words:
            try:
                done = subprocess.run(
                    command,
                    env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
                    stdout=words,
                    stderr=subprocess.STDOUT,
                    timeout=seconds,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                why = f"took more than {seconds:.0f} s; {log.name} says how far it came"
            else:
                last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                why = f"ended with {done.returncode}: {last[-1][:300] if last else 'no word'}"
        try:
            return json.loads(result.read_text(encoding="utf-8")), why
        except (OSError, ValueError):
            return {}, why

    def _left(self) -> float:
        return self._deadline - time.monotonic()
