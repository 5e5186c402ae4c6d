"""Declaring: objects of the data platform and their params, and tasks that react to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from mainspring.errors import InvalidSetting, UnknownParam
from mainspring.kernel.retry import RetryPolicy
from mainspring.reactive.checks import Declared, check_task
from mainspring.reactive.durations import check_duration
from mainspring.reactive.gates import make_gates
from mainspring.reactive.task import BACKOFF, Asker, ReactiveSettings, ReactiveTask
from mainspring.reactive.triggers import check_trigger
from mainspring.reactive.values import Kind, Param

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
    "searchable",
    "hold_after",
    "crash_limit",
)


class Data:
    """An object of the data platform: a table, a dictionary. Made by `app.data("dwh.orders")`."""

    def __init__(self, name: str, known: dict[str, Param]) -> None:
        self.name = name
        self._known = known

    def __repr__(self) -> str:
        return f"<data {self.name}>"

    def param(self, name: str, *, kind: Kind = "instant", external: bool = False) -> Param:
        """A param of this object: an instant, an integer, or a version (which has no order)."""
        param = Param(self.name, name, kind, external)
        known = self._known.setdefault(param.key, param)
        if known.kind != param.kind:
            raise InvalidSetting(
                f"param {param.key!r} is declared as {known.kind!r} and as {param.kind!r}; declare it "
                "once, or give one of them another name"
            )
        return known


def find_param(known: dict[str, Param], given: Param | str) -> Param:
    """A param, or the one of that name; an error that names the nearest otherwise."""
    if isinstance(given, Param):
        return given
    try:
        return known[given]
    except (KeyError, TypeError):
        raise UnknownParam(str(given), known) from None


def declare(
    function: Callable[..., Any], name: str, given: dict[str, Any], asker: Asker
) -> ReactiveTask:
    """A reactive task of what `@app.task(when=...)` was given."""
    for setting in _ENQUEUED_ONLY:
        if given.pop(setting, None) is not None:
            raise InvalidSetting(
                f"task {name!r} is started by its trigger: {setting}= is for tasks that are enqueued"
            )
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
        **given,
    )
    task = ReactiveTask(function, settings, asker)
    _warn(settings, within)
    return task


def _products(name: str, given: Any) -> tuple[Param, ...]:
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
