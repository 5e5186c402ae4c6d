"""T13: spans and metrics, on the real SDK of OpenTelemetry with exporters in memory."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mainspring import Mainspring, RetryPolicy
from mainspring.encryption import AesGcm
from mainspring.hooks.traced import trace_of, with_trace
from mainspring.telemetry import instrument
from mainspring.testing import run_until_idle


@pytest.mark.parametrize("encrypted", [False, True], ids=["clear", "encrypted"])
async def test_a_run_s_span_has_that_of_its_enqueueing_as_parent(
    mainspring_url: str, encrypted: bool
) -> None:
    """T13: of async functions and threads, of one call and of many, over retries."""
    kept, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    meters = MeterProvider([reader])
    cipher = AesGcm({"k": bytes(32)}, use="k") if encrypted else None
    inside: list[int] = []
    async with Mainspring(mainspring_url, cipher=cipher) as app:
        instrument(app, tracer_provider=provider, meter_provider=meters)

        @app.task(retry=RetryPolicy(attempts=2, first=0, most=0))
        async def greet(name: str) -> str:
            inside.append(trace.get_current_span().get_span_context().trace_id)
            if name == "bob":
                raise ValueError("no such name")
            return name

        @app.task
        def plain() -> None:
            inside.append(trace.get_current_span().get_span_context().trace_id)

        with provider.get_tracer("test").start_as_current_span("request") as request:
            handle = await greet.enqueue("ann")
            await asyncio.to_thread(plain.enqueue_sync)
        await greet.enqueue_many([{"name": "bob"}] * 2)
        await run_until_idle(app)
        assert await handle.result(timeout=1) == "ann"

    spans: dict[str, list[ReadableSpan]] = {}
    for span in kept.get_finished_spans():
        spans.setdefault(span.name, []).append(span)
    sent_one, sent_many = sorted(spans["send greet"], key=lambda s: s.start_time or 0)
    (sent_plain,), (ran_plain,) = spans["send plain"], spans["process plain"]
    assert sent_one.parent is not None
    assert sent_one.parent.span_id == request.get_span_context().span_id
    assert (sent_one.attributes or {})["messaging.message.id"] == handle.id
    assert (sent_many.attributes or {})["messaging.batch.message_count"] == 2

    def children(parent: ReadableSpan, name: str) -> list[ReadableSpan]:
        wanted = parent.context.span_id
        return [s for s in spans[name] if s.parent is not None and s.parent.span_id == wanted]

    assert len(children(sent_one, "process greet")) == 1
    failed = children(sent_many, "process greet")
    assert [s.status.is_ok for s in failed] == [False] * 4, "two calls, each tried twice"
    assert [s.status.description for s in failed] == [
        "ValueError" if encrypted else "ValueError: no such name"
    ] * 4
    assert ("no such name" in "".join(s.to_json() for s in failed)) is not encrypted
    assert children(sent_plain, "process plain") == [ran_plain]
    assert set(inside) == {s.context.trace_id for s in (sent_one, sent_many)}

    data = reader.get_metrics_data()
    assert data is not None
    metrics = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    found = metrics["mainspring.runs"].data.data_points
    points = {tuple((p.attributes or {}).items())[::-1]: getattr(p, "value", 0) for p in found}
    assert points == {
        (("outcome", "done"), ("queue", "greet")): 1,
        (("outcome", "failed"), ("queue", "greet")): 4,
        (("outcome", "done"), ("queue", "plain")): 1,
    }
    assert {"mainspring.run.duration", "mainspring.run.wait"} <= metrics.keys()
    provider.shutdown()
    meters.shutdown()


def test_a_trace_is_put_beside_any_payload_and_read_again() -> None:
    for payload in (b"{}", b'{"a":1}', b'{"$":{"key":"k","sealed":"x"}}'):
        stored = with_trace(payload, "00-1-2-01").decode()
        assert trace_of(stored) == "00-1-2-01"
    assert trace_of('{"a":1}') is None
    assert trace_of('{"$":7}') is None
