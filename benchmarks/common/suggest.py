"""A whole completion at one go, without the service: benchmarks ask one question after the other.

Owns nothing: it drives a generation to its end.
"""

import math
import time

from fastcoder_lsp.completion.question import place_of
from fastcoder_lsp.core import CompletionRequest
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.budget import LatencyEstimator
from fastcoder_lsp.scheduling.generation import begin


def suggest(runtime: Runtime, request: CompletionRequest) -> str:
    """What would be inserted at the cursor, "" where there is nothing worth showing."""
    place = place_of(request)
    generation = begin(
        runtime, LatencyEstimator(runtime.costs, _milliseconds), _milliseconds, request, place, (), Spans()
    )
    while not generation.finished:
        generation.work(math.inf)
    rest = generation.made().rest(place)
    return rest.text if rest is not None else ""


def _milliseconds() -> float:
    return time.monotonic() * 1e3
