"""Exports Serve's traces of requests to the configured collector.

Owns the exporter alone. A span has the process and the duration, under Serve's own names, and no text.
"""

from typing import Any

PACKAGE, MODULE = "opentelemetry-exporter-otlp-proto-http", "opentelemetry.exporter.otlp.proto.http"
"""The exporter's package, which Ray does not install."""
EXPORTER = f"{__name__}:processors"
"""The function that Serve imports."""


def processors() -> list[Any]:
    """OpenTelemetry's span processors, which send to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 only where wanted
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    return [BatchSpanProcessor(OTLPSpanExporter())]
