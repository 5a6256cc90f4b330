"""The outcomes of requests: counts in Prometheus' text form, a line each in the file of requests, and traces.

None of them holds a text, a document's name or a key. A line has the key's name, the route, the outcome and the times;
a trace has Serve's own names of the processes, and how long each had the request.
"""

import json
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_BUCKETS_MS = (25, 50, 100, 200, 300, 500, 800, 1200, 2000, 5000, 10_000, 30_000)
_PLACES = 20_000  # most documents whose last replica is remembered
TRACES_PACKAGE, TRACES_MODULE = "opentelemetry-exporter-otlp-proto-http", "opentelemetry.exporter.otlp.proto.http"
"""The exporter's package, which Ray does not install."""
EXPORTER = f"{__name__}:processors"  # the function that Serve imports


@dataclass(slots=True)
class RequestOutcome:
    """The outcome of a request."""

    route: str  # the path; "" for an unknown one
    key: str = ""  # the key's name; "" before it is known
    code: int = 0  # the HTTP status
    ms: float = 0.0  # milliseconds in the gateway
    host_ms: float = 0.0  # the part of them in the replica
    replica: str = ""
    tokens: int = 0  # tokens of the model's forward passes
    prefilled: int = 0  # prompt tokens that were computed
    reused: int = 0  # prompt tokens that were in the KV cache
    empty: bool = False  # whether the answer has no text
    again: bool | None = None  # whether the same replica answered the document's last request; None for the first one


class RequestCounts:
    """The counts since this gateway's start."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, str, int], int] = {}
        self._sums = dict.fromkeys(("tokens", "prefilled", "reused", "empty"), 0)
        self._again = {True: 0, False: 0}
        self._le = [0] * (len(_BUCKETS_MS) + 1)
        self._ms = 0.0
        self._last: OrderedDict[str, str] = OrderedDict()

    def seen(self, place: str, replica: str) -> bool | None:
        """Whether the same replica answered the document before; None if none did."""
        before = self._last.pop(place, None)
        self._last[place] = replica
        if len(self._last) > _PLACES:
            self._last.popitem(last=False)
        return None if before is None else before == replica

    def add(self, outcome: RequestOutcome) -> None:
        """Count a request."""
        named = (outcome.route, outcome.key, outcome.code)
        self._ended[named] = self._ended.get(named, 0) + 1
        if not outcome.replica:
            return
        for name in self._sums:
            self._sums[name] += int(getattr(outcome, name))
        if outcome.again is not None:
            self._again[outcome.again] += 1
        at = next((index for index, most in enumerate(_BUCKETS_MS) if outcome.ms <= most), len(_BUCKETS_MS))
        self._le[at] += 1
        self._ms += outcome.ms

    def text(self) -> str:
        """The page of metrics."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _head("fastcoder_team_requests_total", "counter", "Requests by route, key and status code.")
        for (route, key, code), count in sorted(self._ended.items()):
            yield f'fastcoder_team_requests_total{{route={_quoted(route)},key={_quoted(key)},code="{code}"}} {count}'
        yield from _head(
            "fastcoder_team_prefix_total",
            "counter",
            "Repeated requests in a document, by whether the same replica answered.",
        )
        for again, count in self._again.items():
            yield f'fastcoder_team_prefix_total{{found="{str(again).lower()}"}} {count}'
        for name, about in (
            ("tokens", "Tokens produced by forward passes."),
            ("prefilled", "Prompt tokens computed."),
            ("reused", "Prompt tokens found in the KV cache."),
            ("empty", "Answers without text."),
        ):
            yield from _head(f"fastcoder_team_{name}_total", "counter", about)
            yield f"fastcoder_team_{name}_total {self._sums[name]}"
        yield from _head("fastcoder_team_answer_ms", "histogram", "Milliseconds from a request to its answer.")
        below = 0
        for most, count in zip((*_BUCKETS_MS, "+Inf"), self._le, strict=True):
            below += count
            yield f'fastcoder_team_answer_ms_bucket{{le="{most}"}} {below}'
        yield f"fastcoder_team_answer_ms_sum {self._ms:.3f}"
        yield f"fastcoder_team_answer_ms_count {below}"


class RequestFile:
    """A file, private to this user, with a line of JSON for each request that had a key."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def write(self, outcome: RequestOutcome) -> None:
        """Append a request; a full disk loses lines, not requests."""
        values = {"at": round(time.time(), 3), **asdict(outcome)}
        values["ms"], values["host_ms"] = round(outcome.ms, 1), round(outcome.host_ms, 1)
        try:
            self._file.write(json.dumps(values, separators=(",", ":")) + "\n")
        except OSError:
            return


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def processors() -> list[Any]:
    """OpenTelemetry's span processors, which send to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 only where wanted
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    return [BatchSpanProcessor(OTLPSpanExporter())]
