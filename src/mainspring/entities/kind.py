"""What `app.entities` and `app.documents` make: a kind of entities, and the way to its stages.

Past 400 lines, for all that one does with a kind stands here, mostly as signatures and docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from mainspring.db.database import Database
from mainspring.db.pool import AsyncPool, SyncPool
from mainspring.entities import crawl
from mainspring.entities.capture.announce import Connection, announce, announce_sync
from mainspring.entities.crawl import Crawl, CrawlOrder
from mainspring.entities.declare import catalogue
from mainspring.entities.declare import stage as stages
from mainspring.entities.declare.consumer import Consumer, Sink, consumers, declare_sink
from mainspring.entities.declare.dao import Dao
from mainspring.entities.declare.event import Saved
from mainspring.entities.declare.ids import Codec, typed_id
from mainspring.entities.declare.keys import id_text
from mainspring.entities.declare.model import Model
from mainspring.entities.declare.table import DOCUMENT_TABLE, XMIN
from mainspring.entities.outside import queue
from mainspring.entities.outside import state as cas
from mainspring.entities.outside.edit import Editors
from mainspring.entities.outside.edit_batch import Changing
from mainspring.entities.outside.queue import Entry, Peeked
from mainspring.errors import InvalidKind
from mainspring.kernel import Operation, RetryPolicy

CAPTURES = ("statement", "row", "always", "call")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")


class Host(Protocol):
    """What a kind needs of the application."""

    async def database(self) -> Database: ...
    async def pool(self) -> AsyncPool: ...
    def sync_pool(self) -> SyncPool: ...


@dataclass(frozen=True, slots=True)
class KindSettings:
    """A kind as it is declared."""

    name: str
    source: str  # schema.table, 'document' or 'dao'
    keys: tuple[str, ...] = ("id",)
    version: str = "version"  # a column, or 'xmin'
    ignore: tuple[str, ...] = ()  # columns whose changes offer nothing
    capture: str = "statement"
    pool: str = "default"
    serial: bool = True  # of one entity, one stage at a time
    jitter: float = 0.0  # seconds; spreads the stages of a kind that is not serial
    notify: bool = True  # writers wake sleeping workers
    crawl: Crawl = field(default_factory=Crawl)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InvalidKind(
                f"a kind's name must begin with a letter and have at most 40 letters, digits, "
                f"'_', '.' and '-', got {self.name!r}"
            )
        if self.capture not in CAPTURES:
            raise InvalidKind(
                f"kind {self.name!r}: capture must be one of {', '.join(CAPTURES)}, "
                f"got {self.capture!r}"
            )
        if not self.keys:
            raise InvalidKind(
                f"kind {self.name!r} needs a key: key='id' or key=['region', 'number']"
            )
        if len(set(self.keys)) != len(self.keys):
            raise InvalidKind(f"kind {self.name!r}: a key column is named twice: {self.keys!r}")
        if self.version in self.keys:
            raise InvalidKind(f"kind {self.name!r}: {self.version!r} cannot be key and version")
        if isinstance(self.jitter, bool) or not 0 <= self.jitter <= 3600:
            raise InvalidKind(
                f"kind {self.name!r}: jitter must be 0 to 3600 seconds, got {self.jitter!r}"
            )
        if self.jitter and self.serial:
            raise InvalidKind(
                f"kind {self.name!r}: jitter is for kinds whose stages run in parallel; "
                "say serial=False, or leave it out"
            )
        if not isinstance(self.crawl, Crawl):
            raise InvalidKind(
                f"kind {self.name!r}: crawl must be Crawl(every=...), got {self.crawl!r}"
            )
        if not self.pool:
            raise InvalidKind(f"kind {self.name!r}: pool must have a name, got ''")

    @property
    def crawl_every(self) -> timedelta | None:
        """How often the whole base is crawled."""
        return self.crawl.every

    @property
    def has_version(self) -> bool:
        """Whether versions are stored; with 'xmin' they only live for one visit."""
        return self.version != XMIN

    @property
    def is_document(self) -> bool:
        """Whether the entities are managed documents."""
        return self.source == "document"

    @property
    def table(self) -> str | None:
        """The table whose rows are the entities; None for a DAO."""
        if self.source == "document":
            return DOCUMENT_TABLE
        return None if self.source == "dao" else self.source


class Kind:
    """A kind of entities: declare its stages, offer its entities, read and replace states.

    listing = app.entities("listing", table="public.listing", model=Listing)

    @listing.stage(reads=["title"], writes=["price"])
    async def predict_price(listing: Listing) -> Update | Untouched: ...
    """

    def __init__(
        self,
        host: Host,
        settings: KindSettings,
        *,
        model: Any = None,
        dao: Dao | None = None,
        codec: Codec[Any] | None = None,
    ) -> None:
        if codec is not None and not isinstance(codec, Codec):
            raise InvalidKind(
                f"kind {settings.name!r}: id must be a Codec(to_text, from_text), got {codec!r}"
            )
        self.codec = codec
        self.host = host
        self.settings = settings
        self.model = Model(settings.name, model)
        self.dao = dao
        self.stages: dict[str, stages.Stage] = {}
        self.sinks: dict[str, Consumer] = {}
        self._editors = Editors(self)
        if self.model.fields is not None and settings.source != "document":
            for key in settings.keys:
                if key not in self.model.fields:
                    raise InvalidKind(
                        f"kind {settings.name!r}: model {self.model.type.__name__} has no field "
                        f"{key!r}, which is the key"
                    )

    def __repr__(self) -> str:
        return f"<kind {self.name} on {self.settings.source} with {len(self.stages)} stages>"

    @property
    def name(self) -> str:
        """The kind's name, which is the queue of its system visits."""
        return self.settings.name

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns, in the order of an id."""
        return self.settings.keys

    @property
    def version(self) -> str:
        """The version column, or 'xmin'."""
        return self.settings.version

    @property
    def ignore(self) -> tuple[str, ...]:
        """Fields whose changes offer nothing."""
        return self.settings.ignore

    @property
    def is_serial(self) -> bool:
        """Whether the stages of an entity take turns, unless they say otherwise."""
        return self.settings.serial

    @property
    def is_document(self) -> bool:
        """Whether the entities are managed documents."""
        return self.settings.is_document

    @property
    def has_version(self) -> bool:
        """Whether versions are stored; with 'xmin' they only live for one visit."""
        return self.settings.has_version

    @property
    def has_table(self) -> bool:
        """Whether the entities are rows of the user's own table."""
        return not self.is_document and self.dao is None

    # -- ids and entities

    def key_of(self, id: Any) -> str:
        """The text of an id, not yet through its column's type: `keys.canonical` does that."""
        return id_text(id if self.codec is None else self.codec.text(self.name, id), self.keys)

    def id_from(self, key: str) -> Any:
        """The id of a visit's key, by its type."""
        return typed_id(self, key)

    def id_of(self, entity: Any) -> str:
        """The text of an entity's id."""
        if isinstance(entity, dict):
            values = [entity.get(name) for name in self.keys]
        else:
            values = [getattr(entity, name, None) for name in self.keys]
        return id_text(tuple(values), self.keys)

    def decode(self, row: dict[str, Any]) -> Any:
        """A row of plain JSON values as the kind's model."""
        return self.model.decode(row)

    def encode(self, entity: Any) -> dict[str, Any]:
        """All fields of an entity as plain JSON values."""
        return self.model.encode(entity)

    # -- stages

    def stage(self, target: Any = None, /, **given: Any) -> Any:
        """Declare a stage: a decorator for a class or function, or a call with an object.

        `reads`, `writes`, `interest`: fields. `state`: the type of its private state. `rate`,
        `parallel`: limits of `process` over all workers. `retry`: a RetryPolicy. `serial`, `jitter`:
        whether it takes turns with the entity's other stages, else how far its offers are spread.
        """
        if target is None:
            return lambda decorated: self._declare(decorated, given)
        return self._declare(target, given)

    def _declare(self, target: Callable[..., Any], given: dict[str, Any]) -> stages.Stage:
        return stages.declare(self, target, given)

    # -- who gets what was saved

    @property
    def consumers(self) -> list[Consumer]:
        """The `saved` hooks of its stages, and its sinks."""
        return consumers(self.stages.values(), self.sinks.values())

    def sink(
        self,
        name: str,
        target: Sink | Callable[[Saved], Any],
        *,
        retry: RetryPolicy | None = None,
        parallel: int | None = None,
    ) -> None:
        """Send every event of the kind somewhere: an object with `send(event)`, or a function.

        At least once, in order per entity; `retry` says how often a failed event is tried again
        before it is parked, `parallel` how many entities' events are sent at once, over all workers.
        """
        taken = {*self.stages, *self.sinks}
        self.sinks[name] = declare_sink(
            self.name, name, target, taken=taken, retry=retry, parallel=parallel
        )

    # -- its queues

    async def offer(
        self,
        id: Any,
        *,
        stage: str | None = None,
        at: datetime | None = None,
        connection: Connection | None = None,
    ) -> bool:
        """Offer an entity to a stage, or (without one) to be asked about by all of them (S20).

        `at`: a time; an earlier one that stands wins. True if the entity was not in the queue, or is
        now due earlier. A run under way is followed by another in any case.
        """
        return await queue.offer(self, id, stage, at, connection)

    async def check(self, id: Any, *, connection: Connection | None = None) -> list[Entry]:
        """In which queues an entity is, and when it is due there."""
        return await queue.check(self, id, connection)

    async def peek(
        self,
        stage: str | None = None,
        limit: int = 100,
        *,
        crawl: bool = False,
        connection: Connection | None = None,
    ) -> list[Peeked]:
        """The first entities of a stage's queue (None: the system's), live or of the crawl."""
        return await queue.peek(self, stage, limit, crawl, connection)

    async def delete_visit(
        self,
        id: Any,
        stage: str | None = None,
        *,
        crawl: bool = False,
        force: bool = False,
        connection: Connection | None = None,
    ) -> bool:
        """Take an entity out of a stage's queue, its timer with it; whether it was there.

        The result of a run under way is dropped. The system's entry needs `force`: it may carry a
        change that no stage has seen.
        """
        return await queue.delete(self, id, stage, crawl, force, connection)

    async def crawl(
        self,
        stages: Iterable[str] | None = None,
        *,
        rate: float | None = None,
        pause_if_lag: float | None = None,
        after_deploy: bool = False,
        source: str = "application",
    ) -> Operation:
        """Ask every stage (or these) about every entity, beside the live changes (S18).

        It is an operation: workers carry it out, and it can be paused, resumed and cancelled by its
        id. `rate` and `pause_if_lag` are those of the kind unless given. `after_deploy`: the workers
        that serve the kind now have old code, which would answer for its part of the base; the crawl
        begins when they are gone.
        """
        names = None if stages is None else [stage.name for stage in self._found(stages)]
        settings = self.settings.crawl
        order = CrawlOrder(
            self.name,
            names,
            settings.rate if rate is None else rate,
            settings.pause_if_lag if pause_if_lag is None else pause_if_lag,
        )
        database, pool = await self.host.database(), await self.host.pool()
        async with pool.connection(transaction=True) as connection:
            return await crawl.start(
                database, connection, order, source=source, after_deploy=after_deploy
            )

    def _found(self, names: Iterable[str]) -> list[stages.Stage]:
        if isinstance(names, str):
            names = [names]
        return [stages.find(self, name) for name in names]

    async def retire(self, stage: str) -> bool:
        """Take a stage that no code has any more out of the catalogue: it is asked no more.

        What waits in its queue stays there until it is deleted. True if it was in the catalogue.
        """
        pool = await self.host.pool()
        async with pool.connection() as connection:
            return await catalogue.retire(connection, self.name, stage)

    # -- states from outside

    async def state(
        self, stage: str | stages.Stage, id: Any, *, connection: Connection | None = None
    ) -> tuple[Any, int]:
        """A stage's private state of an entity and its version; (None, 0) if there is none."""
        return await cas.read_state(self, stage, id, connection)

    async def set_state(
        self,
        stage: str | stages.Stage,
        id: Any,
        value: Any,
        version: int,
        *,
        connection: Connection | None = None,
    ) -> bool:
        """Replace a stage's state, if it still has the version that `state` answered (S11).

        True if it was replaced: the stage is then asked again. False if somebody was faster: read
        it again. `connection`: your own (psycopg or asyncpg); the call is part of its transaction.
        """
        return await cas.set_state(self, stage, id, value, version, connection)

    # -- writes from outside

    async def edit(self, id: Any, change: Changing) -> Any:
        """Read an entity, change it and write it, losing nobody's update; answers it as it is then.

            await listing.edit(42, lambda found: Update(views=found.views + 1))

        `change` is given the entity, locked, and returns `Update(...)` or `Untouched()`. It is a plain
        function that touches nothing else: it may be called again. Edits that come while others are
        being written share a transaction, so many of them at once cost little each. If the connection
        is lost at the commit, the error does not tell whether it was saved: look before you repeat it.
        """
        return await self._editors.edit(self.key_of(id), change)

    # -- changes that no trigger sees

    async def changed(
        self,
        ids: Any,
        *,
        fields: Iterable[str] | None = None,
        connection: Connection | None = None,
    ) -> int:
        """Say that entities changed, where no trigger does: the stages are asked about them.

        `ids`: a list of ids. `fields`: which fields changed; None: unknown, so every stage is
        asked. `connection`: your own (psycopg or asyncpg); the call is part of its transaction.
        Answers how many visits were offered.
        """
        return await announce(self, self._texts(ids), "changed", fields, connection)

    def changed_sync(
        self,
        ids: Any,
        *,
        fields: Iterable[str] | None = None,
        connection: Connection | None = None,
    ) -> int:
        """The same for code that is not async."""
        return announce_sync(self, self._texts(ids), "changed", fields, connection)

    async def deleted(self, ids: Any, *, connection: Connection | None = None) -> int:
        """Say that entities were deleted, where no trigger does: their visits and states end.

        Answers how many entities had any.
        """
        return await announce(self, self._texts(ids), "deleted", None, connection)

    def deleted_sync(self, ids: Any, *, connection: Connection | None = None) -> int:
        """The same for code that is not async."""
        return announce_sync(self, self._texts(ids), "deleted", None, connection)

    def _texts(self, ids: Any) -> list[str]:
        many: Sequence[Any] = ids if isinstance(ids, list | set | frozenset) else [ids]  # type: ignore[assignment]
        return sorted({self.key_of(id) for id in many})
