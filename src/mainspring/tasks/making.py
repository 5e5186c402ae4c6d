"""A task is made of a function and of what its decorator was given; whatever does not go together is
refused now, not in the worker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import cast

from mainspring.breakers.breaker import Breaker
from mainspring.declaring import as_names
from mainspring.errors import InvalidSetting, InvalidTask
from mainspring.kernel import DEFAULT_PRIORITY
from mainspring.redact import NOTHING, Redactor, as_redactor
from mainspring.retry_policy import checked_policy
from mainspring.tasks.declare.habits import setting_hint
from mainspring.tasks.declare.options import check_priority
from mainspring.tasks.declare.sealing import Sealing
from mainspring.tasks.declare.signature import Signature
from mainspring.tasks.declare.task import Enqueues, Task, TaskSettings
from mainspring.tasks.declare.unique import Unique, as_unique
from mainspring.tasks.helpers.places import check_executor
from mainspring.tasks.hiding import check_names, check_searchable
from mainspring.tasks.keep.retention import check_keep
from mainspring.tasks.run.context import Context
from mainspring.tasks.run.queue import never_run, queue_settings, schedules


def make_task(
    function: Callable[..., object],
    name: str,
    given: dict[str, object],
    enqueuer: Enqueues,
    *,
    sealing: Sealing | None = None,
    redactor: Redactor = NOTHING,
    triggered_only: Collection[str] = (),
) -> Task[..., object]:
    """The task of a function. Times in `given` are seconds."""
    check_priority(cast("int", given.get("priority", DEFAULT_PRIORITY)))
    retry = checked_policy(given.pop("retry", None))
    breaker = given.get("breaker")
    if breaker is not None and not isinstance(breaker, Breaker):
        raise InvalidSetting(f"breaker must be a Breaker, got {breaker!r}")
    searchable = as_names("searchable", cast("Iterable[str] | None", given.pop("searchable", None)))
    hidden = as_redactor(given.pop("redact", ()), result=given.pop("redact_result", False))
    _check_given(name, given, triggered_only)
    for keeping in ("keep_result", "keep_history"):
        given[keeping] = check_keep(keeping, given.get(keeping))
    unique = None if (wanted := given.pop("unique", None)) is None else as_unique(wanted)
    _check_kept(name, unique, given["keep_history"])
    settings = TaskSettings(name=name, retry=retry, searchable=searchable, unique=unique, **given)  # type: ignore[arg-type]
    signature = Signature(name, function, Context, sealing)
    signature.check_fields("searchable", searchable)
    signature.check_fields("unique", () if unique is None else tuple(unique.by))
    check_names(signature, hidden)
    signature.redact_by(hidden | redactor)
    check_searchable(signature, searchable)
    task: Task[..., object] = Task(function, settings, signature, enqueuer)
    if settings.executor is not None or settings.memory_max is not None:
        check_executor(task)
    if signature.needs and (settings.executor is not None or settings.remote):
        where = "by an actor elsewhere" if settings.remote else "in a process of its own"
        raise InvalidTask(
            f"task {name!r} depends on {next(iter(signature.needs))!r}, which its worker provides, and is "
            f"run {where}: make it inside of the function"
        )
    queue_settings(task, never_run)
    schedules(task)
    return task


def _check_kept(name: str, unique: Unique | None, keep_history: object) -> None:
    """What was done is known by its row of history."""
    within = None if unique is None else cast("float | None", unique.done_within)
    if within is not None and keep_history is not None and within > cast("float", keep_history):
        raise InvalidTask(
            f"task {name!r} is unique for {within:g} s after it was done (done_within), and keeps its "
            f"history for {keep_history:g} s: a call after that would run again; keep it as long"
        )


def _check_given(name: str, given: Mapping[str, object], triggered_only: Collection[str]) -> None:
    """Refuse settings that a task does not have, or has only with a trigger."""
    known = {*TaskSettings.__dataclass_fields__, "when", "was", "redact", "redact_result"}
    for setting in given:
        if setting in triggered_only:
            raise InvalidTask(
                f"task {name!r}: {setting}= is for reactive tasks and needs when=, a trigger"
            )
        if setting not in known:
            hint = setting_hint(setting, sorted(known))
            raise InvalidTask(f"task {name!r} has no setting {setting!r}{hint}")
