"""Declaring: objects of the data platform and their params, and tasks that react to them."""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Literal, overload

from mainspring.declaring import as_names, check_settings
from mainspring.errors import InvalidSetting, InvalidTask
from mainspring.reactive.decide.lint import Declared, check_task
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.declare.task import BACKOFF, Asker, ReactiveSettings, ReactiveTask
from mainspring.reactive.model.durations import check_duration
from mainspring.reactive.model.gates import make_gates
from mainspring.reactive.model.triggers import check_trigger
from mainspring.reactive.model.values import AnyParam, Kind, Param
from mainspring.retry_policy import RetryPolicy

log = logging.getLogger("mainspring")
_GATES = ("not_before", "debounce", "debounce_max", "min_interval")
# What a task that is enqueued has and one that is started by its trigger has not.
_ENQUEUED_ONLY = (
    "cron",
    "zone",
    "rate",
    "concurrency",
    "group_rate",
    "group_concurrency",
    "burst",
    "group_burst",
    "breaker",
    "searchable",
    "hold_after",
    "crash_limit",
    "work_timeout",
    "accept",
    "on_work_timeout",
    "work_timeout_limit",
    "task_timeout",
    "on_task_timeout",
    "remote",
)
# And the other way round: what needs a trigger.
REACTIVE_ONLY = (
    *_GATES,
    "produces",
    "expect_within",
    "first_run",
    "on_rewind",
)
_KNOWN = (*REACTIVE_ONLY, "when", "name", "was", "nested", "pool", "priority", "retry", "timeout")


class Data:
    """An object of the data platform: a table, a dictionary. Made by `app.data("dwh.orders")`."""

    def __init__(self, name: str, known: dict[str, AnyParam]) -> None:
        self.name = name
        self._known = known

    def __repr__(self) -> str:
        return f"<data {self.name}>"

    @overload
    def param(
        self, name: str, *, kind: Literal["instant"] = "instant", external: bool = False
    ) -> Param[datetime]: ...
    @overload
    def param(
        self, name: str, *, kind: Literal["integer"], external: bool = False
    ) -> Param[int]: ...
    @overload
    def param(
        self, name: str, *, kind: Literal["version"], external: bool = False
    ) -> Param[str]: ...
    def param(self, name: str, *, kind: Kind = "instant", external: bool = False) -> AnyParam:
        """A param of this object: an instant, an integer, or a version (which has no order)."""
        param: AnyParam = Param(self.name, name, kind, external)
        known = self._known.setdefault(param.key, param)
        if known.kind != param.kind:
            raise InvalidSetting(
                f"param {param.key!r} is declared as {known.kind!r} and as {param.kind!r}; declare it "
                "once, or give one of them another name"
            )
        return known


def declare(
    function: Callable[..., object], name: str, given: dict[str, Any], asker: Asker
) -> ReactiveTask:
    """A reactive task of what `@app.task(when=...)` was given."""
    for setting in _ENQUEUED_ONLY:
        if given.pop(setting, None) is not None:
            raise InvalidSetting(
                f"task {name!r} is started by its trigger: {setting}= is for tasks that are enqueued"
            )
    if "renamed_from" in given:
        raise InvalidSetting(f"task {name!r}: renamed_from= is written was= now, a list of names")
    check_settings(f"task {name!r}", given, _KNOWN)
    gates = make_gates(**{gate: given.pop(gate, None) for gate in _GATES})
    nested = given.pop("nested", True)
    expect = given.pop("expect_within", None)
    within = None if expect is None else check_duration(expect, name="expect_within")
    backoff = given.pop("retry", None) or BACKOFF
    if not isinstance(backoff, RetryPolicy):
        raise InvalidSetting(f"retry must be a RetryPolicy, got {backoff!r}")
    settings = ReactiveSettings(
        name=name,
        when=check_trigger(given.pop("when"), nested=nested),
        produces=_products(name, given.pop("produces", None)),
        gates=gates,
        expect_within=within,
        backoff=backoff,
        was=as_names("was", given.pop("was", None)),
        **given,
    )
    task = ReactiveTask(function, settings, asker)
    _check_run(task)
    _warn(settings, within)
    return task


def _check_run(task: ReactiveTask) -> None:
    """A parameter that is meant for something else than the run would get the run all the same."""
    if task.takes_run is None:
        return
    taken = inspect.signature(task.function).parameters[task.takes_run]
    if taken.annotation is taken.empty and taken.name != "run":
        raise InvalidTask(
            f"task {task.name!r} is started by its trigger, which gives it its run and nothing else; "
            f"if its parameter {taken.name!r} is the run say so ({taken.name}: ReactiveRun), "
            "else give it a default"
        )
    function = task.function if inspect.isroutine(task.function) else type(task.function).__call__
    try:
        kind = typing.get_type_hints(function).get(task.takes_run, Any)
    except (NameError, TypeError):
        return  # it names what is imported for type checkers only
    is_run = kind is Any or not isinstance(kind, type) or issubclass(ReactiveRun, kind)
    if not is_run and not getattr(kind, "_is_protocol", False):
        raise InvalidTask(
            f"task {task.name!r} is started by its trigger, which gives it its run and nothing else; "
            f"its parameter {task.takes_run!r} is a {kind.__name__}: give it a default, or take the "
            "run (run: ReactiveRun)"
        )


def _products(name: str, given: object) -> tuple[AnyParam, ...]:
    if given is None:
        return ()
    if isinstance(given, Param) or not isinstance(given, Iterable):
        raise InvalidSetting(f"produces of task {name!r} is a list of params, got {given!r}")
    return tuple(given)


def _warn(settings: ReactiveSettings, within: timedelta | None) -> None:
    """What the static checks have to say is said when the task is declared (R15)."""
    declared = Declared(settings.name, settings.when, settings.produces, within)
    for finding in check_task(declared):
        log.warning("reactive.check", extra={"task": settings.name, "finding": str(finding)})
