"""Blueprints: tasks that are declared without an application, and included in one later."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Concatenate, Never, ParamSpec, Protocol, TypeVar, cast, overload

from mainspring.declaring import as_names, in_seconds, name_of
from mainspring.errors import InvalidSetting, InvalidTask
from mainspring.hooks.registry import Hooks
from mainspring.tasks.declare.handle import Handle
from mainspring.tasks.declare.task import Call, Enqueues, Task, TaskDecorator
from mainspring.tasks.making import make_task
from mainspring.tasks.run.context import Context

if TYPE_CHECKING:
    from types import ModuleType

    from mainspring.db.caller import Caller

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Callable[..., object])


class Including(Protocol):
    """An application, as its blueprints see it."""

    hooks: Hooks

    def adopt(self, declared: BlueprintTask) -> None: ...
    @property
    def enqueues(self) -> Enqueues: ...


class Blueprint:
    """Tasks of a part of an application. Their calls can be enqueued when it is included.

        billing = Blueprint("billing.")

        @billing.task
        async def charge(order: int) -> None: ...  # the task billing.charge

        app.include(billing)

    `prefix` begins the name of each task, an explicit one too. Hooks are those of the whole application.
    What else there is to declare - processes, kinds, tasks with a trigger, schedules - it declares in the
    application that includes it, see `on_include`.
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.hooks = Hooks()
        self.declared: list[BlueprintTask] = []
        self._declaring: list[Callable[..., object]] = []
        self._late = _Late(self)
        self._app: Including | None = None

    def __repr__(self) -> str:
        return f"<Blueprint {self.prefix!r} with {len(self.declared)} tasks>"

    if not TYPE_CHECKING:  # else a checker would take any attribute

        def __getattr__(self, name: str) -> Never:
            text = (
                f"a blueprint has no {name!r}, only tasks and hooks: declare it with app.{name} in a "
                "function of @blueprint.on_include, which gets the application"
            )
            raise AttributeError(text, name=name, obj=self)

    @overload
    def task(
        self, function: Callable[Concatenate[Context, P], Coroutine[object, Never, R]], /
    ) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, Coroutine[object, Never, R]], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, **settings: object) -> TaskDecorator: ...
    def task(  # type: ignore[misc]
        self, function: Callable[..., object] | None = None, /, **settings: object
    ) -> object:
        """Declare a task, as `app.task` does; without `pool` it is in that of the application."""
        if function is None:
            return lambda f: self._declare(f, settings)
        return self._declare(function, settings)

    def _declare(
        self, function: Callable[..., object], settings: dict[str, object]
    ) -> Task[..., object]:
        if not callable(function):
            raise InvalidTask(f"a task must be a function, got {function!r}")
        if "when" in settings:
            raise InvalidTask(
                "a blueprint has no params of data, so it has no tasks with a trigger: declare this one "
                "with app.task(when=...), in a function of @blueprint.on_include"
            )
        given = dict(settings)
        name = self.prefix + name_of(given, function)
        in_seconds(given)
        was = as_names("was", cast("Iterable[str] | None", given.pop("was", None)))
        has_pool = given.get("pool") is not None
        if not has_pool:
            given.pop("pool", None)
        task = make_task(function, name, given, self._late)
        found = BlueprintTask(task, was, has_pool)
        self.declared.append(found)
        if self._app is not None:
            self._app.adopt(found)
        return task

    def on_include(self, declare: D) -> D:
        """Call a function with the application that includes the blueprint, once, after its tasks are in.

            @billing.on_include
            def declare(app: Mainspring) -> None:
                app.schedule(charge.bind(0), cron="0 4 * * *")

        If it is in one already, at once.
        """
        if not callable(declare):
            raise InvalidSetting(
                f"blueprint.on_include takes a function of an application, got {declare!r}"
            )
        self._declaring.append(declare)
        if self._app is not None:
            declare(self._app)
        return declare

    def declare_in(self, app: Including) -> None:
        """Declare the rest in the application that has taken in its tasks."""
        for declare in self._declaring:
            declare(app)

    def is_in(self, app: Including) -> bool:
        """Whether that application has included it."""
        return self._app is app

    def included(self, app: Including) -> None:
        """From now on its calls are that application's; its hooks are taken in once."""
        if self._app is not None and self._app is not app:
            raise InvalidSetting(
                f"{self!r} is included in another application already: its calls would not know whose "
                "they are; make one for each, in a function"
            )
        if self._app is None:
            app.hooks.take_in(self.hooks)
        self._app = app

    @property
    def enqueuer(self) -> Enqueues:
        """What enqueues its calls."""
        if self._app is None:
            raise InvalidTask(
                f"{self!r} is in no application: app.include(blueprint) before its tasks are enqueued"
            )
        return self._app.enqueues


class BlueprintTask:
    """A task of a blueprint, and what its application is yet to do for it."""

    def __init__(self, task: Task[..., object], was: Sequence[str], has_pool: bool) -> None:
        self.task = task
        self.was = was
        self.has_pool = has_pool


class _Late:
    """Enqueues by the application that the blueprint is in when that is asked for."""

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint

    async def enqueue_call(self, call: Call[R], on: Caller | None) -> Handle[R]:
        return await self._blueprint.enqueuer.enqueue_call(call, on)

    async def enqueue_calls(self, calls: Sequence[Call[R]], on: Caller | None) -> list[Handle[R]]:
        return await self._blueprint.enqueuer.enqueue_calls(calls, on)

    def enqueue_calls_sync(self, calls: Sequence[Call[R]], on: Caller | None) -> list[Handle[R]]:
        return self._blueprint.enqueuer.enqueue_calls_sync(calls, on)


def modules_below(names: Iterable[str]) -> list[ModuleType]:
    """Import these modules and, of packages, all that is in them; sorted by name."""
    found: list[ModuleType] = []
    for name in names:
        module = importlib.import_module(name)
        found.append(module)
        if (path := getattr(module, "__path__", None)) is not None:
            below = pkgutil.walk_packages(path, f"{name}.", onerror=_raise)
            inside = sorted(each.name for each in below)
            found += [importlib.import_module(each) for each in inside]
    return found


def _raise(name: str) -> None:
    """A package that cannot be imported is no package without tasks."""
    importlib.import_module(name)


def blueprints_of(modules: Iterable[ModuleType]) -> list[Blueprint]:
    """Those at the top of modules, each once."""
    found = [v for m in modules for v in vars(m).values() if isinstance(v, Blueprint)]
    return list(dict.fromkeys(found))
