"""Traces, if the API of OpenTelemetry is installed: submissions belong to the current span, every attempt and every step that
runs is a span. Names and attributes are OpenTelemetry's conventions for messaging, as in the server and in Rust."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

try:
    from opentelemetry import context as _context
    from opentelemetry import trace as _trace
    from opentelemetry.baggage.propagation import W3CBaggagePropagator as _Baggage
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator as _Propagator
except ImportError:
    _HAS_OTEL = False
else:
    _HAS_OTEL = True

#: An attempt that starts later after its submission is a trace of its own: collectors decide about a trace in minutes.
CHILD_MAX_MS = 3_600_000
_FIELDS = ("traceparent", "tracestate", "baggage")


def trace_fields() -> dict[str, str]:
    """The trace context of the current span, as fields of a submission and as headers; nothing outside of a span."""
    if not _HAS_OTEL:
        return {}
    found: dict[str, str] = {}
    _Propagator().inject(found)
    if "traceparent" in found:
        _Baggage().inject(found)
    return found


def in_trace(body: Mapping[str, Any]) -> dict[str, Any]:
    """The submission, in the trace of the current span unless it names one."""
    return dict(body) if "traceparent" in body else {**body, **trace_fields()}


@contextlib.contextmanager
def attempt_span(job: Mapping[str, Any], now_ms: int) -> Iterator[Any]:
    """The span of an attempt: within the trace of its submission, or in a trace of its own that is linked to it if it is a
    retry, a continuation, or long after it. Nothing without OpenTelemetry."""
    if not _HAS_OTEL:
        yield None
        return
    carrier = {name: job[name] for name in _FIELDS if job.get(name)}
    context = _Baggage().extract(carrier, _Propagator().extract(carrier, _context.Context()))
    submitter = _trace.get_current_span(context).get_span_context()
    links = []
    # A trace that is not recorded stays so: its attempts are no traces of their own.
    if submitter.is_valid and submitter.trace_flags.sampled and _follows_up(job, now_ms):
        links.append(_trace.Link(submitter))
        context = _Baggage().extract(carrier, _context.Context())
    attributes: dict[str, Any] = {
        "messaging.system": "windlass", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.destination.name": str(job["queue"]), "messaging.message.id": str(job["id"]),
        "windlass.job.type": str(job["type"]), "windlass.job.attempt": int(job["attempt"]),
    }
    token = _context.attach(context)
    try:
        # Messages of exceptions may have parts of payloads; a span names the error's type only.
        with _trace.get_tracer("windlass").start_as_current_span(
            f"process {job['queue']}", kind=_trace.SpanKind.CONSUMER, attributes=attributes, links=links,
            record_exception=False, set_status_on_exception=False,
        ) as current:
            yield current
    finally:
        _context.detach(token)


def _follows_up(job: Mapping[str, Any], now_ms: int) -> bool:
    # An id begins with the time of its submission.
    return int(job["attempt"]) > 1 or now_ms - (UUID(job["id"]).int >> 80) > CHILD_MAX_MS


def end_attempt(current: Any, outcome: str | None) -> None:
    """Marks the span of an attempt that failed."""
    if current is not None and outcome is not None and '"outcome":"failed"' in outcome[:200]:
        error = json.loads(outcome)["error"]
        _fail(current, error.get("code") or error["category"])


@contextlib.contextmanager
def step_span(name: str) -> Iterator[None]:
    """The span of a step that runs, within that of its attempt."""
    if not _HAS_OTEL:
        yield
        return
    with _trace.get_tracer("windlass").start_as_current_span(
        f"step {name}", record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield
        except Exception as error:
            _fail(current, getattr(error, "code", None) or type(error).__name__)
            raise


def _fail(current: Any, error_type: Any) -> None:
    current.set_status(_trace.StatusCode.ERROR)
    current.set_attribute("error.type", str(error_type))
