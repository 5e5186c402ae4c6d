"""What an application knows of processes, and how it talks to the database about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

import msgspec

from mainspring.db.caller import Caller, Verb, caller_tx, caller_tx_sync
from mainspring.db.database import Database
from mainspring.db.pool import AsyncPool, SyncPool
from mainspring.db.shared import SharedLine
from mainspring.db.sql import Steps
from mainspring.db.tx import SyncTx
from mainspring.declaring import as_names, check_settings, in_seconds, name_of
from mainspring.errors import (
    DuplicateTask,
    InvalidProcess,
    InvalidSetting,
    UnknownProcess,
    UnknownSignal,
)
from mainspring.kernel import DEFAULT_POOL, DEFAULT_PRIORITY, register_queues
from mainspring.processes.commit.signals import send_steps
from mainspring.processes.commit.start import Started, insert_process, start_steps
from mainspring.processes.commit.visits import NewVisit, insert_steps
from mainspring.processes.declare.decider_api import Signal
from mainspring.processes.declare.handle import CancelPart, Found, ProcessHandle, Sent
from mainspring.processes.declare.process import (
    AnyProcess,
    Process,
    ProcessSettings,
    ProcessSignature,
    StartOptions,
)
from mainspring.processes.declare.question import FoundAnswer, ProcessView, Question
from mainspring.processes.declare.versions import Versions
from mainspring.processes.looking import ProcessOutcome, answer_steps, found_of, view_steps
from mainspring.processes.operate.settings import register
from mainspring.processes.remote.remote import Remote
from mainspring.processes.statements import SQL
from mainspring.processes.structural.request import (
    part_of,
    request_call_off,
    request_cancel,
    request_steps,
)
from mainspring.retry_policy import checked_policy
from mainspring.tasks.declare.options import check_priority
from mainspring.tasks.declare.sealing import Sealing
from mainspring.tasks.declare.task import Task
from mainspring.tasks.run.context import Context
from mainspring.tasks.run.queue import never_run, queue_settings

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")
START, SIGNAL, CANCEL = "start", "signal", "cancel"


class Application(Protocol):
    """What the registry needs of the application."""

    tasks: dict[str, Task[Any, Any]]
    sealing: Sealing | None

    async def database(self) -> Database: ...
    def database_sync(self) -> Database: ...
    async def pool(self) -> AsyncPool: ...
    def sync_pool(self) -> SyncPool: ...


class Registry:
    """The process types, signals and versions of an application."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self.types: dict[str, AnyProcess] = {}
        self.signals: dict[str, Signal[Any]] = {}
        self.versions = Versions()
        self.former: dict[str, str] = {}  # former name of an actor -> its name
        self.remote = Remote(self)

    @property
    def tasks(self) -> dict[str, Task[Any, Any]]:
        return self._app.tasks

    @property
    def sealing(self) -> Sealing | None:
        """What encrypts the values of its processes."""
        return self._app.sealing

    async def database(self) -> Database:
        return await self._app.database()

    def database_sync(self) -> Database:
        return self._app.database_sync()

    # -- declaring

    def declare(self, function: Callable[..., object], given: dict[str, Any]) -> AnyProcess:
        """Make a function a process type."""
        if not callable(function):
            raise InvalidProcess(f"a process must be a function, got {function!r}")
        name = name_of(given, function, InvalidProcess)
        in_seconds(given)
        known = self.types.get(name)
        if name in self._app.tasks or (known is not None and known.function is not function):
            raise DuplicateTask(
                f"{name!r} is declared twice, as a task or process: both would have one queue; "
                "give one of them another name"
            )
        check_priority(given.get("priority", DEFAULT_PRIORITY))
        if "aliases" in given:
            raise InvalidProcess(f"process {name!r}: aliases= is written was= now")
        was = as_names("was", given.pop("was", None))
        retry = checked_policy(given.pop("retry", None))
        fields = ProcessSettings.__dataclass_fields__
        check_settings(f"process {name!r}", given, fields, InvalidProcess)
        searchable = as_names("searchable", given.pop("searchable", None))
        settings = ProcessSettings(name=name, retry=retry, searchable=searchable, **given)
        signature = ProcessSignature(name, function, Context, self.sealing)
        process: AnyProcess = Process(function, settings, signature, self)
        settings.queue(never_run)  # refuses what is out of range now, not in the worker
        self.types[name] = process
        for former in was:
            self.add_former(former, name)
        return process

    def declare_signal(self, name: str, kind: type[T]) -> Signal[T]:
        """Make a signal known; the same name and type again is the same signal."""
        known = self.signals.get(name)
        if known is not None and known.kind != kind:
            raise InvalidSetting(
                f"signal {name!r} is declared twice, with {known.kind!r} and {kind!r}; "
                "one signal has one type"
            )
        if known is None:
            known = self.signals[name] = Signal(name, kind)
        return known

    def declare_question(self, name: str, kind: type[T], answers: type[A]) -> Question[T, A]:
        """Make a question known; the same name and types again is the same question."""
        known = self.signals.get(name)
        if isinstance(known, Question) and (known.kind, known.answers) == (kind, answers):
            return known
        if known is not None:
            raise InvalidSetting(
                f"question {name!r} is declared twice, or as a signal too: one name has one meaning"
            )
        made = self.signals[name] = Question(name, kind, answers)
        return made

    def add_former(self, former: str, name: str) -> None:
        """Serve what was enqueued or recorded under a former name of a task or a process."""
        if former in self.types or former in self._app.tasks:
            raise DuplicateTask(
                f"was= of {name!r} names {former!r}, which is declared itself: a former name is one that "
                "is gone"
            )
        if self.former.get(former, name) != name:
            raise DuplicateTask(
                f"was= of {name!r} names {former!r}, which was {self.former[former]!r} before"
            )
        self.former[former] = name

    def find(self, name: str) -> AnyProcess:
        """The process type of that name; an error that names the nearest otherwise."""
        try:
            return self.types[self.former.get(name, name)]
        except KeyError:
            raise UnknownProcess(name, self.types) from None

    # -- running

    async def sync(self, database: Database, line: SharedLine) -> None:
        """Make the settings of the process types known."""
        declared = [
            (
                process.name,
                {
                    "process_timeout": process.settings.process_timeout,
                    "idle_timeout": process.settings.idle_timeout,
                    **_pool_of(process),
                },
            )
            for process in self.types.values()
        ]
        async with line.use() as connection, connection.atomic():
            await register(connection, declared)
            remote = [t for t in self._app.tasks.values() if t.settings.remote]
            queues = [queue_settings(task, never_run) for task in remote]
            await register_queues(connection, queues, update=True)

    # -- starting and looking up

    async def start_process(
        self, process: Process[P, R], args: str, options: StartOptions
    ) -> ProcessHandle[R]:
        database = await self._app.database()
        steps = self._start(process, args, options, database.shard_count)
        return self._started(process, await self._run_on(options.on, steps, START))

    def start_process_sync(
        self, process: Process[P, R], args: str, options: StartOptions
    ) -> ProcessHandle[R]:
        steps = self._start(process, args, options, self._app.database_sync().shard_count)
        return self._started(process, self._run_on_sync(options.on, steps, START))

    async def start_processes(
        self,
        process: Process[P, R],
        starts: Sequence[tuple[str | None, str]],
        options: StartOptions,
    ) -> list[ProcessHandle[R]]:
        database = await self._app.database()
        steps = self._start_many(process, starts, options, database.shard_count)
        found = await self._run_on(options.on, steps, START)
        return [self._started(process, one) for one in found]

    def start_processes_sync(
        self,
        process: Process[P, R],
        starts: Sequence[tuple[str | None, str]],
        options: StartOptions,
    ) -> list[ProcessHandle[R]]:
        shard_count = self._app.database_sync().shard_count
        steps = self._start_many(process, starts, options, shard_count)
        return [self._started(process, one) for one in self._run_on_sync(options.on, steps, START)]

    def _start_many(
        self,
        process: Process[P, R],
        starts: Sequence[tuple[str | None, str]],
        options: StartOptions,
        shard_count: int,
    ) -> Steps[list[Started]]:
        """Ids and arguments of each; their visits are inserted together."""
        found: list[Started] = []
        visits: list[NewVisit] = []
        for id, args in starts:
            started, more = yield from insert_process(
                process.name,
                id,
                args,
                attrs=msgspec.json.encode(options.attrs or {}).decode(),
                args_version=self.versions.of(process.name),
                pool=process.settings.pool,
                refuse_taken=options.if_taken == "refuse",
                begin=process.begin_of(options),
                sealing=self.sealing,
            )
            found.append(started)
            visits += more
        yield from insert_steps(visits, shard_count)
        return found

    def _start(
        self, process: Process[P, R], args: str, options: StartOptions, shard_count: int
    ) -> Steps[Started]:
        return start_steps(
            process.name,
            options.id,
            args,
            shard_count=shard_count,
            attrs=msgspec.json.encode(options.attrs or {}).decode(),
            args_version=self.versions.of(process.name),
            pool=process.settings.pool,
            refuse_taken=options.if_taken == "refuse",
            begin=process.begin_of(options),
            sealing=self.sealing,
        )

    def _started(self, process: Process[P, R], started: Started) -> ProcessHandle[R]:
        return ProcessHandle(process.name, started.id, started.is_new, self)

    async def look_up_process(self, type: str, id: str) -> Found:
        pool = await self._app.pool()
        async with pool.connection() as connection:
            found = await connection.first(SQL["read_process"], ProcessOutcome, id=id)
        return self._found(type, found)

    def look_up_process_sync(self, type: str, id: str) -> Found:
        with self._app.sync_pool().connection() as connection:
            found = SyncTx(connection).first(SQL["read_process"], ProcessOutcome, id=id)
        return self._found(type, found)

    async def send_signal(self, process_id: str, sent: Sent, on: Caller | None) -> bool:
        database = await self._app.database()
        return await self._run_on(on, self._send(process_id, sent, database.shard_count), SIGNAL)

    def send_signal_sync(self, process_id: str, sent: Sent, on: Caller | None) -> bool:
        shard_count = self._app.database_sync().shard_count
        return self._run_on_sync(on, self._send(process_id, sent, shard_count), SIGNAL)

    def _send(self, process_id: str, sent: Sent, shard_count: int) -> Steps[bool]:
        signal = sent.signal if isinstance(sent.signal, Signal) else self.find_signal(sent.signal)
        return send_steps(
            process_id,
            signal.name,
            self.stored(signal.encode(sent.payload)),
            shard_count=shard_count,
            id=sent.id,
            sent_by=sent.sent_by,
        )

    def stored(self, text: str) -> str:
        """A payload as it is stored."""
        return text if self.sealing is None else self.sealing.result(text)

    async def look_up_answer(self, process_id: str, name: str, id: str) -> FoundAnswer:
        pool = await self._app.pool()
        async with pool.connection() as connection:
            return await connection.follow(answer_steps(process_id, name, id, self.sealing))

    def look_up_answer_sync(self, process_id: str, name: str, id: str) -> FoundAnswer:
        return self.run_steps_sync(answer_steps(process_id, name, id, self.sealing))

    async def view_process(self, process_id: str) -> ProcessView:
        pool = await self._app.pool()
        async with pool.connection() as connection:
            return await connection.follow(view_steps(process_id))

    def view_process_sync(self, process_id: str) -> ProcessView:
        return self.run_steps_sync(view_steps(process_id))

    def find_signal(self, name: str) -> Signal[Any]:
        """The signal of that name; an error that names the nearest otherwise."""
        try:
            return self.signals[name]
        except KeyError:
            raise UnknownSignal(name, self.signals) from None

    async def request_cancel(
        self, process_id: str, on: Caller | None, cancel: CancelPart, *, compensate: bool
    ) -> None:
        database = await self._app.database()
        steps = self._cancel(process_id, database.shard_count, cancel, compensate=compensate)
        await self._run_on(on, steps, CANCEL)

    def request_cancel_sync(
        self, process_id: str, on: Caller | None, cancel: CancelPart, *, compensate: bool
    ) -> None:
        shard_count = self._app.database_sync().shard_count
        steps = self._cancel(process_id, shard_count, cancel, compensate=compensate)
        self._run_on_sync(on, steps, CANCEL)

    def _cancel(
        self, process_id: str, shard_count: int, cancel: CancelPart, *, compensate: bool
    ) -> Steps[None]:
        part = part_of(cancel.task, cancel.scope, cancel.why, compensate=compensate)
        if part is not None:
            return request_steps([request_call_off(process_id, part)], shard_count)
        return request_steps([request_cancel(process_id, compensate=compensate)], shard_count)

    async def run_steps(self, steps: Steps[T]) -> T:
        """On a connection of our own, in a transaction."""
        pool = await self._app.pool()
        async with pool.connection(transaction=True) as connection:
            return await connection.follow(steps)

    def run_steps_sync(self, steps: Steps[T]) -> T:
        with self._app.sync_pool().connection() as connection:
            return SyncTx(connection).follow(steps)

    async def _run_on(self, on: Caller | None, steps: Steps[T], verb: str) -> T:
        """In the caller's transaction, or in one of our own."""
        if on is None:
            return await self.run_steps(steps)
        async with caller_tx(on, await self._app.pool(), Verb(verb, f"{verb}_sync")) as tx:
            return await tx.follow(steps)

    def _run_on_sync(self, on: Caller | None, steps: Steps[T], verb: str) -> T:
        if on is None:
            return self.run_steps_sync(steps)
        with caller_tx_sync(on, self._app.sync_pool(), Verb(f"{verb}_sync", verb)) as tx:
            return tx.follow(steps)

    def _found(self, type: str, process: ProcessOutcome | None) -> Found:
        return found_of(process, lambda: self.find(type).signature)


def _pool_of(process: AnyProcess) -> dict[str, str]:
    """Where it is not the default one."""
    pool = process.settings.pool
    return {} if pool == DEFAULT_POOL else {"pool": pool}
