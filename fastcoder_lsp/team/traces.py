"""Traces of requests, where the configuration names a collector: Serve makes them, and asks here where they go.

Owns that one answer. A span says which process had a request for how long, by Serve's own names; no text is in it.
"""

from typing import Any

PACKAGE, MODULE = "opentelemetry-exporter-otlp-proto-http", "opentelemetry.exporter.otlp.proto.http"
"""What sends them, which Ray does not bring along."""
EXPORTER = f"{__name__}:processors"
"""What Serve imports."""


def processors() -> list[Any]:
    """OpenTelemetry's, which send to the address that OTEL_EXPORTER_OTLP_TRACES_ENDPOINT names."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 only where wanted
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    return [BatchSpanProcessor(OTLPSpanExporter())]
