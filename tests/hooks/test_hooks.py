"""T13: what an application does around calls and runs, at a failure, at a worker's start and stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar

import msgspec
import pytest
import sentry_sdk
from sentry_sdk.transport import Transport

from mainspring import Context, Mainspring, Promise, RetryPolicy, Update
from mainspring.errors import InvalidSetting, TaskFailed
from mainspring.hooks.enqueueing import Enqueueing
from mainspring.hooks.told import FailedRun, RunInfo
from mainspring.testing import run_until_idle, wait_until

ONCE = RetryPolicy(attempts=1)


@pytest.fixture
def told() -> list[str]:
    return []


async def test_hooks_are_around_runs_in_their_order_and_know_what_is_run(
    app: Mainspring, told: list[str]
) -> None:
    """T13: async and plain ones, around an async function and one in a thread, which see their context."""
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")

    @app.hooks.around_run
    async def outer(run: RunInfo) -> AsyncIterator[None]:
        told.append(f"outer {run.task} {run.attempt} {run.group} {dict(run.arguments)}")
        tenant.set(run.group or "")
        yield
        told.append(f"outer {run.result}")

    @app.hooks.around_run
    def inner(run: RunInfo) -> Iterator[None]:
        told.append("inner begins")
        yield
        told.append("inner ends")

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}, {tenant.get()}"

    @app.task
    def greet_in_thread(ctx: Context, name: str) -> str:
        return f"hello {name} in a thread, {tenant.get()}"

    one = await greet.options(group="acme").enqueue("ann")
    await run_until_idle(app)
    assert await one.result(timeout=1) == "hello ann, acme"
    assert told == [
        "outer greet 1 acme {'name': 'ann'}",
        "inner begins",
        "inner ends",
        "outer hello ann, acme",
    ]
    two = await greet_in_thread.options(group="acme").enqueue("ann")
    await run_until_idle(app)
    assert await two.result(timeout=1) == "hello ann in a thread, acme"


async def test_what_a_hook_around_a_run_raises_is_a_failure_of_the_run(
    app: Mainspring, told: list[str]
) -> None:
    @app.hooks.around_run
    async def refuses(run: RunInfo) -> AsyncIterator[None]:
        if run.arguments["name"] == "bob":
            raise PermissionError("not bob")
        try:
            yield
        except ValueError as error:
            told.append(f"seen: {error}")
            raise

    @app.task(retry=ONCE)
    async def greet(name: str) -> str:
        raise ValueError("no voice")

    one, two = await greet.enqueue("ann"), await greet.enqueue("bob")
    await run_until_idle(app)

    assert told == ["seen: no voice"]
    with pytest.raises(TaskFailed, match="ValueError: no voice"):
        await one.result(timeout=1)
    with pytest.raises(TaskFailed, match="PermissionError: not bob"):
        await two.result(timeout=1)


async def test_a_hook_around_enqueueing_changes_how_and_refuses(app: Mainspring) -> None:
    """T13: one call, many, and those of plain code, with their handles after it."""
    seen: list[tuple[list[str], int, int]] = []

    @app.hooks.around_enqueue
    def for_tenant(enqueueing: Enqueueing) -> Iterator[None]:
        if "drop" in enqueueing.tasks:
            raise PermissionError("drop is not for you")
        enqueueing.set_options(group="acme", priority=7)
        yield
        seen.append((enqueueing.tasks, len(enqueueing.calls), len(enqueueing.handles)))

    groups: list[str | None] = []

    @app.task
    async def keep(ctx: Context, n: int) -> None:
        groups.append(ctx.group)

    @app.task
    async def drop() -> None: ...

    await keep.enqueue(1)
    await keep.enqueue_many([{"n": n} for n in range(60)])
    await asyncio.to_thread(keep.enqueue_sync, 2)
    await app.enqueue_many([keep.bind(3)])
    with pytest.raises(PermissionError, match="not for you"):
        await drop.enqueue()
    assert seen == [(["keep"], 1, 1), (["keep"], 60, 60), (["keep"], 1, 1), (["keep"], 1, 1)]
    await run_until_idle(app)
    assert groups == ["acme"] * 63


class Kept(Transport):
    """What Sentry would send, in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, object]] = []

    def capture_envelope(self, envelope: sentry_sdk.envelope.Envelope) -> None:
        if (event := envelope.get_event()) is not None:
            self.events.append(dict(event))


class CardError(Exception):
    pass


async def test_sentry_is_given_the_exception_with_its_traceback_cause_and_notes(
    app: Mainspring,
) -> None:
    """T13: on the real SDK. Every failure is told once, with whether a retry follows."""
    kept, finals = Kept(), []
    client = sentry_sdk.Client(
        "http://key@localhost/1", transport=kept, default_integrations=False, add_full_stack=False
    )

    @app.hooks.failure
    async def report(failed: FailedRun) -> None:
        finals.append((failed.run.task, failed.run.attempt, failed.is_final))
        with sentry_sdk.isolation_scope() as scope:
            scope.set_client(client)
            scope.set_tag("task", failed.run.task)
            scope.capture_exception(failed.error)

    @app.task(retry=RetryPolicy(attempts=2, first=0, most=0))
    async def charge(order: int) -> None:
        try:
            raise LookupError("no such card")
        except LookupError as error:
            failure = CardError("cannot charge")
            failure.add_note("the card of a test")
            raise failure from error

    await charge.enqueue(7)
    await run_until_idle(app)
    client.close()

    assert finals == [("charge", 1, False), ("charge", 2, True)]
    event = msgspec.json.decode(msgspec.json.encode(kept.events[1], enc_hook=str))
    assert event["tags"]["task"] == "charge"
    first, last = event["exception"]["values"]
    assert (first["type"], last["type"]) == ("LookupError", "CardError")
    assert last["value"] == "cannot charge\nthe card of a test"
    assert [f["function"] for f in last["stacktrace"]["frames"]][-1].endswith("charge")
    files = {frame["filename"] for frame in last["stacktrace"]["frames"]}
    assert not [name for name in files if "mainspring/" in name], "no frames of the engine"


async def test_failures_of_threads_steps_timeouts_and_stages_are_told_too(
    app: Mainspring,
) -> None:
    failures: list[str] = []

    @app.hooks.failure
    def broken(failed: FailedRun) -> None:
        raise OSError("the hook itself")

    @app.hooks.failure
    def report(failed: FailedRun) -> None:
        failures.append(f"{failed.run.task}: {failed.error!r:.60}")

    @app.task(retry=ONCE)
    def in_thread() -> None:
        raise ValueError("thread")

    @app.task(retry=ONCE, timeout=0.05)
    async def late() -> None:
        await asyncio.Event().wait()

    @app.task(retry=ONCE)
    async def step(n: int) -> int:
        raise KeyError("step")

    @app.process
    async def steps(n: int) -> Promise[int]:
        return step(n)

    notes = app.documents("note")

    @notes.stage(retry=ONCE)
    class Reads:
        async def process(self, note: dict[str, object], state: None) -> Update:
            raise IndexError("stage")

    await app.migrate()
    await in_thread.enqueue()
    await late.enqueue()
    await steps.start(1)
    await notes.put("1", {"text": "x"})
    await run_until_idle(app, timeout=60)

    await wait_until(lambda: len(failures) == 4)
    assert sorted(failures) == [
        "in_thread: ValueError('thread')",
        "late: TimeoutError('ran longer than its timeout of 0.05 s')",
        "note/Reads: IndexError('stage')",
        "step: KeyError('step')",
    ]


async def test_a_worker_calls_hooks_at_its_start_and_its_stop(
    app: Mainspring, told: list[str]
) -> None:
    """T13: before it takes work, and when its runs have ended; what a stop raises is logged."""

    @app.hooks.worker_start
    async def opens() -> None:
        told.append("start")

    @app.hooks.worker_stop
    def closes() -> None:
        told.append("stop")

    @app.hooks.worker_stop
    async def fails() -> None:
        raise OSError("away")

    @app.task
    async def work() -> None:
        told.append("work")

    await work.enqueue()
    await run_until_idle(app)
    assert told == ["start", "work", "stop"]


async def test_a_worker_whose_start_hook_fails_takes_no_work(app: Mainspring) -> None:
    @app.hooks.worker_start
    def fails() -> None:
        raise OSError("no licence")

    @app.task
    async def work() -> None: ...

    handle = await work.enqueue()
    with pytest.raises(RuntimeError, match=r"hook '.*fails' failed: OSError: no licence"):
        await run_until_idle(app)
    assert await handle.status() == "waiting"


def test_a_hook_of_the_wrong_form_is_refused_by_its_name() -> None:
    app = Mainspring()

    async def no_yield(run: RunInfo) -> None: ...
    async def an_async(enqueueing: Enqueueing) -> AsyncIterator[None]:
        yield

    def takes_none() -> None: ...
    def wraps_none() -> Iterator[None]:
        yield

    with pytest.raises(InvalidSetting, match="no_yield' has no yield, at which the run"):
        app.hooks.around_run(no_yield)
    with pytest.raises(InvalidSetting, match="an_async' is async, and enqueue_sync has no event"):
        app.hooks.around_enqueue(an_async)
    with pytest.raises(InvalidSetting, match=r"has a yield, and .*failure is no block"):
        app.hooks.failure(an_async)
    with pytest.raises(
        InvalidSetting, match=r"takes_none' cannot be called: .*failure is given a F"
    ):
        app.hooks.failure(takes_none)
    with pytest.raises(
        InvalidSetting, match=r"wraps_none' cannot be called: .*around_run is given a R"
    ):
        app.hooks.around_run(wraps_none)
    with pytest.raises(
        InvalidSetting, match=r"no_yield' cannot be called: .*worker_start is given not"
    ):
        app.hooks.worker_start(no_yield)
    with pytest.raises(
        AttributeError, match=r"app.hooks has no 'failed'; did you mean 'failure'\?"
    ):
        _ = app.hooks.failed  # type: ignore[attr-defined]
    with pytest.raises(InvalidSetting, match="around_run takes a generator function, got 7"):
        app.hooks.around_run(7)  # type: ignore[type-var]


async def test_a_hook_that_yields_twice_is_named(app: Mainspring) -> None:
    """It fails the run, or the call, that it is around."""

    @app.hooks.around_run
    async def twice(run: RunInfo) -> AsyncIterator[None]:
        yield
        yield

    @app.task(retry=ONCE)
    async def nothing() -> None: ...

    handle = await nothing.enqueue()
    await run_until_idle(app)
    with pytest.raises(TaskFailed, match=r"the hook '.*twice' must yield exactly once"):
        await handle.result(timeout=1)

    @app.hooks.around_enqueue
    def never(enqueueing: Enqueueing) -> Iterator[None]:
        if enqueueing is None:
            yield

    with pytest.raises(InvalidSetting, match=r"the hook '.*never' .* \(app.hooks.around_enqueue\)"):
        await nothing.enqueue()
