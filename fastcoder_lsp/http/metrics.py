"""The statistics of all desks in Prometheus' text form, version 0.0.4."""

from collections.abc import Iterator, Sequence

from fastcoder_lsp.completion.status import Statistics

_COUNTERS = {
    "requests": "Requests.",
    "shown": "Requests answered with a suggestion from the model.",
    "typed_through": "Requests answered from an earlier suggestion.",
    "empty": "Requests answered without a suggestion.",
    "cancelled": "Requests whose client disconnected.",
    "failed": "Requests that failed.",
    "steps": "Forward passes.",
    "tokens": "Tokens produced by forward passes.",
    "accepted_drafts": "Drafted tokens among them.",
    "prefilled": "Prompt tokens computed.",
    "reused": "Prompt tokens found in the KV cache.",
}


def metrics_text(statistics: Sequence[Statistics], busy: int) -> str:
    """The page; `busy`: requests that are worked on."""
    return "".join(f"{line}\n" for line in _lines(statistics, busy))


def _lines(statistics: Sequence[Statistics], busy: int) -> Iterator[str]:
    for name, about in _COUNTERS.items():
        total = sum(int(getattr(one, name)) for one in statistics)
        yield from _metric(f"fastcoder_{name}_total", "counter", about, total)
    yield from _metric("fastcoder_requests_processing", "gauge", "Requests in progress.", busy)
    resident = max((one.resident_bytes for one in statistics), default=0)
    yield from _metric("fastcoder_resident_bytes", "gauge", "Memory of the process that runs the model.", resident)


def _metric(name: str, kind: str, about: str, value: int) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    yield f"{name} {value}"
