"""Traces, with a real server and worker: from the submitter's span to attempts, steps, children and follow-ups."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from conftest import Server
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from windlass_sdk import Cx, Permanent, SyncCx, Windlass, Worker
from windlass_sdk.tracing import attempt_span, in_trace, trace_fields

EXPORTER = InMemorySpanExporter()
TRACER = trace.get_tracer("test")


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What was exported since the test began."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(provider)
    EXPORTER.clear()
    yield EXPORTER


def named(name: str) -> list[ReadableSpan]:
    return [span for span in EXPORTER.get_finished_spans() if span.name == name]


def of_type(type: str) -> list[ReadableSpan]:
    """The attempts of jobs of this type, in order."""
    return [span for span in EXPORTER.get_finished_spans() if (span.attributes or {}).get("windlass.job.type") == type]


def ids(span: ReadableSpan) -> tuple[int, int]:
    found = span.get_span_context()
    assert found is not None
    return found.trace_id, found.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def shop(url: str) -> Windlass:
    app = Windlass(url)

    @app.job("leaf")
    def leaf(name: str, cx: SyncCx) -> str:
        cx.step("look", len, name)
        return str(baggage.get_baggage("customer"))

    @app.job("order", retry={"strategy": "constant", "initial_delay": "1ms", "jitter": 0, "max_attempts": 2})
    async def order(how: str, cx: Cx) -> str:
        async def charge() -> str:
            with TRACER.start_as_current_span("inner"):
                return str((await leaf.submit("in a step")).id)

        await cx.step("charge", charge)
        if how == "fails" and cx.failures == 0:
            raise ConnectionError("canary")
        if how == "never":
            await cx.step("broken", broken)
        cx.submit_on_completion(leaf.child("after it"))
        return (await cx.gather(leaf.child("below it")))[0]

    async def broken() -> None:
        raise Permanent("canary", code="declined")

    return app


def during_work(server: Server, use: Callable[[Windlass], Awaitable[None]]) -> None:
    """Runs a worker in this process, where its spans are exported, until the jobs are final."""

    async def run() -> None:
        app = shop(server.url)
        worker = Worker(app, concurrency=4)
        working = asyncio.create_task(worker.run(handle_signals=False))
        await use(app)
        worker.stop()
        await working

    asyncio.run(run())
    assert "canary" not in "".join(span.to_json() for span in EXPORTER.get_finished_spans())


def test_a_trace_goes_from_the_submitter_through_steps_children_and_follow_ups(
    server: Server, spans: InMemorySpanExporter
) -> None:
    found: dict[str, Any] = {}

    async def use(app: Windlass) -> None:
        token = context.attach(baggage.set_baggage("customer", "seven"))
        with TRACER.start_as_current_span("request"):
            handle = await app.submit("order", "works", queue="shop")
        context.detach(token)
        assert await handle.result("30s") == "seven"
        found["job"] = server.job(handle.id)
        await asyncio.to_thread(lambda: [server.final(one["id"]) for one in server.get("/jobs?type=leaf")["jobs"]])

    during_work(server, use)
    request = named("request")[0]
    first, second = of_type("order")
    assert found["job"]["traceparent"].split("-")[1:3] == [f"{ids(request)[0]:032x}", f"{ids(request)[1]:016x}"]
    # The first attempt belongs to the trace; the one after the children is linked to it.
    assert (first.name, first.kind, parent(first)) == ("process shop", trace.SpanKind.CONSUMER, ids(request))
    assert parent(second) is None and [link.context.span_id for link in second.links] == [ids(request)[1]]
    attributes = dict(first.attributes or {})
    assert (attributes["messaging.message.id"], attributes["windlass.job.attempt"]) == (found["job"]["id"], 1)
    # A saved step does not run again, and has one span.
    assert [parent(step) for step in named("step charge")] == [ids(first)]
    inner = named("inner")[0]
    assert parent(inner) == ids(named("step charge")[0])
    submitted, below, after = (
        next(span for span in of_type("leaf") if parent(span) == above) for above in (ids(inner), ids(first), ids(second))
    )
    assert len({submitted, below, after}) == 3 and len(of_type("leaf")) == 3
    assert {parent(step) for step in named("step look")} == {ids(submitted), ids(below), ids(after)}


def test_failures_have_a_type_and_no_text_and_retries_are_linked(server: Server, spans: InMemorySpanExporter) -> None:
    async def use(app: Windlass) -> None:
        with TRACER.start_as_current_span("request"):
            fails, never = await app.submit("order", "fails"), await app.submit("order", "never")
        await fails.result("30s")
        await asyncio.to_thread(server.final, never.id)

    during_work(server, use)
    failed = [span for span in of_type("order") if not span.status.is_ok and (span.attributes or {}).get("error.type")]
    assert sorted(str((span.attributes or {})["error.type"]) for span in failed) == ["ConnectionError", "declined"]
    assert [(span.attributes or {})["error.type"] for span in named("step broken")] == ["declined"]
    retries = [span for span in of_type("order") if (span.attributes or {})["windlass.job.attempt"] != 1]
    assert retries and all(parent(span) is None and len(span.links) == 1 for span in retries)


def test_a_submission_without_a_span_and_one_with_a_trace_of_its_own(spans: InMemorySpanExporter) -> None:
    assert trace_fields() == {} and in_trace({"type": "a"}) == {"type": "a"}
    with TRACER.start_as_current_span("request"):
        assert in_trace({"type": "a", "traceparent": "mine"}) == {"type": "a", "traceparent": "mine"}
        assert "traceparent" in in_trace({"type": "a"})
        # Schedules submit for years: they belong to no trace.
        app = Windlass()
        app.schedule("s", every="1h")(app.job("a")(_nothing))
        assert "traceparent" not in app.declared_schedules["s"]["job"]


def _nothing() -> None:
    """Never run here."""


def test_an_attempt_long_after_its_submission_is_a_trace_of_its_own(spans: InMemorySpanExporter) -> None:
    ids_of, hour = "01900000-0000-7000-8000-000000000000", 3_600_000
    began = int(ids_of.replace("-", "")[:12], 16)
    for late, flags, has_link in ((hour, "01", False), (hour + 1, "01", True), (hour + 1, "00", False)):
        EXPORTER.clear()
        job = {
            "id": ids_of, "type": "a", "queue": "q", "attempt": 1,
            "traceparent": f"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}",
        }
        with attempt_span(job, began + late):
            pass
        found = EXPORTER.get_finished_spans()
        assert [len(span.links) for span in found] == ([] if flags == "00" else [int(has_link)]), late


def test_without_opentelemetry_nothing_is_missing() -> None:
    check = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from windlass_sdk import Cx, Windlass, tracing\n"
        "app = Windlass()\n"
        "@app.job('a')\n"
        "async def a(n: int, cx: Cx) -> int:\n"
        "    return await cx.step('one', abs, n)\n"
        "assert a.run_inline(-3).value() == 3 and tracing.trace_fields() == {}\n"
        "with tracing.attempt_span({}, 0) as span: tracing.end_attempt(span, None)\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
