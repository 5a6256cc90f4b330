"""The parts of a run, each of which one process does: what it measures, and what it adds to the report.

Owns their names. A part knows its own model and the kernels that are to be used; it is given no other part's numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.gpu import ceilings, exact, ghost, loop, peers, products, real, reference, steps, works
from benchmarks.gpu.machine import Bench, say
from benchmarks.gpu.report import of_measured
from benchmarks.gpu.shapes import Named

Found = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PartRequest:
    """What a part is to do. `kernels`: the ways of computing it may take; `brief`: few sizes, for a first look."""

    bench: Bench
    model: Named
    kernels: str
    brief: bool

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """(rows, tokens cached) of a first look: all widths at one length."""
        return [(width, self.bench.lengths[1]) for width in self.bench.widths] if self.brief else []


def _works(request: PartRequest) -> Found:
    return {"works": works.measure(request.bench), "ceilings": asdict(ceilings.measure(request.bench))}


def _probe(request: PartRequest) -> Found:
    """Two sizes, by which the kernels are chosen."""
    bench = request.bench
    probe = [(1, bench.lengths[1]), (16, bench.lengths[1])]
    return {"probes": {request.kernels: of_measured(steps.measure(bench, request.model, request.kernels, sizes=probe))}}


def _disagreement(request: PartRequest) -> Found:
    found = steps.disagreement(request.bench, request.model, request.kernels)
    worst = max(found.values())
    say(f"{request.model.name}: kernels {request.kernels} differ by {worst:.2%} of the logits' norm at most")
    return {"disagreement": {request.kernels: {str(width): error for width, error in found.items()}}}


def _steps(request: PartRequest) -> Found:
    return {"steps": of_measured(steps.measure(request.bench, request.model, request.kernels, sizes=request.sizes))}


def _peers(request: PartRequest) -> Found:
    length = request.bench.lengths[1]
    return {"peers": peers.measure(request.bench, request.model, [(1, length), (16, length)], compiled=False)}


def _compiled(request: PartRequest) -> Found:
    return {"compiled": peers.measure(request.bench, request.model, [(1, request.bench.lengths[1])], compiled=True)}


def _gaps(request: PartRequest) -> Found:
    return {"gaps": [asdict(gap) for gap in loop.host_gap(request.bench, request.model, request.kernels)]}


def _ghost(request: PartRequest) -> Found:
    return {"ghost_text": [asdict(each) for each in ghost.measure(request.bench, request.model, request.kernels)]}


def _products(request: PartRequest) -> Found:
    return {"products": products.measure(request.bench, request.model)}


def _rounded(request: PartRequest, precision: str) -> Found:
    bench = request.bench
    sizes = [(1, bench.lengths[1]), (16, bench.lengths[1])]
    times = steps.measure(bench, request.model, request.kernels, sizes=sizes, precision=precision)
    return {precision: of_measured(times)}


def _exactness(request: PartRequest) -> Found:
    outcome = exact.measure(request.bench, request.model, request.kernels)
    return {"exactness": [asdict(each) | {"per_thousand": each.per_thousand} for each in outcome]}


def _reference(request: PartRequest) -> Found:
    outcome = reference.measure(request.bench, request.model, request.kernels)
    return {"reference": {name: asdict(each) | {"sound": each.sound} for name, each in outcome.items()}}


def _real(request: PartRequest) -> Found:
    missing = "a smoke run" if request.bench.smoke else real.why_not()
    if missing:
        request.bench.skip("the real model", missing)
        return {}
    return {"real": real.measure(request.bench, request.bench.cache, "cuda-graphs", brief=request.brief)}


PARTS: Mapping[str, Callable[[PartRequest], Found]] = {
    "works": _works,
    "probe": _probe,
    "disagreement": _disagreement,
    "steps": _steps,
    "peers": _peers,
    "compiled": _compiled,
    "gaps": _gaps,
    "ghost": _ghost,
    "products": _products,
    "int8": lambda request: _rounded(request, "int8"),
    "int4": lambda request: _rounded(request, "int4"),
    "exactness": _exactness,
    "reference": _reference,
    "real": _real,
}
OF_ALL = ("works", "real")
"""Parts that are not of one model of the list."""
