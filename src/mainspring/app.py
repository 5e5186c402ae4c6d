"""Mainspring: the one object an application holds; the only place that wires the layers together.

Longer than other files: it is the public face, sync and async side by side, and mostly signatures and
docstrings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Never,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from mainspring.blueprint import Blueprint, BlueprintTask, blueprints_of, modules_below
from mainspring.breakers.breaker import Breaker
from mainspring.db.caller import Caller, SyncCaller
from mainspring.db.database import Database, probe
from mainspring.db.reconnecting import until_let_in
from mainspring.db.schema import migrate
from mainspring.declaring import Seconds, as_names, check_settings, in_seconds, name_of
from mainspring.entities.declare.dao import Dao
from mainspring.entities.declare.ids import Codec
from mainspring.entities.declare.kind_settings import Crawl, DocumentOptions, EntityOptions
from mainspring.entities.declaring import declare_documents, declare_entities
from mainspring.entities.documents import AnyDocuments, Documents
from mainspring.entities.kind import AnyKind, AnyRow, Kind
from mainspring.errors import (
    DuplicateTask,
    InvalidArguments,
    InvalidSetting,
    InvalidTask,
    UnknownTask,
)
from mainspring.hooks.registry import Hooks
from mainspring.host import DatabaseHost
from mainspring.ids import grouped_key
from mainspring.jobs.schedule import ScheduleSettings
from mainspring.kernel.layer import Layer
from mainspring.kernel.port import WorkerPort
from mainspring.kernel.settings import DEFAULT_POOL, WorkerSettings, check_pool
from mainspring.kernel.statements import SQL as KERNEL_SQL
from mainspring.kernel.statements import register_arguments
from mainspring.kernel.visit import DEFAULT_PRIORITY
from mainspring.loops import run_apart, run_here
from mainspring.processes.declare.decider_api import Signal
from mainspring.processes.declare.group import (
    CallGroup,
    DeclaresProcess,
    GroupOptions,
    declare_group,
)
from mainspring.processes.declare.handle import ProcessHandle, check_own_id
from mainspring.processes.declare.process import AnyProcess, Process, ProcessDecorator
from mainspring.processes.declare.question import Question
from mainspring.processes.declare.versions import Upcast
from mainspring.processes.registry import Registry
from mainspring.processes.remote.remote import Remote
from mainspring.reactive.declare.advance import Advancing
from mainspring.reactive.declare.declare import REACTIVE_ONLY, Data, declare
from mainspring.reactive.declare.register import PoolSettings, register
from mainspring.reactive.declare.task import ReactiveTask
from mainspring.reactive.model.durations import Duration
from mainspring.reactive.model.gates import Cron
from mainspring.reactive.model.triggers import Trigger
from mainspring.reactive.model.values import AnyParam
from mainspring.redact import Redactor, as_redactor
from mainspring.redact.statements import SQL as REDACT_SQL
from mainspring.redact.stored import rule_values
from mainspring.retry_policy import RetryPolicy
from mainspring.scheduling import AnyCall, Schedules
from mainspring.sources.declare.broker import RecordBroker
from mainspring.sources.declare.source import MapRecord, RecordSource
from mainspring.sources.declare.source import source as declare_source
from mainspring.tasks.declare.batch import (
    BatchDecorator,
    BatchFunction,
    BatchOptions,
    declare_batch,
)
from mainspring.tasks.declare.calls import Takes1
from mainspring.tasks.declare.handle import CallLookup, Handle, own_id
from mainspring.tasks.declare.options import check_priority
from mainspring.tasks.declare.promise import Promise
from mainspring.tasks.declare.sealing import Cipher, Sealing, as_layers, check_in_clear
from mainspring.tasks.declare.task import (
    Call,
    Enqueues,
    Task,
    TaskDecorator,
)
from mainspring.tasks.declare.unique import Unique, UniquePolicy
from mainspring.tasks.enqueue.enqueue import Enqueuer
from mainspring.tasks.enqueue.results import CallEnd
from mainspring.tasks.hiding import check_searchable
from mainspring.tasks.making import make_task
from mainspring.tasks.run.context import Context

if TYPE_CHECKING:
    from mainspring.kernel.worker import Worker
    from mainspring.worker_options import WorkerOptions

log = logging.getLogger("mainspring")
MakeLayer: TypeAlias = Callable[[Database, WorkerPort, WorkerSettings], Layer]
P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
E = TypeVar("E")


class Mainspring(DatabaseHost, Advancing):
    """A durable reactive engine on PostgreSQL.

    Without an address it uses `MAINSPRING_URL`, and without that a private PostgreSQL in
    `.mainspring/`, started when first needed and stopped with the last process that uses it.

        app = Mainspring()

        @app.task
        async def greet(name: str) -> str:
            return f"hello {name}"
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        directory: str | Path = ".mainspring",
        pool: str = DEFAULT_POOL,
        nested_triggers: bool = True,
        cipher: Cipher | None = None,
        redact: Iterable[str] = (),
        in_clear: Iterable[str] = (),
    ) -> None:
        """`pool`: that of everything declared here without one of its own, and of its workers.
        `nested_triggers=False` forbids all_of inside any_of and the reverse. `cipher`: encrypts what
        tasks and processes are given, return and fail with (`mainspring.encryption.AesGcm`). `redact`:
        fields of arguments, results and attributes that are not shown, of all tasks and processes.
        `in_clear`: layers that a cipher does not cover and that are declared all the same: "kinds" (of
        entities and documents), "reactive", "sources"."""
        super().__init__(url, directory=directory)
        check_pool(pool)
        self.default_pool = pool
        self.tasks: dict[str, Task[..., object]] = {}
        self.hooks = Hooks()
        self.registry = Registry(self)
        self.sealing = None if cipher is None else Sealing(cipher)
        self.redactor = as_redactor(redact)
        self._in_clear = as_layers(in_clear)
        self._enqueuer = Enqueuer(self.pools, self.tasks, self.hooks, self.registry.former)
        self.batches: dict[str, BatchFunction] = {}
        self.kinds: dict[str, AnyKind] = {}
        self.reactive_tasks: dict[str, ReactiveTask] = {}
        self.params: dict[str, AnyParam] = {}
        self._nested_triggers = nested_triggers
        self.reactive_pools: dict[str, PoolSettings] = {}
        self.schedules = Schedules(self)
        self.layers: list[MakeLayer] = [self._redaction_layer]
        self.sources: dict[str, RecordSource] = {}

    def __repr__(self) -> str:
        return f"<Mainspring with {len(self.tasks)} tasks>"

    @property
    def processes(self) -> Mapping[str, Process[..., Any]]:
        """The declared process types, by name."""
        return self.registry.types

    def names_of(self, queue: str) -> list[str]:
        """The name of a queue, and those that it had (`was=`)."""
        return [queue, *(old for old, name in self.registry.former.items() if name == queue)]

    def redactors(self) -> dict[str, Redactor]:
        """What is hidden, by queue: of tasks and processes, under their former names too."""
        signatures = {n: task.signature for n, task in self.tasks.items()}
        signatures |= {n: process.signature for n, process in self.processes.items()}
        found = {n: rule for n, s in signatures.items() if (rule := s.redactor) is not None}
        former = self.registry.former.items()
        return found | {old: found[name] for old, name in former if name in found}

    # -- declaring

    @overload
    def task(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        was: Iterable[str] = (),
        pool: str | None = None,
        priority: int = DEFAULT_PRIORITY,
        retry: RetryPolicy | None = None,
        timeout: Seconds | None = None,
        grace: Seconds = 5.0,
        hold_after: float = 1.0,
        crash_limit: int = 3,
        concurrency: int | None = None,
        rate: float | None = None,
        group_concurrency: int | None = None,
        group_rate: float | None = None,
        burst: int | None = None,
        group_burst: int | None = None,
        breaker: Breaker | None = None,
        searchable: Iterable[str] | None = None,
        redact: Iterable[str] = (),
        redact_result: bool = False,
        keep_result: Seconds | None = None,
        keep_history: Seconds | None = None,
        unique: Unique | UniquePolicy | None = None,
        cron: str | Iterable[str] | None = None,
        zone: str = "UTC",
        cron_args: Mapping[str, object] | None = None,
        catch_up: str = "one",
        catch_up_max: int = 100,
        tick_argument: str | None = None,
        work_timeout: Seconds = 60.0,
        accept: str = "first",
        on_work_timeout: str = "requeue",
        work_timeout_limit: int | None = None,
        task_timeout: Seconds | None = None,
        on_task_timeout: str = "slide",
        remote: bool = False,
        executor: str | None = None,
        memory_max: int | None = None,
    ) -> TaskDecorator: ...
    @overload
    def task(
        self,
        *,
        when: Trigger,
        name: str | None = None,
        pool: str | None = None,
        priority: int = DEFAULT_PRIORITY,
        produces: Iterable[AnyParam] = (),
        not_before: Cron | str | None = None,
        debounce: Duration | None = None,
        debounce_max: Duration | None = None,
        min_interval: Duration | None = None,
        expect_within: Duration | None = None,
        first_run: str = "now",
        on_rewind: str = "report",
        was: Iterable[str] = (),
        retry: RetryPolicy | None = None,
        timeout: Seconds | None = None,
    ) -> Callable[[Callable[..., object]], ReactiveTask]: ...
    def task(  # type: ignore[misc]
        self, function: Callable[..., object] | None = None, /, **settings: object
    ) -> object:
        """Declare a task. Works on async and plain functions (these run in threads).

        `was`: former names of it; calls that wait or are parked under one are run, and schedules go with
        it.
        `retry`: when and how often a failed run is repeated. `timeout`: seconds a run may take
        (this and the other times may be a timedelta too). `grace`: seconds to clean up for a run that
        is told to end.
        `concurrency`, `rate` (starts a second): limits over all workers; `group_concurrency`,
        `group_rate`: the same for each group. `burst`, `group_burst`: how many may start at once after a
        quiet time. `breaker`: a `Breaker` stops it for a while when runs fail
        in a row. `searchable`: arguments by which history is indexed.
        `redact`: fields of arguments and of the result that no log, command or page shows ("password",
        "card.number"); `redact_result`: the whole result. `keep_result`,
        `keep_history`: for how long a result and the rows of history are kept, where that is less than
        the worker's `history_days`.
        `unique`: what a call does whose key is taken, a policy or a `Unique(...)`.
        `cron`, `zone`: enqueued whenever the cron line (or one of several) says, with `cron_args`; see
        `app.schedule` for `catch_up`, `catch_up_max`, `tick_argument`. `hold_after`: seconds after which
        a run is marked in its row (0: before it starts). `crash_limit`: parked after so many deaths of a
        worker that ran it.
        `executor="process"`: it runs in a helper, a process of the worker's own, which is killed if it is
        told to end (its timeout, a cancel) and does not end in its grace. `memory_max`: bytes that this
        process may have (on Linux).

        As a step of a process: `work_timeout` (seconds): a run that neither ends nor calls
        `ctx.beat()` for so long is overtaken; `on_work_timeout`: "requeue" or "fail";
        `work_timeout_limit`: fails after so many. `accept`: whose result counts, the "first" that
        comes or that of the "last" run. `task_timeout`: seconds from the first queueing to an end
        with an error; `on_task_timeout`: a run under way may "slide" to its work timeout, or is
        stopped ("force"). `remote`: its runs are pulled through `app.remote`, no worker calls it.

        With `when`, a trigger, it is a reactive task: it runs when the state of data says so. `produces`:
        params that it sets. `not_before`, `debounce`, `min_interval`: what holds a true trigger back.
        `expect_within`: reported when no success was recorded for so long. `first_run`: "now", or
        "baseline" (what is there counts as seen). `on_rewind`: "report", "rerun" or "hold".
        `was`: takes over the state of the task of that name.
        """
        settings = self._in_pool(settings)
        if function is None:
            return lambda f: self._declare(f, settings)
        return self._declare(function, settings)

    def batch_task(
        self,
        *bare: Never,
        size: int = 100,
        wait: Seconds | None = None,
        **settings: Unpack[BatchOptions],
    ) -> BatchDecorator:
        """Declare a task whose function takes many calls at once, as a list of items.

            @app.batch_task(size=100)
            async def index(pages: list[Page]) -> list[int | Exception]: ...

            await index.enqueue(Page(...))

        It returns a result for each item, or an exception instance that is the failure of that one; None:
        all are done. If it raises, it is called again for halves, down to the item that is bad. A second
        parameter `list[Context]` gets the contexts of the items. `size`: items at most. `wait`: seconds to
        wait for more; without it a batch is what is there. The other settings are those of a task, and
        count calls.
        """
        if bare:
            raise InvalidTask(
                f"@app.batch_task has settings, got {bare[0]!r}: write @app.batch_task(size=...)"
            )

        def add(function: Callable[..., object]) -> object:
            given = self._in_pool(settings)
            name = str(given.get("name") or getattr(function, "__name__", ""))
            seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait
            batch, one = declare_batch(name, function, Context, size=size, wait=seconds)
            if (known := self.batches.get(name)) is not None and known.function is not function:
                raise DuplicateTask(
                    f"task {name!r} is declared twice; give one of them another name"
                )
            task = self._declare(one, given) if known is None else self.tasks[name]
            self.batches[name] = batch
            return task

        return cast("BatchDecorator", add)

    def _declare(
        self, function: Callable[..., object], given: dict[str, Any]
    ) -> Task[..., object] | ReactiveTask:
        if not callable(function):
            raise InvalidTask(f"a task must be a function, got {function!r}")
        name = name_of(given, function)
        in_seconds(given)
        known = self.tasks.get(name) or self.reactive_tasks.get(name)
        if known is not None and known.function is not function:
            raise DuplicateTask(
                f"task {name!r} is declared twice: {_place(known.function)} and "
                f"{_place(function)}; give one of them another name"
            )
        if name in self.kinds:
            raise DuplicateTask(
                f"{name!r} is a kind of entities already; give the task another name"
            )
        if "when" in given:
            check_priority(given.get("priority", DEFAULT_PRIORITY))
            check_in_clear("reactive", self._in_clear, self.sealing)
            given.setdefault("nested", self._nested_triggers)
            self.reactive_tasks[name] = declare(function, name, given, self)
            return self.reactive_tasks[name]
        was = as_names("was", given.pop("was", None))
        task = make_task(
            function,
            name,
            given,
            self._enqueuer,
            sealing=self.sealing,
            redactor=self.redactor,
            triggered_only=REACTIVE_ONLY,
        )
        self.tasks[name] = task
        for former in was:
            self.registry.add_former(former, name)
        return task

    def include(self, *blueprints: Blueprint) -> None:
        """Take in the tasks and the hooks of blueprints, those that they declare later too."""
        for blueprint in blueprints:
            is_new = not blueprint.is_in(self)
            blueprint.included(self)
            for declared in blueprint.declared:
                self.adopt(declared)
            if is_new:
                blueprint.declare_in(self)

    def adopt(self, declared: BlueprintTask) -> None:
        """Take in a task of a blueprint."""
        task = declared.task
        taken = self.tasks.get(task.name, task) is not task
        if taken or task.name in {*self.reactive_tasks, *self.kinds, *self.processes}:
            raise DuplicateTask(
                f"{task.name!r} is declared already, in the application or in another blueprint; "
                "give the blueprint a prefix, or one of them another name"
            )
        pool = None if declared.has_pool else self.default_pool
        task.adopted(pool=pool, sealing=self.sealing, redactor=self.redactor)
        check_searchable(task.signature, task.settings.searchable)
        self.tasks[task.name] = task
        for former in declared.was:
            self.registry.add_former(former, task.name)

    def autodiscover(self, *modules: str) -> list[str]:
        """Import modules and, of packages, all that is in them; include the blueprints that are there.

        Tasks that are declared on the application itself are so, too, once their module is imported.
        Answers the names of the modules.
        """
        found = modules_below(modules)
        self.include(*(b for b in blueprints_of(found) if not b.is_in(self)))
        return [module.__name__ for module in found]

    @property
    def enqueues(self) -> Enqueues:
        """What enqueues the calls of its tasks."""
        return self._enqueuer

    @overload
    def process(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, Promise[R]]], /
    ) -> Process[P, R]: ...
    @overload
    def process(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, Promise[R] | R]], /
    ) -> Process[P, R]: ...
    @overload
    def process(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, Promise[R] | None]], /
    ) -> Process[P, R | None]: ...
    @overload
    def process(
        self, function: Callable[Concatenate[Context, P], Promise[R]], /
    ) -> Process[P, R]: ...
    @overload
    def process(
        self, function: Callable[Concatenate[Context, P], Promise[R] | R], /
    ) -> Process[P, R]: ...
    @overload
    def process(
        self, function: Callable[Concatenate[Context, P], Promise[R] | None], /
    ) -> Process[P, R | None]: ...
    @overload
    def process(
        self, function: Callable[P, Coroutine[Any, Any, Promise[R]]], /
    ) -> Process[P, R]: ...
    @overload
    def process(
        self, function: Callable[P, Coroutine[Any, Any, Promise[R] | R]], /
    ) -> Process[P, R]: ...
    @overload
    def process(
        self, function: Callable[P, Coroutine[Any, Any, Promise[R] | None]], /
    ) -> Process[P, R | None]: ...
    @overload
    def process(self, function: Callable[P, Promise[R]], /) -> Process[P, R]: ...
    @overload
    def process(self, function: Callable[P, Promise[R] | R], /) -> Process[P, R]: ...
    @overload
    def process(self, function: Callable[P, Promise[R] | None], /) -> Process[P, R | None]: ...
    @overload
    def process(
        self,
        *,
        name: str | None = None,
        was: Iterable[str] = (),
        pool: str | None = None,
        priority: int = DEFAULT_PRIORITY,
        retry: RetryPolicy | None = None,
        timeout: Seconds | None = 10.0,
        crash_limit: int = 3,
        work_timeout: Seconds = 60.0,
        accept: str = "first",
        on_work_timeout: str = "requeue",
        work_timeout_limit: int | None = None,
        task_timeout: Seconds | None = None,
        on_task_timeout: str = "slide",
        process_timeout: Seconds = 86_400.0,
        idle_timeout: Seconds = 3_600.0,
        redact: Iterable[str] = (),
        redact_result: bool = False,
        searchable: Iterable[str] | None = None,
    ) -> ProcessDecorator: ...
    def process(  # type: ignore[misc]
        self, function: Callable[..., object] | None = None, /, **settings: object
    ) -> object:
        """Declare a process type by its decider, an async or plain function.

        Tasks called in it are recorded and give promises; what it returns - a value or a promise - is
        the process's result. It runs once, to its end; there is no replay. `process_timeout`,
        `idle_timeout` (seconds): when recovery looks at a process; neither ends it. `was`: former
        names, under which running processes still have tasks. `crash_limit`: a run of the decider is
        parked after so many deaths of a worker that ran it. `redact`: fields of arguments, of the result
        and of attributes that are not shown; `redact_result`: the whole result. `searchable`: attributes
        that stay in the clear where the application has a cipher.
        """
        settings = self._in_pool(settings)
        if function is None:
            return lambda f: self._declare_process(f, settings)
        return self._declare_process(function, settings)

    def _declare_process(
        self, function: Callable[..., object], given: dict[str, object]
    ) -> AnyProcess:
        hidden = as_redactor(given.pop("redact", ()), result=given.pop("redact_result", False))
        process = self.registry.declare(function, given)
        process.signature.redact_by(hidden | self.redactor)
        return process

    def group(
        self,
        *,
        then: Takes1[Never, ..., R],
        name: str | None = None,
        **settings: Unpack[GroupOptions],
    ) -> CallGroup[R]:
        """Declare a group: calls of any tasks, and a callback when all of them have ended.

            nightly = app.group(then=report)

            handle = await nightly.start([load.bind(1), clean.bind("x")])
            print(await handle.result())  # what the report returns

        `then`: a task or a process that takes a list first. As `list[Outcome[T]]` it gets every end,
        failures too; as `list[T]` it waits until every call is done, so a parked one holds it until it was
        restarted. `name`: its queue, and the type of its processes; "<then>.group" unless set.
        """
        declare = cast("DeclaresProcess", self.process)
        made = declare_group(then, name, declare, self.registry.versions.of, settings)
        return cast("CallGroup[R]", made)

    def _in_pool(self, settings: Mapping[str, object]) -> dict[str, Any]:
        """These settings, with the application's pool where they name none."""
        pool = settings.get("pool")
        return {**settings, "pool": self.default_pool if pool is None else pool}

    def signal(self, name: str, kind: type[R]) -> Signal[R]:
        """Declare a signal: a message of a type, which processes wait for by `signal.wait()`."""
        return self.registry.declare_signal(name, kind)

    def question(self, name: str, kind: type[R], answers: type[A]) -> Question[R, A]:
        """Declare a question: a signal that processes answer, by `question.answer(...)`."""
        return self.registry.declare_question(name, kind, answers)

    def upcast(
        self, actor: Task[..., object] | Process[..., Any], *, version: int
    ) -> Callable[[Upcast], Upcast]:
        """Say how recorded arguments of a version become those of the next one.

        Of steps and starts of processes: a plain call has no version, and gets defaults of what is new.
        """

        def add(function: Upcast) -> Upcast:
            self.registry.versions.add(actor.name, version, function)
            actor.signature.note_upcast()
            return function

        return add

    def find_process(self, name: str) -> Process[..., Any]:
        """The process type of that name; an error that names the nearest otherwise."""
        return self.registry.find(name)

    def process_handle(self, type: str, id: str) -> ProcessHandle[Any]:
        """The handle of a process that was started elsewhere, by its own id."""
        self.find_process(type)
        check_own_id(id)
        return ProcessHandle(type, id, False, self.registry)

    def task_handle(
        self, task: str, id: str, *, key: str | None = None, group: str | None = None
    ) -> Handle[Any]:
        """The handle of a call that was enqueued elsewhere, by its id (`handle.id`); of one that has a key,
        with that and its group."""
        self.find_task(task)
        id = own_id(task, id)
        return Handle(
            task, id if key is None else grouped_key(group, key), id, "existing", self._enqueuer
        )

    def find_task(self, name: str) -> Task[..., Any]:
        """The task of that name; an error that names the nearest otherwise."""
        try:
            return self.tasks[self.registry.former.get(name, name)]
        except KeyError:
            raise UnknownTask(name, self.tasks) from None

    def schedule(
        self,
        call: AnyCall,
        *,
        cron: str,
        zone: str = "UTC",
        name: str | None = None,
        catch_up: str = "one",
        catch_up_max: int = 100,
        tick_argument: str | None = None,
    ) -> None:
        """Enqueue a call, `task.bind(...)`, or start a process, `process.bind(...)`, by a cron line.

        `cron`: five fields, or six with seconds first. `zone`: the time zone of the line. `name`: the
        schedule's, else that of its task. `catch_up`: ticks that nobody made in time are left out
        ("skip"), all but the latest ("one"), or made, the latest `catch_up_max` of them ("all").
        `tick_argument`: the argument that gets the tick's time, a datetime. Made, changed and paused at
        run time: `app.schedules`.
        """
        settings: ScheduleSettings = {
            "cron": cron,
            "zone": zone,
            "catch_up": catch_up,
            "catch_up_max": catch_up_max,
            "tick_argument": tick_argument,
        }
        self.schedules.declare(name, call, settings)

    @overload
    def entities(self, name: str, *, model: type[E], **given: Unpack[EntityOptions]) -> Kind[E]: ...
    @overload
    def entities(
        self, name: str, *, model: None = None, **given: Unpack[EntityOptions]
    ) -> Kind[AnyRow]: ...
    def entities(
        self,
        name: str,
        *,
        table: str | None = None,
        dao: Dao | None = None,
        key: str | Iterable[str] = "id",
        id: Codec[Any] | None = None,
        version: str = "version",
        model: type | None = None,
        ignore: Iterable[str] = (),
        capture: str | None = None,
        pool: str | None = None,
        serial: bool = True,
        jitter: float = 0.0,
        notify: bool = True,
        crawl: Crawl | None = None,
        keep_events: timedelta | None = None,
    ) -> AnyKind:
        """Declare a kind of entities: the rows of your own table, or what your own DAO loads.

        `key`, `version`: columns; version="xmin" needs no column. `id`: a Codec for ids of a type of
        your own. `model`: a dataclass, a msgspec Struct, a pydantic model or a mapped class of
        SQLAlchemy's; None: dicts. `ignore`: columns whose changes do not matter. `capture`: how changes
        are seen: "statement" triggers, "row" triggers, row triggers that fire "always" (targets of
        logical replication), or "call" of `kind.changed`. `serial`: one stage at a time on one
        entity; else `jitter` seconds spread them. `notify`: writers wake sleeping workers.
        `crawl`: how and how often every stage is asked about every entity again. `keep_events`:
        for how long events are kept, so that `kind.replay` can bring them to a consumer again.
        """
        check_in_clear("kinds", self._in_clear, self.sealing)
        return declare_entities(
            self,
            self.kinds,
            self.tasks,
            name,
            table=table,
            dao=dao,
            key=key,
            codec=id,
            version=version,
            model=model,
            ignore=ignore,
            capture=capture,
            pool=self.default_pool if pool is None else pool,
            serial=serial,
            jitter=jitter,
            notify=notify,
            crawl=crawl or Crawl(),
            keep_events=keep_events,
        )

    @overload
    def documents(
        self, name: str, *, model: type[E], **given: Unpack[DocumentOptions]
    ) -> Documents[E]: ...
    @overload
    def documents(
        self, name: str, *, model: None = None, **given: Unpack[DocumentOptions]
    ) -> Documents[AnyRow]: ...
    def documents(
        self,
        name: str,
        *,
        id: Codec[Any] | None = None,
        model: type | None = None,
        pool: str | None = None,
        serial: bool = True,
        jitter: float = 0.0,
        notify: bool = True,
        crawl: Crawl | None = None,
        keep_events: timedelta | None = None,
    ) -> AnyDocuments:
        """Declare a kind of managed documents: JSON by the model's type, kept by Mainspring."""
        check_in_clear("kinds", self._in_clear, self.sealing)
        return declare_documents(
            self,
            self.kinds,
            self.tasks,
            name,
            codec=id,
            model=model,
            pool=self.default_pool if pool is None else pool,
            serial=serial,
            jitter=jitter,
            notify=notify,
            crawl=crawl or Crawl(),
            keep_events=keep_events,
        )

    def data(self, name: str) -> Data:
        """An object of the data platform, whose params tasks may react to."""
        return Data(name, self.params)

    def reactive_pool(
        self,
        pool: str | None = None,
        *,
        cap: int | None = None,
        reserve_max: timedelta = timedelta(minutes=2),
    ) -> None:
        """At most `cap` reactive tasks of a pool run at once, over all workers.

        Slots are kept for a more important task while a running one brings its data, for at most
        `reserve_max` each time.
        """
        name = self.default_pool if pool is None else pool
        self.reactive_pools[name] = PoolSettings(name, cap, reserve_max)

    def source(
        self,
        name: str,
        broker: RecordBroker,
        *,
        to: MapRecord,
        start: str | datetime = "earliest",
        on_error: str = "stop",
        pool: str | None = None,
    ) -> RecordSource:
        """Declare a source: records of a broker have effects here, each exactly once.

        `to`: a pure function from a record to effects of `mainspring.sources`. `start`: where a new source
        begins, "earliest", "latest" or a datetime. `on_error`: a record that cannot be mapped stops its
        partition ("stop") or is kept aside ("reject"). The name is what its offsets are stored under.
        """
        check_in_clear("sources", self._in_clear, self.sealing)
        chosen = self.default_pool if pool is None else pool
        made = declare_source(name, broker, to=to, start=start, on_error=on_error, pool=chosen)
        if name in self.sources:
            raise InvalidSetting(
                f"source {name!r} is declared twice; give one of them another name"
            )
        if not self.sources:
            self.add_layer(self._source_layer)
        self.sources[name] = made
        return made

    @property
    def lookup(self) -> CallLookup:
        """What looks up the calls of its tasks."""
        return self._enqueuer

    # -- the database

    async def migrate(self) -> list[int]:
        """Create or upgrade the schema; answers the numbers of the migrations applied."""
        return await asyncio.to_thread(self.migrate_sync)

    def migrate_sync(self, *, on: SyncCaller | None = None) -> list[int]:
        """The same for code that is not async.

        `on`: your own connection (psycopg, SQLAlchemy, Django); the schema, without the triggers of
        kinds, is made in its transaction, as part of a migration of your own tool.
        """
        if on is not None:
            from mainspring.db.schema.migrate_on import migrate_on

            return migrate_on(on)
        from mainspring.assembly import declared
        from mainspring.entities.install import install_kinds

        database = run_apart(probe(self._address()))
        applied = migrate.migrate(database)
        with database.connect_sync("migrate", client=True) as connection:
            queues, _ = declared(self, database)
            with database.transaction_sync(connection):
                connection.execute(
                    KERNEL_SQL["register_queues"].text,
                    {"update": True, **register_arguments(queues)},
                )
                if rules := self.redactors():
                    connection.execute(REDACT_SQL["keep_rules"].text, rule_values(rules))
            install_kinds(database, connection, self.kinds.values())
        return applied

    def script_sync(self, after: int = 0) -> str:
        """All SQL that `migrate` would run, for other tools to apply; kinds need their tables."""
        if not self.kinds:
            return migrate.script(after)
        from mainspring.entities.install import kinds_script

        database = run_apart(probe(self._address()))
        with database.connect_sync("migrate", client=True) as connection:
            return migrate.script(after, kinds_script(connection, self.kinds.values()))

    def examine_kinds_sync(self) -> dict[str, str]:
        """Why kinds cannot stand on their tables as they are, by kind; nothing is changed."""
        from mainspring.entities.install import examine_kinds

        database = run_apart(probe(self._address()))
        with database.connect_sync("check", client=True) as connection:
            return examine_kinds(connection, self.kinds.values())

    # -- enqueueing

    async def enqueue(self, name: str, arguments: Mapping[str, object]) -> Handle[Any]:
        """Enqueue a task by its name."""
        return await self.find_task(name).enqueue(**arguments)

    async def enqueue_many(
        self, calls: Iterable[Call[Any]], *, on: Caller | None = None
    ) -> list[Handle[Any]]:
        """Enqueue calls of any tasks, made with `task.bind(...)`: all or none."""
        listed = list(calls)
        for number, call in enumerate(listed):
            if not isinstance(call, Call):
                raise InvalidArguments(
                    f"app.enqueue_many takes calls made with task.bind(...), got {call!r} as number "
                    f"{number}"
                )
        return await self._enqueuer.enqueue_calls(listed, on)

    def results(
        self, handles: Iterable[Handle[R]], timeout: Seconds | None = None
    ) -> AsyncIterator[CallEnd[R]]:
        """What becomes of these calls, each as it ends; of any tasks, enqueued anywhere.

            async for end in app.results(handles):
                print(end.handle, end.result() if end.ok else end.error)

        `timeout`: ResultTimeout after so many seconds in which none has ended.
        """
        return self._enqueuer.results(handles).each(timeout)

    def results_sync(
        self, handles: Iterable[Handle[R]], timeout: Seconds | None = None
    ) -> Iterator[CallEnd[R]]:
        """The same for code that is not async."""
        return self._enqueuer.results(handles).each_sync(timeout)

    @property
    def remote(self) -> Remote:
        """Tasks for actors that are not functions of a worker: pull, beat, complete, fail."""
        return self.registry.remote

    # -- reactive tasks

    async def reactive_apply(self) -> list[str]:
        """Register params and reactive tasks without a worker; answers tasks a newer release holds."""
        database, pool = await self.database(), await self.pool()
        async with pool.connection() as connection:
            tasks, pools = self.reactive_tasks.values(), self.reactive_pools.values()
            _, refused = await register(database, connection, tasks, self.params.values(), pools)
        return refused

    async def run_reactive(self, task: str, *, record: bool, by: str | None) -> None:
        """Ask for a manual run of a reactive task."""
        await self.reactive.run(task, record=record, by=by)

    # -- running

    def _source_layer(
        self, database: Database, worker: WorkerPort, settings: WorkerSettings
    ) -> Layer:
        from mainspring.sources.layer import SourceLayer

        return SourceLayer(database, worker, self, self.sources, pool=settings.pool)

    def _redaction_layer(
        self, database: Database, worker: WorkerPort, settings: WorkerSettings
    ) -> Layer:
        from mainspring.redact.layer import RedactionLayer

        return RedactionLayer(worker, self.redactors())

    def add_layer(self, make: MakeLayer) -> None:
        """Add a layer of your own to the workers of this application; see docs/design/layers.md."""
        self.layers.append(make)

    @asynccontextmanager
    async def worker(self, **settings: Unpack[WorkerOptions]) -> AsyncIterator[Worker]:
        """A worker inside this event loop, for as long as the block lasts."""
        from mainspring.assembly import assemble  # only who runs a worker waits for all its parts

        check_settings("a worker", settings, WorkerSettings.__dataclass_fields__, InvalidSetting)
        wanted = WorkerSettings(**self._in_pool(settings))
        database = await until_let_in(self.database)
        if database.private_in and self.kinds:
            await self.migrate()  # nobody else puts triggers on the tables of a private database
        async with assemble(self, database, wanted) as worker:
            yield worker

    async def run_worker(self, *, drain: bool = False, **settings: Unpack[WorkerOptions]) -> None:
        """Run a worker until a signal stops it, or (`drain`) until nothing is due.

        The first SIGTERM or SIGINT stops it in order; a second one ends the process at once.
        """
        from mainspring.serve import serve

        await serve(self.worker(**settings), drain=drain)

    def run(self, *, drain: bool = False, **settings: Unpack[WorkerOptions]) -> None:
        """Run a worker from plain code: `run_worker` on an event loop of its own."""

        async def main() -> None:
            await until_let_in(self.database)
            async with self:
                await self.run_worker(drain=drain, **settings)

        run_here(main())


def _place(function: Callable[..., object]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
