"""A stage as it was declared: what is called, and its settings. `stage_declaration.py` makes it.

    @listing.stage(reads=["title"], writes=["price"], state=PriceState)
    class PredictPrice:
        def should_process(self, listing, state): ...   # optional: yes, no or a time
        async def process(self, listing, state): ...    # Untouched(...) or Update(...)
        async def saved(self, event): ...               # optional: effects, after this stage's save
        async def deleted(self, event): ...             # optional: the entity was deleted
        async def state_changed(self, event): ...       # optional: its state was replaced from outside

A function is `process` alone. Both questions are pure: they may be called again at will.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar

from mainspring.declaring import Seconds
from mainspring.entities.declare.event import Saved
from mainspring.entities.declare.model import Model
from mainspring.entities.declare.outcome import Untouched, Update
from mainspring.entities.declare.remote import RemotePlace
from mainspring.entities.declare.state import StateType
from mainspring.errors import UnknownStage
from mainspring.retry_policy import RetryPolicy

# should_process answers within this, or the entity is queued unasked (seconds).
BUDGET_SECONDS = 0.1
# A function of the user's, given an entity and its state.
Process: TypeAlias = Callable[[object, object], Any]
Answer: TypeAlias = Update | Untouched | Awaitable[Update | Untouched]
E = TypeVar("E")
S = TypeVar("S")
E_co = TypeVar("E_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)
E_contra = TypeVar("E_contra", contravariant=True)
S_contra = TypeVar("S_contra", contravariant=True)
HOOKS = ("saved", "deleted", "state_changed")


class StageSettingsGiven(TypedDict, total=False):
    """What any stage may be declared with, for checkers."""

    reads: Iterable[str]
    writes: Iterable[str]
    interest: Iterable[str]
    sees_own: bool
    rate: float | None
    parallel: int | None
    serial: bool | None
    jitter: float | None
    hold_after: Seconds
    crash_limit: int
    budget: Seconds
    retry: RetryPolicy | None
    was: Iterable[str]
    schema: int
    upgrade: Callable[..., object] | None


class StageOptions(StageSettingsGiven, total=False):
    """What `kind.stage(...)` may be given, for checkers."""

    name: str
    timeout: Seconds | None


class OfEntity(Protocol[E_contra]):
    """A class or object whose `process` takes the entity alone."""

    def process(self, entity: E_contra, /) -> Answer: ...


class OfEntityAndState(Protocol[E_contra, S_contra]):
    """One whose `process` takes the private state too."""

    def process(self, entity: E_contra, state: S_contra, /) -> Answer: ...


StageTarget: TypeAlias = (
    Callable[[E], Answer]
    | Callable[[E, S], Answer]
    | OfEntity[E]
    | OfEntityAndState[E, S]
    | type[OfEntity[E]]
    | type[OfEntityAndState[E, S]]
)


class StageDecorator(Protocol[E_co, S_co]):
    """`@kind.stage(...)`: takes a class, an object or a function of the entity, or of it and its state."""

    def __call__(
        self,
        target: StageTarget[E_co, S_co],
        /,
    ) -> Stage: ...


@dataclass(frozen=True, slots=True)
class StageSettings:
    """A stage's settings. Times are seconds, rates are calls of process a second."""

    reads: tuple[str, ...] | None = None  # None: everything
    writes: tuple[str, ...] | None = None  # None: everything but key and version
    interest: tuple[str, ...] | None = None  # None: every change
    sees_own: bool = False  # asked about the version that its own save made, too
    rate: float | None = None
    parallel: int | None = None
    serial: bool | None = None  # takes turns with the entity's other stages; None: as its kind says
    jitter: float | None = (
        None  # of one that takes none: spreads its offers; None: as its kind says
    )
    timeout: float | None = None
    hold_after: float = 1.0
    crash_limit: int = 3
    budget: float = BUDGET_SECONDS
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    was: tuple[str, ...] = ()  # former names: their visits and states are taken over


@dataclass(frozen=True, slots=True)
class Stage:
    """A declared stage. Its methods are bound and ready to call."""

    kind: str
    name: str
    settings: StageSettings
    state: StateType
    process: Process
    should_process: Process | None = None
    saved: Callable[[Saved], object] | None = None
    deleted: Callable[[Saved], object] | None = None
    state_changed: Callable[[Saved], object] | None = None
    target: object = None  # what was decorated
    remote: RemotePlace | None = None  # where it is, if it is not in this process

    @property
    def queue(self) -> str:
        """The queue of its live visits."""
        return f"{self.kind}/{self.name}"

    @property
    def crawl_queue(self) -> str:
        """The queue of its visits from a crawl."""
        return f"{self.kind}/{self.name}~"

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.process)

    @property
    def has_hook(self) -> bool:
        """Whether it hears of any event."""
        elsewhere = self.remote is not None and self.remote.hears
        return elsewhere or any((self.saved, self.deleted, self.state_changed))


class StageKind(Protocol):
    """What a stage must know of its kind when it is declared."""

    @property
    def name(self) -> str: ...

    @property
    def is_serial(self) -> bool: ...

    @property
    def stages(self) -> dict[str, Stage]: ...

    @property
    def model(self) -> Model: ...

    @property
    def has_table(self) -> bool: ...


def find(kind: StageKind, stage: str | Stage) -> Stage:
    """A stage of the kind by its name; an error that names the nearest otherwise."""
    name = stage.name if isinstance(stage, Stage) else stage
    try:
        return kind.stages[name]
    except KeyError:
        raise UnknownStage(kind.name, name, kind.stages) from None
