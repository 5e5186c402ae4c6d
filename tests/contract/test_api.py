"""The public API is frozen: a change of these lists is a decision, not an accident."""

from __future__ import annotations

import inspect

import mainspring
import mainspring.errors
import mainspring.reactive
import mainspring.testing
from mainspring.crash_points import STEPS


def test_the_names_of_the_package() -> None:
    assert mainspring.__all__ == [
        "AlreadyEnqueued",
        "Breaker",
        "CallGroup",
        "Change",
        "Codec",
        "Context",
        "Crawl",
        "Dao",
        "DatabaseUnavailable",
        "Failure",
        "Fenced",
        "First",
        "Handle",
        "InvalidArguments",
        "Kind",
        "Mainspring",
        "MainspringError",
        "NotDone",
        "Outcome",
        "OutcomeUnknown",
        "Process",
        "ProcessFilter",
        "ProcessHandle",
        "ProcessView",
        "Promise",
        "Question",
        "ReactiveRun",
        "ResultTimeout",
        "RetryAfter",
        "RetryPolicy",
        "Saved",
        "Signal",
        "Sink",
        "Task",
        "TaskFailed",
        "Unique",
        "Untouched",
        "Update",
        "call_off",
        "choose",
        "every",
        "first_of",
        "first_success",
        "for_each",
        "gather",
        "lock",
        "now",
        "one_by_one",
        "repeat_until",
        "scope",
        "set_attrs",
        "sleep",
        "some_of",
    ]


def test_the_names_of_the_test_kit() -> None:
    assert mainspring.testing.__all__ == [
        "STEPS",
        "Clock",
        "Decided",
        "InlineCall",
        "Missed",
        "NotAtRest",
        "NotConfluent",
        "Order",
        "ParamSet",
        "Ran",
        "ReactiveSimulation",
        "Simulation",
        "TestServer",
        "Timeline",
        "TimerLost",
        "WaitingCall",
        "WorkerProcess",
        "assert_enqueued",
        "check_confluence",
        "check_deletes",
        "check_early_visits",
        "check_stages",
        "check_unasked",
        "decide",
        "die_at",
        "enqueued",
        "failed_call",
        "given",
        "inline",
        "install",
        "orders",
        "parked_call",
        "placed",
        "read_changes",
        "replay",
        "run_until_idle",
        "run_until_idle_sync",
        "wait_until",
        "watch",
    ]


def test_the_names_for_reactive_tasks() -> None:
    classes = {name for name in mainspring.reactive.__all__ if name[0].isupper()}
    words = set(mainspring.reactive.__all__) - classes

    assert classes == {
        "Chunk",
        "ChunkDelay",
        "ChunkDelta",
        "ChunkRefDelay",
        "Delay",
        "Delta",
        "Param",
        "ReactiveRun",
        "ReactiveTask",
        "RefDelay",
        "Trigger",
    }
    assert words == {
        "all_arrived",
        "all_of",
        "any_arrived",
        "any_of",
        "caught_up",
        "cron",
        "fresh",
        "grown_by",
        "in_this_chunk",
        "new_chunk",
        "new_data",
        "new_day",
        "new_hour",
        "new_month",
        "new_week",
    }


def test_every_public_name_exists_and_is_documented() -> None:
    for module in (mainspring, mainspring.testing):
        assert module.__doc__
        for name in module.__all__:
            value = getattr(module, name)
            assert isinstance(value, tuple) or inspect.getdoc(value), name


def test_every_error_has_a_code_of_its_own_and_a_docstring() -> None:
    errors = [
        value
        for value in vars(mainspring.errors).values()
        if isinstance(value, type) and issubclass(value, mainspring.MainspringError)
    ]
    codes = [error.code for error in errors]

    assert len(codes) == len(set(codes))
    assert all(error.__doc__ for error in errors)
    assert "error" in codes


def test_the_methods_of_the_application() -> None:
    public = {name for name in dir(mainspring.Mainspring) if not name.startswith("_")}

    assert public >= {
        "close",
        "close_sync",
        "enqueue",
        "enqueue_many",
        "migrate",
        "migrate_sync",
        "process",
        "run",
        "run_worker",
        "signal",
        "task",
        "upcast",
        "worker",
    }


def test_the_options_of_a_task() -> None:
    parameters = list(inspect.signature(mainspring.Task.options).parameters)

    assert parameters == [
        "self",
        "at",
        "delay",
        "priority",
        "group",
        "key",
        "expires_at",
        "unique",
        "on",
        "unknown",  # none: refused with the nearest that there is
    ]


def test_the_named_steps_of_a_worker() -> None:
    """The crash tests kill a worker at each of them."""
    assert STEPS == (
        "pool.joined",
        "leases.taken",
        "page.read",
        "run.started",
        "run.ended",
        "hold.writing",
        "hold.written",
        "settle.sending",
        "settle.answered",
        "operation.stepping",
        "operation.stepped",
        "transaction.settled",
        "transaction.committed",
        "relay.sending",
        "relay.sent",
        "relay.acknowledged",
        "shards.giving",
        "shards.given",
        "recut.locking",
        "recut.workers_read",
        "recut.written",
        "dead.declared",
        "visits.recovered",
        "pool.leaving",
        "batch.writing",
        "batch.fenced",
        "batch.written",
        "batch.committed",
        "pull.held",
        "answers.committed",
    )
