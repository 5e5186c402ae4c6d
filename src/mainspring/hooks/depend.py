"""Dependencies: what functions need and no payload has, such as clients and sessions, with a life cycle.

@provider(per="worker")
async def http() -> AsyncIterator[Client]:
    async with Client() as client:
        yield client

@app.task
async def fetch(url: str, client: Client = Depends(http)) -> int: ...
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Generic, Literal, Protocol, TypeVar, cast, get_type_hints, overload

from mainspring.errors import InvalidSetting
from mainspring.hooks.told import RunInfo

T = TypeVar("T")
Per = Literal["run", "worker"]


class Provider(Generic[T]):
    """Makes a value, and ends it: see `provider`."""

    def __init__(self, function: Callable[..., object], per: Per) -> None:
        if per not in ("run", "worker"):
            raise InvalidSetting(f'per must be "run" or "worker", got {per!r}')
        self.function = function
        self.per = per
        self.takes_run: str | None = None
        self.needs = needs_of(function)
        for name, parameter in inspect.signature(function).parameters.items():
            if name in self.needs:
                self._check_life(self.needs[name])
            elif per == "run" and _hint(function, name) is RunInfo:
                self.takes_run = name
            elif parameter.default is parameter.empty:
                raise InvalidSetting(
                    f"{self!r} has the parameter {name!r}, which nobody gives it: a provider takes "
                    "Depends(...), or the RunInfo of the run if it is per run"
                )

    def __repr__(self) -> str:
        return f"<provider {self.function.__qualname__} per {self.per}>"

    def _check_life(self, needed: Provider[object]) -> None:
        if self.per == "worker" and needed.per == "run":
            raise InvalidSetting(
                f"{self!r} needs {needed!r}, which ends long before it: have both per worker, or both "
                "per run"
            )

    async def make(self, stack: AsyncExitStack, given: Mapping[str, object]) -> object:
        """Its value; the stack ends it."""
        function = self.function
        if inspect.isasyncgenfunction(function):
            block = asynccontextmanager(cast("Callable[..., AsyncIterator[object]]", function))
            return await stack.enter_async_context(block(**given))
        if inspect.isgeneratorfunction(function):
            plain = contextmanager(cast("Callable[..., Iterator[object]]", function))
            return stack.enter_context(plain(**given))
        made = function(**given)
        return await made if inspect.isawaitable(made) else made


class _Need:
    """The default of a parameter that is provided."""

    def __init__(self, provider: Provider[object]) -> None:
        self.provider = provider

    def __repr__(self) -> str:
        return f"Depends({self.provider!r})"


class Provides(Protocol):
    """`@provider(...)`: what a generator yields, or a function returns, is the value."""

    @overload
    def __call__(self, function: Callable[..., AsyncIterator[T]], /) -> Provider[T]: ...
    @overload
    def __call__(self, function: Callable[..., Iterator[T]], /) -> Provider[T]: ...
    @overload
    def __call__(self, function: Callable[..., Awaitable[T]], /) -> Provider[T]: ...
    @overload
    def __call__(self, function: Callable[..., T], /) -> Provider[T]: ...


def provider(*, per: Per = "run") -> Provides:
    """Declare what makes a value for functions that need it.

    A generator with one `yield` (async or plain: what follows it ends the value) or a function. `per`:
    "run", made before each run that needs it and ended after it; "worker", made before a worker takes
    work, shared by its runs, and ended when they have.
    """
    return cast("Provides", lambda function: Provider(function, per))


def Depends(provider: Provider[T]) -> T:
    """The default of a parameter whose value is provided; it is no argument of a call."""
    if not isinstance(provider, Provider):
        raise InvalidSetting(
            f"Depends takes a provider, got {provider!r}: declare it with @provider(per=...)"
        )
    return cast("T", _Need(cast("Provider[object]", provider)))


def needs_of(function: Callable[..., object]) -> dict[str, Provider[object]]:
    """The parameters of a function that are provided."""
    return {
        name: parameter.default.provider
        for name, parameter in inspect.signature(function).parameters.items()
        if isinstance(parameter.default, _Need)
    }


def _hint(function: Callable[..., object], name: str) -> object:
    try:
        return get_type_hints(function).get(name)
    except (NameError, TypeError):
        return None


class Provided:
    """The values that one worker shares."""

    def __init__(self, wanted: Iterable[Provider[object]]) -> None:
        self._wanted = list(wanted)
        self._kept: dict[Provider[object], object] = {}
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        """Make what is per worker, before any run."""
        for each in self._wanted:
            await self._value(each, None, self._stack, {})

    async def close(self) -> None:
        """End it, the last first."""
        await self._stack.aclose()

    async def values(
        self, needs: Mapping[str, Provider[object]], run: RunInfo, stack: AsyncExitStack
    ) -> dict[str, object]:
        """What a run needs; the same provider gives all of it the same value."""
        made: dict[Provider[object], object] = {}
        return {name: await self._value(each, run, stack, made) for name, each in needs.items()}

    async def _value(
        self,
        provider: Provider[object],
        run: RunInfo | None,
        stack: AsyncExitStack,
        made: dict[Provider[object], object],
    ) -> object:
        found = self._kept if provider.per == "worker" else made
        if provider in found:
            return found[provider]
        if run is None and provider.per == "run":
            for each in provider.needs.values():  # what is per worker may be needed by it alone
                await self._value(each, None, stack, made)
            return None
        given = {
            name: await self._value(each, run, stack, made) for name, each in provider.needs.items()
        }
        if provider.takes_run is not None:
            given[provider.takes_run] = run
        found[provider] = value = await provider.make(stack, given)
        return value
