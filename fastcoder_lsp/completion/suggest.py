"""A whole completion at one go, without the service: for benchmarks, which ask one question after the other.

Owns nothing: it drives a `task` to its end.
"""

import math
import time
from dataclasses import replace

from fastcoder_lsp.completion.pace import Pace
from fastcoder_lsp.completion.place import Place, answering, nothing
from fastcoder_lsp.completion.task import begin
from fastcoder_lsp.core import Completion, CompletionRequest, ShouldStop
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.runtime.parts import Runtime


def suggest(
    runtime: Runtime, request: CompletionRequest, place: Place, should_stop: ShouldStop, spans: Spans
) -> Completion:
    """Make one completion; an empty one where there is nothing worth showing, or when stopped."""
    task = begin(
        runtime,
        Pace(runtime.costs, _milliseconds),
        _milliseconds,
        request.snapshot,
        place,
        max_tokens=request.max_tokens,
        spans=spans,
    )
    while not task.finished and not should_stop():
        task.advance(math.inf)
    rest = None
    if task.finished:
        with spans.measure("post"):
            rest = task.made().rest(place.before, place.after)
    info, work = runtime.engine.info, task.work()
    ms, ended = spans.close(), task.finish or "cancelled"
    return replace(
        nothing(request, ended, task.why_nothing(), ms) if rest is None else answering(request, [rest], ended, ms),
        model=info.model,
        engine=info.name,
        steps=work.steps,
        tokens=work.tokens,
        accepted=work.accepted,
        prefilled=work.prefilled,
        reused=work.reused,
        accepted_by_source=work.by_source,
        trace=task.trace(),
    )


def _milliseconds() -> float:
    return time.monotonic() * 1e3
