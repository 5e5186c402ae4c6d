"""OpenTelemetry: spans of enqueueing and of runs in one trace, and metrics of runs.

    from mainspring.telemetry import instrument

    instrument(app)

Needs the extra `mainspring[otel]`: the API alone; the SDK is your application's matter. Call it in
every process, workers first: one of a release that does not know the carried trace cannot read such calls.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from mainspring.app import Mainspring
from mainspring.errors import MissingExtra
from mainspring.failure_text import describe, scrub_of
from mainspring.hooks.enqueueing import Enqueueing
from mainspring.hooks.told import RunInfo

try:
    from opentelemetry import metrics, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise MissingExtra("telemetry", error.name, "otel") from None

SYSTEM = "mainspring"


def instrument(
    app: Mainspring,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> None:
    """Make spans and metrics of an application's calls and runs; by the global providers if none is given.

    The span of a run has that of its enqueueing as its parent, whichever process and day it runs in.
    """
    tracer = trace.get_tracer(SYSTEM, tracer_provider=tracer_provider)
    meter = metrics.get_meter(SYSTEM, meter_provider=meter_provider)
    runs = meter.create_counter("mainspring.runs", description="Runs of functions that have ended.")
    took = meter.create_histogram("mainspring.run.duration", "s", "How long they took.")
    waited = meter.create_histogram("mainspring.run.wait", "s", "How long they were due before.")
    carrying = TraceContextTextMapPropagator()

    @app.hooks.around_enqueue
    def enqueueing(told: Enqueueing) -> Iterator[None]:
        names = told.tasks
        shown = names[0] if len(names) == 1 else "several tasks"
        attributes: dict[str, str | int] = {
            "messaging.system": SYSTEM,
            "messaging.operation.type": "send",
            "messaging.batch.message_count": len(told.calls),
        }
        if len(names) == 1:
            attributes["messaging.destination.name"] = names[0]
        kind = trace.SpanKind.PRODUCER
        with tracer.start_as_current_span(
            f"send {shown}", kind=kind, attributes=attributes
        ) as span:
            carried: dict[str, str] = {}
            carrying.inject(carried)
            if "traceparent" in carried:
                told.set_trace(carried["traceparent"])
            yield
            if len(told.handles) == 1:
                span.set_attribute("messaging.message.id", told.handles[0].id)

    @app.hooks.around_run
    def running(run: RunInfo) -> Iterator[None]:
        carried = {} if run.trace is None else {"traceparent": run.trace}
        attributes: dict[str, str | int] = {
            "messaging.system": SYSTEM,
            "messaging.operation.type": "process",
            "messaging.destination.name": run.task,
            "messaging.message.id": str(run.id),
            "mainspring.attempt": run.attempt,
        }
        began, outcome = time.monotonic(), "failed"
        queue = {"queue": run.task}
        waited.record(max(0.0, (run.started_at - run.due_at).total_seconds()), queue)
        try:
            with tracer.start_as_current_span(
                f"process {run.task}",
                context=carrying.extract(carried),
                kind=trace.SpanKind.CONSUMER,
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                try:
                    yield
                except Exception as error:
                    if app.sealing is None:
                        _note(span, error)
                    else:
                        _note_type(span, error)
                    raise
            outcome = "done"
        finally:
            labels = {**queue, "outcome": outcome}
            runs.add(1, labels)
            took.record(time.monotonic() - began, labels)


def _note_type(span: trace.Span, error: Exception) -> None:
    """The failure of a run whose application has a cipher: its text is nowhere in the clear."""
    name = describe(error)[0]
    span.add_event("exception", {"exception.type": name})
    span.set_status(trace.Status(trace.StatusCode.ERROR, name))


def _note(span: trace.Span, error: Exception) -> None:
    """The failure of a run; of one that hides fields as its text is stored."""
    if scrub_of(error) is None:
        span.record_exception(error)
        text = str(error)
    else:
        name, whole = describe(error)
        first, _, places = whole.partition("\n")
        text = first.removeprefix(f"{name}: ")
        facts = {"exception.type": name, "exception.message": text, "exception.stacktrace": places}
        span.add_event("exception", facts)
    span.set_status(trace.Status(trace.StatusCode.ERROR, f"{type(error).__name__}: {text}"))
