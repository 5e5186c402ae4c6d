"""What `app.entities` and `app.documents` make: a kind of entities, and all that one does with it.

The face of the layer for users: it stands above the rooms. They know a kind by `declare/declared_kind.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, Unpack, cast, overload

from mainspring.db.caller import Caller
from mainspring.db.database import Connection
from mainspring.entities.capture.announce import announce, announce_sync
from mainspring.entities.declare import catalogue
from mainspring.entities.declare.consumer import ManySink, Sink, declare_sink
from mainspring.entities.declare.dao import Dao
from mainspring.entities.declare.declared_kind import DeclaredKind, KindHost
from mainspring.entities.declare.event import Saved
from mainspring.entities.declare.ids import Codec
from mainspring.entities.declare.kind_settings import KindSettings
from mainspring.entities.declare.outcome import Untouched, Update
from mainspring.entities.declare.remote import BATCH, PROCESS_SECONDS, PemFile, remote_place
from mainspring.entities.declare.stage import (
    Process,
    Stage,
    StageDecorator,
    StageOptions,
    StageSettingsGiven,
    StageTarget,
    find,
)
from mainspring.entities.declare.stage_declaration import declare, declare_remote
from mainspring.entities.outside import queue
from mainspring.entities.outside.edit import Editors
from mainspring.entities.outside.edit_batch import Changing
from mainspring.entities.outside.queue import Entry, Peeked
from mainspring.entities.outside.state import read_state, set_state
from mainspring.errors import InvalidSetting
from mainspring.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from mainspring.jobs import Operation

E = TypeVar("E")
S = TypeVar("S")


class Kind(DeclaredKind, Generic[E]):
    """A kind of entities: declare its stages, offer its entities, read and replace states.

    listing = app.entities("listing", table="public.listing", model=Listing)

    @listing.stage(reads=["title"], writes=["price"])
    async def predict_price(listing: Listing) -> Update | Untouched: ...
    """

    def __init__(
        self,
        host: KindHost,
        settings: KindSettings,
        *,
        model: type[E] | None = None,
        dao: Dao | None = None,
        codec: Codec[Any] | None = None,
    ) -> None:
        super().__init__(host, settings, model=model, dao=dao, codec=codec)
        self._editors = Editors(self)

    # -- stages

    @overload
    def stage(
        self, /, *, state: type[S], **given: Unpack[StageOptions]
    ) -> StageDecorator[E, S | None]: ...
    @overload
    def stage(
        self, /, *, state: None = None, **given: Unpack[StageOptions]
    ) -> StageDecorator[E, Any]: ...
    @overload
    def stage(
        self, target: StageTarget[E, S], /, *, state: type[S], **given: Unpack[StageOptions]
    ) -> Stage: ...
    @overload
    def stage(self, target: StageTarget[E, Any], /, **given: Unpack[StageOptions]) -> Stage: ...
    def stage(self, target: object = None, /, **given: object) -> object:
        """Declare a stage: a decorator for a class or function, or a call with an object.

        `reads`, `writes`, `interest`: fields. `state`: the type of its private state. `rate`,
        `parallel`: limits of `process` over all workers. `retry`: a RetryPolicy. `serial`, `jitter`:
        whether it takes turns with the entity's other stages, else how far its offers are spread.
        """
        if target is None:
            return lambda decorated: self._declare(decorated, given)
        return self._declare(target, given)

    def _declare(self, target: object, given: dict[str, Any]) -> Stage:
        return declare(self, target, given)

    def remote_stage(
        self,
        name: str,
        address: str,
        *,
        batch: int = BATCH,
        timeout: timedelta | float = PROCESS_SECONDS,
        ask: bool | Process = True,
        saved: bool = False,
        entity: type[object] | None = None,
        token: str | None = None,
        cert: PemFile | None = None,
        key: PemFile | None = None,
        ca: PemFile | None = None,
        insecure: bool = False,
        state: type[object] | None = None,
        **given: Unpack[StageSettingsGiven],
    ) -> Stage:
        """Declare a stage that another service implements (`mainspring.v1.StageService`).

            listing.remote_stage("photos", "grpcs://photos:443", reads=["urls"], writes=["rank"])

        What `stage` takes it takes too: `reads` is all that is sent, `writes` all that is saved. `batch`:
        entities a call. `timeout`: of a call, in seconds. `budget`: seconds for `should_process`. `ask`:
        True asks the service, False always offers, a function is asked here. `saved`: the service is told
        of what was saved. `entity`: a protobuf class that entities are sent as, else they are JSON.
        `token`, `ca`, `cert` and `key` are for grpcs://; `insecure` allows grpc:// to another machine.
        """
        if not (isinstance(ask, bool) or callable(ask)):
            raise InvalidSetting(
                f"ask of stage {name!r} must be True, False or a function, got {ask!r}"
            )
        place = remote_place(
            name,
            address,
            batch=batch,
            timeout=timeout.total_seconds() if isinstance(timeout, timedelta) else timeout,
            asks=ask is True,
            hears=saved,
            entity=entity,
            proof={"token": token, "cert": cert, "key": key, "ca": ca},
            insecure=insecure,
        )
        asked_here = None if isinstance(ask, bool) else ask
        return declare_remote(self, name, place, asked_here, {"state": state, **given})

    # -- who gets what was saved

    def sink(
        self,
        name: str,
        target: Sink | ManySink | Callable[[Saved], object],
        *,
        retry: RetryPolicy | None = None,
        parallel: int | None = None,
        start: str = "now",
    ) -> None:
        """Send every event of the kind somewhere: an object with `send(event)`, or a function.

        At least once, in order per entity; `retry` says how often a failed event is tried again
        before it is parked, `parallel` how many entities' events are sent at once, over all workers.
        A new sink gets what is saved from now on; with `start="snapshot"` first what every entity is.
        """
        taken = {*self.stages, *self.sinks}
        self.sinks[name] = declare_sink(
            self.name, name, target, taken=taken, retry=retry, parallel=parallel, start=start
        )

    async def resend(
        self,
        consumer: str,
        *,
        rate: float | None = None,
        dry_run: bool = False,
        source: str = "application",
    ) -> Operation:
        """Tell one consumer what every entity is now, by events `snapshot` with new numbers.

        It is an operation: workers carry it out, and it can be paused, resumed and cancelled by its
        id. `rate`: entities a second.
        """
        from mainspring.entities import resend  # of orders, which few programs give

        database, pool = await self.host.database(), await self.host.pool()
        order = resend.ResendOrder(self.name, consumer, rate)
        async with pool.connection(transaction=True) as connection:
            return await resend.start(database, connection, order, source=source, dry_run=dry_run)

    async def replay(
        self,
        consumer: str,
        *,
        since: int | datetime,
        rate: float | None = None,
        dry_run: bool = False,
        source: str = "application",
    ) -> Operation:
        """Bring one consumer the kept events again, from a number or a time on (`keep_events`).

        They have their old numbers, and `replay` is the operation's id. It can be paused, resumed and
        cancelled by it. `rate`: events a second.
        """
        from mainspring.entities import replay

        database, pool = await self.host.database(), await self.host.pool()
        async with pool.connection(transaction=True) as connection:
            return await replay.start(
                database,
                connection,
                self.name,
                consumer,
                since,
                rate=rate,
                source=source,
                dry_run=dry_run,
            )

    # -- its queues

    async def offer(
        self,
        id: object,
        *,
        stage: str | None = None,
        at: datetime | None = None,
        on: Caller | None = None,
    ) -> bool:
        """Offer an entity to a stage, or (without one) to be asked about by all of them (S20).

        `at`: a time; an earlier one that stands wins. True if the entity was not in the queue, or is
        now due earlier. A run under way is followed by another in any case.
        """
        return await queue.offer(self, id, stage, at, on)

    async def check(self, id: object, *, on: Caller | None = None) -> list[Entry]:
        """In which queues an entity is, and when it is due there."""
        return await queue.check(self, id, on)

    async def peek(
        self,
        stage: str | None = None,
        limit: int = 100,
        *,
        crawl: bool = False,
        on: Caller | None = None,
    ) -> list[Peeked]:
        """The first entities of a stage's queue (None: the system's), live or of the crawl."""
        return await queue.peek(self, stage, limit, crawl, on)

    async def delete_visit(
        self,
        id: object,
        stage: str | None = None,
        *,
        crawl: bool = False,
        force: bool = False,
        on: Caller | None = None,
    ) -> bool:
        """Take an entity out of a stage's queue, its timer with it; whether it was there.

        The result of a run under way is dropped. The system's entry needs `force`: it may carry a
        change that no stage has seen.
        """
        return await queue.delete(self, id, stage, crawl, force, on)

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
        from mainspring.entities import crawl

        names = None if stages is None else [stage.name for stage in self._found(stages)]
        settings = self.settings.crawl
        order = crawl.CrawlOrder(
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

    def _found(self, names: Iterable[str]) -> list[Stage]:
        if isinstance(names, str):
            names = [names]
        return [find(self, name) for name in names]

    async def retire(self, stage: str) -> bool:
        """Take a stage that no code has any more out of the catalogue: it is asked no more.

        What waits in its queue stays there until it is deleted. True if it was in the catalogue.
        """
        pool = await self.host.pool()
        async with pool.connection() as connection:
            return await catalogue.retire(connection, self.name, stage)

    # -- states from outside

    async def state(
        self, stage: str | Stage, id: object, *, on: Caller | None = None
    ) -> tuple[Any, int]:
        """A stage's private state of an entity and its version; (None, 0) if there is none."""
        return await read_state(self, stage, id, on)

    async def set_state(
        self,
        stage: str | Stage,
        id: object,
        value: object,
        version: int,
        *,
        on: Caller | None = None,
    ) -> bool:
        """Replace a stage's state, if it still has the version that `state` answered (S11).

        True if it was replaced: the stage is then asked again. False if somebody was faster: read
        it again. `on`: your own connection or session; the call is part of its transaction.
        """
        return await set_state(self, stage, id, value, version, on)

    # -- writes from outside

    async def edit(self, id: object, change: Callable[[E], Update | Untouched]) -> E:
        """Read an entity, change it and write it, losing nobody's update; answers it as it is then.

            await listing.edit(42, lambda found: Update(views=found.views + 1))

        `change` is given the entity, locked, and returns `Update(...)` or `Untouched()`. It is a plain
        function that touches nothing else: it may be called again. Edits that come while others are
        being written share a transaction, so many of them at once cost little each. If the connection
        is lost at the commit, the error does not tell whether it was saved: look before you repeat it.
        """
        return cast("E", await self._editors.edit(self.key_of(id), change))

    async def edit_within(
        self, connection: Connection, changes: Sequence[tuple[object, Changing]]
    ) -> None:
        """Make edits in the transaction that is open on a connection of the engine's: all or none."""
        edits = [(self.key_of(id), change) for id, change in changes]
        await self._editors.edit_within(connection, edits)

    # -- changes that no trigger sees

    async def changed(
        self,
        ids: object,
        *,
        fields: Iterable[str] | None = None,
        on: Caller | None = None,
    ) -> int:
        """Say that entities changed, where no trigger does: the stages are asked about them.

        `ids`: a list of ids. `fields`: which fields changed; None: unknown, so every stage is
        asked. `on`: your own connection or session; the call is part of its transaction.
        Answers how many visits were offered.
        """
        return await announce(self, self._texts(ids), "changed", fields, on)

    def changed_sync(
        self,
        ids: object,
        *,
        fields: Iterable[str] | None = None,
        on: Caller | None = None,
    ) -> int:
        """The same for code that is not async."""
        return announce_sync(self, self._texts(ids), "changed", fields, on)

    async def deleted(self, ids: object, *, on: Caller | None = None) -> int:
        """Say that entities were deleted, where no trigger does: their visits and states end.

        Answers how many entities had any.
        """
        return await announce(self, self._texts(ids), "deleted", None, on)

    def deleted_sync(self, ids: object, *, on: Caller | None = None) -> int:
        """The same for code that is not async."""
        return announce_sync(self, self._texts(ids), "deleted", None, on)

    def _texts(self, ids: object) -> list[str]:
        many: Iterable[object] = ids if isinstance(ids, list | set | frozenset) else [ids]
        return sorted({self.key_of(id) for id in many})


AnyKind: TypeAlias = Kind[Any]
AnyRow: TypeAlias = dict[str, Any]  # an entity of a kind without a model
