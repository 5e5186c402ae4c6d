"""Why a task runs or does not: reads what `explain` needs. Reads only, never trusts a stored verdict."""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.phrases import instant
from mainspring.reactive.decide.explain import (
    Around,
    PastCheck,
    Producer,
    ReactiveWhy,
    SetBy,
    explain,
)
from mainspring.reactive.operate.operator import PlaceInPool, ReactiveOperator, ServedTask
from mainspring.reactive.operate.states import ParamState, TaskState

_PAST = 50


async def why(operator: ReactiveOperator, task: str) -> ReactiveWhy:
    """The tree with values, verdicts, since and until, and the next fact that would change it (R17)."""
    state = (await operator.tasks(task=task))[0]
    look = await operator.look(task)
    params = [
        found for param in look.definition.params for found in await operator.params(name=param.key)
    ]
    past = await operator.evaluations(task, limit=_PAST)
    around = Around(
        set_by={p.param.key: SetBy(p.changed_at, p.changed_by, p.ahead) for p in params},
        producers=await _producers(operator, params),
        past=[PastCheck(check.at, check.leaves) for check in past],
    )
    notes = [
        *_notes(state),
        *_place(await operator.place(task)),
        *_unserved(served := await operator.served(task)),
        *_left(served),
    ]
    return explain(task, look.definition, look.view, look.now, around=around, notes=notes)


async def _producers(
    operator: ReactiveOperator, params: Iterable[ParamState]
) -> dict[str, list[Producer]]:
    names = sorted({name for param in params for name in param.producers})
    usual = await operator.usual_durations(names)
    found = {}
    for name in names:
        state = (await operator.tasks(task=name))[0]
        since = state.started_at if state.state == "running" else None
        found[name] = Producer(name, since, usual.get(name))
    return {p.param.key: [found[name] for name in p.producers] for p in params}


def _notes(state: TaskState) -> Iterable[str]:
    """What stands besides the trigger: each may keep a true one from running."""
    match state.state:
        case "retired":
            yield "retired: no living worker declares it; its seen values are kept"
        case "paused":
            yield "paused; resume it with `mainspring reactive resume`"
        case "running":
            began = "" if state.started_at is None else f" since {instant(state.started_at)}"
            yield f"running{began} ({state.kind}): {state.cause}"
        case "admitted":
            yield "ready, and waits for a worker with a free slot"
        case "backing off":
            until = "" if state.retry_at is None else f" until {instant(state.retry_at)}"
            yield f"failed {state.failures} times, backing off{until}: {_first(state.error)}"
    if state.request is not None:
        yield "a manual run was asked for"
    if state.missed_at is not None:
        yield f"missed its expectation at {instant(state.missed_at)}"
    if state.succeeded_at is not None:
        yield f"last recorded success {instant(state.succeeded_at)}"
    else:
        yield "no success was recorded yet"


def _place(place: PlaceInPool | None) -> Iterable[str]:
    """Where a firing stands that waits for a slot of its pool."""
    if place is None:
        return
    cap = "no cap" if place.cap is None else f"cap {place.cap}"
    yield (
        f"ready, number {place.ahead + 1} in pool {place.pool!r} ({cap}, {place.running} running)"
    )
    free = place.cap is not None and place.running < place.cap
    if free and place.keepers and place.kept_until is not None:
        until = instant(place.kept_until)
        names = ", ".join(place.keepers)
        yield f"slots are kept for more important tasks that {names} brings data for, until {until}"


def _unserved(served: ServedTask) -> Iterable[str]:
    """Workers that are missing: without them nothing is checked, or nothing is run."""
    if not served.scheduled:
        yield (
            f"no worker checks triggers: start one of pool {served.scheduler_pool!r} "
            f"(mainspring worker ... --pool {served.scheduler_pool})"
        )
    if not served.run and (served.scheduled or served.pool != served.scheduler_pool):
        yield (
            f"no worker runs it: start one of pool {served.pool!r} "
            f"(mainspring worker ... --pool {served.pool})"
        )


def _left(served: ServedTask) -> Iterable[str]:
    """A firing that the code of the worker which has it may not start (R12)."""
    if served.left_why is None:
        return
    left = f"not started by the worker that has it: {_first(served.left_why)}"
    if served.carried:
        yield (
            f"{left}; it starts when the workers of pool {served.pool!r} that lack it are gone (two "
            "applications need a pool each)"
        )
    else:
        yield (
            f"{left}, and none lives: start one; else the older release is declared again in some "
            "minutes, and the trigger checked afresh"
        )


def _first(error: str | None) -> str:
    return (error or "no error was stored").splitlines()[0][:200]
