"""Schedules of an application: declared in code, or made, changed, paused and removed while it runs.

app.schedule(report.bind(region="eu"), cron="0 4 * * *", zone="Europe/Berlin")

await app.schedules.add("tenant-7", report.bind(region="us"), cron="*/10 * * * *")
await app.schedules.pause("tenant-7", reason="unpaid", until=tomorrow)
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol, Unpack

import msgspec

from mainspring.declaring import check_settings
from mainspring.errors import InvalidSetting
from mainspring.jobs import START_QUEUE, Schedule
from mainspring.jobs.schedule import DeclaredSchedules, ScheduleSettings
from mainspring.kernel import own_queue
from mainspring.processes.declare.process import ProcessCall
from mainspring.processes.registry import Registry
from mainspring.processes.scheduled import are_same, start_payload
from mainspring.tasks.declare.options import CallOptions
from mainspring.tasks.declare.task import Call, Task, priority_of
from mainspring.tasks.run.queue import schedules

if TYPE_CHECKING:
    from mainspring.jobs.schedule import Recurring
    from mainspring.operator import Operator

AnyCall = Call[object] | ProcessCall
_OPTIONS = ("priority", "group")  # of a call's, those that a schedule keeps


class SchedulingHost(Protocol):
    """What has schedules: the application."""

    tasks: dict[str, Task[..., object]]
    registry: Registry

    @property
    def operator(self) -> Operator: ...


class Schedules:
    """The schedules of an application. Orders are kept in the database with who gave them (`source`)."""

    def __init__(self, host: SchedulingHost) -> None:
        self._host = host
        self._declared: dict[str, Schedule] = {}

    def declared(self) -> DeclaredSchedules:
        """What the code declares, and all that it could start."""
        registry = self._host.registry
        targets = {*self._host.tasks, *registry.types}
        found = [s for task in self._host.tasks.values() for s in schedules(task)]
        found += [s for s in self._declared.values() if s.target in targets]
        return DeclaredSchedules(found, targets, registry.former)

    def declare(self, name: str | None, call: AnyCall, settings: ScheduleSettings) -> None:
        """A schedule that each start of a worker makes true."""
        name = _target(call) if name is None else name
        taken = {s.name for s in self.declared()[0]}
        if name in taken:
            raise InvalidSetting(
                f"a schedule is named {name!r} already; give this one another name="
            )
        self._declared[name] = self._schedule(name, call, settings)

    def _schedule(self, name: str, call: AnyCall, settings: ScheduleSettings) -> Schedule:
        target, options = _target(call), _options(call)
        check_settings(f"schedule {name!r}", settings, _SETTINGS, InvalidSetting)
        fields = call.process.signature if isinstance(call, ProcessCall) else call.task.signature
        if (tick_argument := settings.get("tick_argument")) is not None:
            fields.check_fields("tick_argument", [tick_argument])
        if isinstance(call, ProcessCall):
            pool = call.process.settings.pool
            given = call.options.priority
            priority = call.process.settings.priority if given is None else given
            queue = own_queue(START_QUEUE, pool)
        else:
            pool, queue = call.task.settings.pool, target
            priority = priority_of(call.task, options)
        made: ScheduleSettings = {
            "payload": self._payload(call, tick_argument),
            "priority": priority,
            "group": options.group,
        }
        made.update(settings)
        same, sealing = None, fields.sealing
        if sealing is not None:
            is_start = isinstance(call, ProcessCall)
            same = partial(are_same, sealing) if is_start else sealing.are_same
        return Schedule(
            name=name,
            queue=queue,
            target=target,
            pool=pool,
            are_same=same,
            **made,
        )

    def _payload(self, call: AnyCall, tick_argument: str | None) -> str:
        if isinstance(call, ProcessCall):
            version = self._host.registry.versions.of(call.process.name)
            return start_payload(call.process.name, call.args, call.options.attrs, version)
        return _without(call.task, call.payload.decode(), tick_argument)

    # -- at run time

    async def add(
        self,
        name: str,
        call: AnyCall,
        *,
        cron: str,
        zone: str = "UTC",
        catch_up: str = "one",
        catch_up_max: int = 100,
        tick_argument: str | None = None,
        source: str = "",
    ) -> None:
        """Make a schedule: `call` is `task.bind(...)` or `process.bind(...)`; see `app.schedule`."""
        settings: ScheduleSettings = {
            "cron": cron,
            "zone": zone,
            "catch_up": catch_up,
            "catch_up_max": catch_up_max,
            "tick_argument": tick_argument,
        }
        await self._host.operator.add_schedule(self._schedule(name, call, settings), source=source)

    async def change(
        self,
        name: str,
        call: AnyCall | None = None,
        *,
        source: str = "",
        **settings: Unpack[ScheduleSettings],
    ) -> None:
        """Change what is named of a schedule: cron, zone, catch_up, catch_up_max, tick_argument, and by
        `call` the arguments, priority and group of the same task or process."""
        check_settings(f"schedule {name!r}", settings, _SETTINGS, InvalidSetting)
        wishes = settings.copy()
        if call is not None:
            there = await self._host.operator.schedule(name)
            if there.target != _target(call):
                raise InvalidSetting(
                    f"schedule {name!r} starts {there.target!r}, not {_target(call)!r}; remove it and "
                    "add another"
                )
            made = self._schedule(
                name,
                call,
                {
                    "cron": settings.get("cron", there.cron),
                    "tick_argument": settings.get("tick_argument", there.tick_argument),
                },
            )
            wishes["payload"], wishes["priority"] = made.payload, made.priority
            wishes["group"] = made.group
        elif tick_argument := settings.get("tick_argument"):
            there = await self._host.operator.stored_schedule(name)
            if (task := self._host.tasks.get(there.target)) and task.signature.sealing:
                payload = msgspec.json.encode(there.payload).decode()
                wishes["payload"] = _without(task, payload, tick_argument)
        await self._host.operator.change_schedule(name, wishes, source=source)

    async def pause(
        self,
        name: str,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        source: str = "",
    ) -> None:
        """Make no tick until it is resumed, or until a time."""
        await self._host.operator.pause_recurring(name, reason=reason, until=until, source=source)

    async def resume(self, name: str, *, catch_up: str = "skip", source: str = "") -> None:
        """Go on. Ticks of the pause are skipped, unless `catch_up` says to make "one" or "all"."""
        await self._host.operator.resume_recurring(name, catch_up=catch_up, source=source)

    async def remove(self, name: str, *, source: str = "") -> None:
        """Remove a schedule. One that the code declares is back at the next start of a worker."""
        await self._host.operator.remove_recurring(name, source=source)

    async def get(self, name: str) -> Recurring:
        """A schedule as it stands; raises NotFound."""
        return await self._host.operator.schedule(name)

    async def ticks(self, name: str, count: int = 5) -> list[datetime]:
        """The next ticks of a schedule."""
        return await self._host.operator.next_ticks(name, count)

    async def list(self) -> list[Recurring]:
        """All schedules, by name."""
        return await self._host.operator.recurring()


_SETTINGS = ("cron", "zone", "catch_up", "catch_up_max", "tick_argument")


def _target(call: AnyCall) -> str:
    if isinstance(call, ProcessCall):
        return call.process.name
    if isinstance(call, Call):
        return call.task.name
    raise InvalidSetting(
        f"a schedule takes a call made with task.bind(...) or process.bind(...), got {call!r}"
    )


def _without(task: Task[..., object], payload: str, tick_argument: str | None) -> str:
    """The arguments of a call. If they are encrypted, without the one that gets each tick's time: what is
    inside would win."""
    sealing = task.signature.sealing
    if sealing is None or tick_argument is None:
        return payload
    return sealing.without(payload, tick_argument)


def _options(call: AnyCall) -> CallOptions:
    """The options of a call, of which a schedule keeps few."""
    options, plain = call.options, type(call.options)()
    for name in options.__dataclass_fields__:
        kept = name in _OPTIONS or (name == "attrs" and isinstance(call, ProcessCall))
        if not kept and getattr(options, name) != getattr(plain, name):
            raise InvalidSetting(
                f"a schedule keeps {', '.join(_OPTIONS)} of a call's options; {name}= is no part of one"
            )
    return options
