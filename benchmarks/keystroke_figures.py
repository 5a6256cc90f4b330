"""From what a session wrote down to the figures of the report.

Owns what counts as what:

- *Ghost time*: the age of an answer that shows text which the model made, and of a request at the moment when it was
  cancelled, if its budget had passed by then. Answers from memory (typed through) and empty ones are counted apart, and
  so are requests cancelled before their budget had passed: nobody was late with them.
- *Shown*: answers with text that the model made; those from memory are `typed_through_answers`.
- *Within budget*: of all requests that were answered, or cancelled after their budget had passed, those answered in it.
- *Typed through*: keys that were the next character of the suggestion shown; the share of the answered ones among
  their requests for which the server did not ask the model.
- *Accepted share*: keys that accepts made unnecessary, of all keys of the runs.
- *Flawed*: of the texts that the model made, those that are marks alone, right or wrong, or that make a finished word
  longer.
- *Empty where the ceiling shows*: of the answers at places where the full answer shows text, the empty ones.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.typist.ceiling import Ceiling
from benchmarks.typist.replay import TYPED_THROUGH, ReplaySession, Request
from fastcoder_lsp.observe import SPANS, percentile


def figures(played: ReplaySession, ceiling: Ceiling) -> dict[str, Any]:
    """The figures of one session, as the report's JSON holds them."""
    requests, budget = played.requests, played.budget_ms
    answered = [request for request in requests if request.outcome != "cancelled"]
    late = [request for request in requests if request.outcome == "cancelled" and request.ms > budget]
    inside = [request for request in answered if request.ms <= budget]
    keys = played.typed + played.saved
    pressed = played.typed + played.accepts
    work = played.work[-1].since(played.work[0])
    each = [after.since(before) for before, after in zip(played.work, played.work[1:], strict=False)]
    return {
        "ghost_ms": ghost_ms(requests, budget),
        "shown": sum(request.by_model for request in requests),
        "empty": sum(request.outcome == "empty" for request in requests),
        **flaws(requests),
        "within_budget": _share(len(inside), len(answered) + len(late)),
        "within_budget_empty": _share(sum(request.outcome == "empty" for request in inside), len(inside)),
        "typed_through": typed_through(requests),
        "typed_through_answers": sum(request.finish == TYPED_THROUGH for request in requests),
        "accepted_chars_share": _share(played.saved, keys),
        "ceiling_chars_share": ceiling.share,
        "accepted_of_ceiling": _share(played.saved, ceiling.saved),
        "empty_where_ceiling_shows": empty_where_shown(requests, ceiling),
        "prefilled_tokens_per_key": _median([part.prefilled for part in each]),
        "steps_per_key": _median([part.steps for part in each]),
        "prefilled_tokens_per_key_mean": work.prefilled / max(1, pressed),
        "steps_per_key_mean": work.steps / max(1, pressed),
        "cpu_seconds_per_char": played.cpu_s / max(1, pressed),
        "budget_ms": budget,
        "requests": len(requests),
        "cancelled": len(requests) - len(answered),
        "cancelled_late": len(late),
        "keys": {"all": keys, "typed": played.typed, "saved": played.saved, "accepts": played.accepts},
        "origins": origins(requests),
        "mat": _share(work.tokens, work.steps),
        "steps": work.steps,
        "tokens": work.tokens,
        "accepted_by_source": {name: count for name, count in work.accepted_by_source.items() if count},
        "mechanisms": dict(work.mechanisms),
        "wall_seconds": played.wall_s,
        "memory_bytes": played.memory_bytes,
    }


def flaws(requests: Sequence[Request]) -> dict[str, Any]:
    """How many texts that the model made have which flaw, and the share that has any."""
    made = [request.flaw for request in requests if request.by_model]
    count = Counter(flaw for flaw in made if flaw)
    named = {flaw: count[flaw] for flaw in ("marks", "wrong marks", "longer word")}
    return {"flaws": named, "flawed": _share(count.total(), len(made))}


def ghost_ms(requests: Sequence[Request], budget_ms: float) -> dict[str, float | int | None]:
    """p50, p95 and p99 of the ghost times, and how many there are."""
    times = ghost_times(requests, budget_ms)
    shares = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
    return {name: percentile(times, share) if times else None for name, share in shares.items()} | {"count": len(times)}


def ghost_times(requests: Sequence[Request], budget_ms: float) -> list[float]:
    """The ages that count as ghost times, in milliseconds."""
    return [
        request.ms
        for request in requests
        if request.by_model or (request.outcome == "cancelled" and request.ms > budget_ms)
    ]


def typed_through(requests: Sequence[Request]) -> float | None:
    """Of the answered requests after a key that went along the ghost text, those that needed no model."""
    through = [request for request in requests if request.through and request.outcome != "cancelled"]
    return _share(sum(request.finish == TYPED_THROUGH for request in through), len(through))


def empty_where_shown(requests: Sequence[Request], ceiling: Ceiling) -> float | None:
    """Of the answers at places where the full one shows text, those that show none."""
    answers = [
        request
        for request in requests
        if request.outcome != "cancelled" and request.place is not None and ceiling.answers.get(request.place)
    ]
    return _share(sum(request.outcome == "empty" for request in answers), len(answers))


def origins(requests: Sequence[Request]) -> dict[str, int]:
    """What became of the requests, and how the answers ended: "cancelled", "empty", or shown by which `finish`."""
    return dict(
        Counter(
            request.finish or "shown" if request.outcome == "shown" else request.outcome for request in requests
        ).most_common()
    )


def timeline(requests: Sequence[Request]) -> list[dict[str, Any]]:
    """Every request in its order, in few letters: what the pictures are drawn from."""
    return [
        {
            "outcome": request.outcome,
            "ms": round(request.ms, 1),
            "finish": request.finish,
            "parts": {span: round(request.parts.get(span, 0.0), 1) for span in SPANS},
        }
        for request in requests
    ]


def _share(part: float, whole: float) -> float | None:
    """None where there is nothing to take a share of."""
    return part / whole if whole else None


def _median(values: Sequence[int]) -> float | None:
    return statistics.median(values) if values else None
