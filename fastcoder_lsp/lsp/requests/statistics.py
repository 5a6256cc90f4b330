"""`fastcoder/stats`: what a statistics panel shows."""

from dataclasses import asdict

from fastcoder_lsp.lsp.session import Session


def statistics(session: Session, _params: object) -> dict[str, object]:
    """Counts, rates, percentiles and memory, as plain JSON; null for what is not known before a model is loaded."""
    service, accepts = session.service.statistics(), session.accepts.counts()
    counts = asdict(service)
    host = session.service.host.facts()
    prompt_tokens = service.prefilled + service.reused
    return {
        "model": counts.pop("model") or None,
        "engine": counts.pop("engine") or None,
        "ms": counts.pop("ms"),
        "memory": {"resident_bytes": counts.pop("resident_bytes")},
        "host": {
            "shared": host.shared,
            "process_id": host.process_id or None,
            "fronts": host.fronts,
            "turn": host.turn or None,
        },
        "suggestions": asdict(accepts),
        "accepted_by_source": counts.pop("accepted_by_source"),
        "suppressed": counts.pop("suppressed"),
        "budget_ms": counts.pop("budget_ms"),
        "requests": counts,
        "rates": {
            "accepted": _share(accepts.accepted, accepts.shown),
            "typed_through": _share(service.typed_through, service.requests),
            "prompt_cache": _share(service.reused, prompt_tokens),
        },
        "open_documents": len(session.documents),
    }


def _share(part: int, whole: int) -> float | None:
    """None where there is nothing to take a share of."""
    return round(part / whole, 4) if whole else None
