"""A group: calls of tasks, and a callback when all of them have ended.

    nightly = app.group(then=report)
    handle = await nightly.options(id="night-7").start([load.bind(1), clean.bind("x")])

It is a process whose decider is written here: it calls the members, in parts of `PART` so that no
transaction is long, and gives their ends to the callback. So all that holds of processes holds of it.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Generic, Never, Protocol, TypedDict, TypeVar

import msgspec

from mainspring.db.caller import Caller
from mainspring.declaring import Seconds
from mainspring.errors import InvalidArguments, InvalidProcess
from mainspring.processes.declare.handle import ProcessHandle
from mainspring.processes.declare.process import AnyProcess, Process
from mainspring.processes.record.arguments import Callee, check_options, kind_of, without
from mainspring.processes.record.decision import ChildTask
from mainspring.processes.record.recorder import current
from mainspring.retry_policy import RetryPolicy
from mainspring.tasks.declare.promise import Promise
from mainspring.tasks.declare.task import Call, Task

R = TypeVar("R")
PART = 1_000
WHAT = "a group"


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call of a group, as it waits for the decider."""

    actor: str
    args: msgspec.Raw
    version: int = 1
    delay: float | None = None  # seconds
    at: datetime | None = None
    priority: int | None = None
    group: str | None = None

    def step(self) -> ChildTask:
        """The step of the process that it becomes."""
        return ChildTask(
            self.actor,
            bytes(self.args).decode(),
            args_version=self.version,
            delay=self.delay,
            at=self.at,
            priority=self.priority,
            group=self.group,
        )


class GroupOptions(TypedDict, total=False):
    """Settings of a process that a group has too."""

    was: Iterable[str]
    pool: str | None
    priority: int
    retry: RetryPolicy | None
    process_timeout: Seconds
    idle_timeout: Seconds


class DeclaresProcess(Protocol):
    """How an application declares a decider."""

    def __call__(self, function: Callable[..., object], /, **settings: object) -> AnyProcess: ...


class CallGroup(Generic[R]):
    """Calls of tasks that end with a callback. `start` starts one.

    The type of the callback's first parameter says what it waits for. `list[Outcome[T]]`: until every call
    has ended, done or failed or called off. `list[T]`: until every call is done; one that fails for good is
    parked, and when it was restarted and is done, the group goes on.
    """

    def __init__(self, process: AnyProcess, then: Callee, version_of: Callable[[str], int]) -> None:
        self.process = process
        self._then = then
        self._version_of = version_of

    def __repr__(self) -> str:
        return f"<group {self.process.name}>"

    def options(
        self,
        *,
        id: str | None = None,
        if_taken: str | None = None,
        attrs: dict[str, object] | None = None,
        at: datetime | None = None,
        delay: Seconds | None = None,
        priority: int | None = None,
        on: Caller | None = None,
        **unknown: Never,
    ) -> CallGroup[R]:
        """The same group with options for what is started through it: those of a process."""
        process = self.process.options(
            id=id,
            if_taken=if_taken,
            attrs=attrs,
            at=at,
            delay=delay,
            priority=priority,
            on=on,
            **unknown,
        )
        return CallGroup(process, self._then, self._version_of)

    async def start(self, calls: Iterable[Call[object]], /, **named: object) -> ProcessHandle[R]:
        """Start the calls; when this returns they are committed (or part of your transaction).

        `named`: further arguments of the callback. The handle's result is what the callback returns.
        """
        return await self.process.start(self._members(calls), self._more(named))

    def start_sync(self, calls: Iterable[Call[object]], /, **named: object) -> ProcessHandle[R]:
        """The same for code that is not async."""
        return self.process.start_sync(self._members(calls), self._more(named))

    def _members(self, calls: Iterable[Call[object]]) -> list[Member]:
        if isinstance(calls, Call):
            raise InvalidArguments(
                f"group {self.process.name!r} is started with a list of calls, got one call of "
                f"{calls.task.name!r}: put it into a list"
            )
        return [self._member(number, call) for number, call in enumerate(calls)]

    def _member(self, number: int, call: Call[object]) -> Member:
        if not isinstance(call, Call):
            raise InvalidArguments(
                f"call {number} of group {self.process.name!r} must be made by task.bind(...), got "
                f"{type(call).__name__}; a group of processes is a process of its own"
            )
        name, options = call.task.name, call.options
        check_options(name, options)
        clear = call.task.signature.opened(call.payload.decode())  # the process encrypts all of it
        return Member(
            name,
            msgspec.Raw(clear.encode()),
            self._version_of(name),
            None if options.delay is None else options.delay.total_seconds(),
            options.at,
            options.priority,
            options.group,
        )

    def _more(self, named: dict[str, object]) -> msgspec.Raw:
        rest = without(self._then.signature, _first(self._then))
        return msgspec.Raw(rest.encode((), named))


def declare_group(
    then: object,
    name: str | None,
    declare: DeclaresProcess,
    version_of: Callable[[str], int],
    settings: GroupOptions,
) -> CallGroup[object]:
    """A group with that callback, a task or a process."""
    if not isinstance(then, Task | Process):
        raise InvalidProcess(
            f"then= must be a task or a process, got {then!r}; declare it with @app.task"
        )
    kind = then.signature.types.get(_first(then)) if then.signature.fields else None
    if typing.get_origin(kind) is not list or kind_of(kind) == "handle":
        raise InvalidProcess(
            f"the callback {then.name!r} of a group must take the ends of its calls as a list first: "
            f"def {then.name}(ends: list[Outcome[int]]), or list[int] to wait until all are done"
        )
    made: list[AnyProcess] = []
    named = f"{then.name}.group" if name is None else name
    made.append(declare(_decider(then, kind_of(kind), made), name=named, **settings))
    return CallGroup(made[0], then, version_of)


def _first(then: Callee) -> str:
    return then.signature.fields[0]


def _decider(
    then: Task[..., object] | AnyProcess, kind: str, itself: Sequence[AnyProcess]
) -> Callable[..., object]:
    """The function that calls the members and then the callback, or a part of the members alone."""

    def decide(members: list[Member], more: msgspec.Raw, part: bool = False) -> Promise[object]:
        records = current(WHAT)
        if part:
            return records.builtin(
                "@gather", {}, [records.written(m.step()) for m in members], kind
            )
        ends: object = []
        if len(members) <= PART:
            ends = [records.written(member.step()) for member in members]
        else:
            parts = [records.call(itself[0], (some, more, True), {}) for some in _parts(members)]
            ends = records.builtin("@concat", {}, parts)
        return records.call(then, (ends,), msgspec.json.decode(more, type=dict[str, object]))

    hints = typing.get_type_hints(then.function)
    del decide.__annotations__["return"]
    decide.__annotations__.update({"return": hints["return"]} if "return" in hints else {})
    return decide


def _parts(members: Sequence[Member]) -> Iterable[Sequence[Member]]:
    return [members[start : start + PART] for start in range(0, len(members), PART)]
