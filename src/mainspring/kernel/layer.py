"""What a layer is to a worker; port.py is what a worker is to its layers. `docs/design/layers.md` explains
the contract.

A layer brings queues with handlers; the worker reads, runs and settles their visits. Everything else
here is optional: a layer writes the methods that it needs, and inherits the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from mainspring.db.database import Connection, Database
from mainspring.db.sql import Steps
from mainspring.kernel.settings import DEFAULT_POOL, QueueSettings
from mainspring.kernel.tuning import LEASE
from mainspring.kernel.visit import Run
from mainspring.operation_kind import OperationKind

if TYPE_CHECKING:
    from mainspring.kernel.run.queue import QueueState

# Of so many groups of a queue that are kept back each read of its settings tells.
MOST_SHUT = LEASE.shut_groups


class NewlyParked(NamedTuple):
    """A visit that the kernel has parked: its runs killed as many workers as its queue allows."""

    queue: str
    key: str
    payload: str


class HeldVisit(NamedTuple):
    """A visit that a run holds."""

    shard: int
    key: str
    queue: str
    grp: str | None
    run: int
    holder: UUID | None
    overdue: bool  # its work timeout has passed
    orphaned: bool  # its holder is dead
    payload: str | None  # of one that is overdue


class Chore(Protocol):
    """What a layer does now and then to its tables; told for how many days history is kept."""

    async def __call__(
        self, database: Database, connection: Connection, *, days: int
    ) -> object: ...


class Judge(Protocol):
    """Who is told what runs come to, and may keep queues and groups back for it (QueueState, Groups)."""

    @property
    def on(self) -> bool:
        """Whether every run has to be told of, and not only those that were told when to come back."""
        ...

    def ended(self, runs: Sequence[Run]) -> None:
        """Runs have their outcomes."""
        ...

    def read(self, queue: QueueState, failures: int | None, shut: str | None) -> bool:
        """What the settings of a queue say. Returns whether its groups may have more room now."""
        ...


class Layer(Protocol):
    """One layer in one worker. Subclass it; every method but `queues` may be left out."""

    # What is done every ten minutes and may take long; what is short and done every two seconds, or seldom
    # while it returns that there is nothing to look after.
    chores: Sequence[Chore] = ()
    glances: Sequence[Chore] = ()
    # Kinds of bulk operations by name.
    operations: Mapping[str, OperationKind] = {}

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        """The queues that the workers of a pool should serve. Those of other pools may be among them.

        `migrate` asks too, of a layer that is never opened: it registers them, and runs nothing.
        """
        ...

    def pools(self) -> Collection[str]:
        """The pools in which this layer has something to run."""
        return ()

    def wrap(self, queue: QueueSettings) -> QueueSettings:
        """A queue of any layer, with what this layer does around its handler."""
        return queue

    async def open(self) -> None:
        """Before the worker joins its pool. Called again while the database is away."""
        return

    async def start(self) -> None:
        """The worker works. Called again while the database is away."""
        return

    def take_overdue(self, held: Sequence[HeldVisit]) -> set[int]:
        """Take those of runs whose work timeout has passed which this layer recovers; returns their tokens.

        Called by the heart's thread.
        """
        return set()

    def judge(self, queues: Mapping[str, QueueState], look: Callable[[], None]) -> Judge | None:
        """Who judges the runs of this worker's queues, if this layer does; one of them at most. `look` has
        the settings of queues read."""
        return None

    def parked(self, visits: Sequence[NewlyParked]) -> Steps[None]:
        """Statements that go with visits which deaths of workers have parked, in the same transaction.

        Called by the heart's thread, which owns the connection. What fails here undoes the parking; it
        is tried again at the next beat.
        """
        yield from ()

    def forget(self, versions: frozenset[int] | None) -> None:
        """Visits of these versions (None: any) are said to be gone. What is kept of them is read again."""
        return

    def interrupt(self, runs: Sequence[Run]) -> None:
        """These runs must end, and cannot be cancelled: they are in threads. Called from any thread."""
        return

    def cut(self, *, threads_only: bool) -> None:
        """The worker is fenced: break off the connections that runs use. Called from any thread."""
        return

    async def close(self) -> None:
        """The worker has stopped, or never started."""
        return


def queues_of(layers: Sequence[Layer], pool: str) -> list[QueueSettings]:
    """The queues of a pool, each with what other layers do around its handler."""
    queues = [queue for layer in layers for queue in layer.queues(pool)]
    for layer in layers:
        queues = [layer.wrap(queue) for queue in queues]
    return queues


def declared_by(layers: Sequence[Layer]) -> tuple[list[QueueSettings], set[str]]:
    """All queues of these layers, each once, and the pools in which they have something to run."""
    pools = {pool for layer in layers for pool in layer.pools()}
    queues = [queue for pool in {DEFAULT_POOL, *pools} for queue in queues_of(layers, pool)]
    return list({queue.name: queue for queue in queues}.values()), pools
