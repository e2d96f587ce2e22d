"""Spans of OpenTelemetry, if its API is installed: one for each attempt, in the trace of the submission."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

try:
    from opentelemetry import trace as _trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator as _Propagator
except ImportError:
    _HAS_OTEL = False
else:
    _HAS_OTEL = True


def span(job: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """The span of an attempt; nothing without OpenTelemetry."""
    if not _HAS_OTEL:
        return contextlib.nullcontext()
    parent = job.get("traceparent")
    context = _Propagator().extract({"traceparent": parent}) if parent else None
    attributes: dict[str, Any] = {
        "windlass.job": str(job["id"]), "windlass.queue": str(job["queue"]), "windlass.attempt": int(job["attempt"]),
    }
    return _trace.get_tracer("windlass").start_as_current_span(
        f"run {job['type']}", context=context, kind=_trace.SpanKind.CONSUMER, attributes=attributes
    )


def end_span(current: Any, outcome: str | None) -> None:
    """Marks the span of an attempt that failed."""
    if current is not None and outcome is not None and '"outcome":"failed"' in outcome[:200]:
        current.set_status(_trace.StatusCode.ERROR)
