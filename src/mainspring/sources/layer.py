"""Sources as a layer: a queue for each source, a visit for each of its partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mainspring.db.database import Database
from mainspring.endpoint import Endpoint
from mainspring.kernel import Layer, Offer, Outcome, QueueSettings, Run, WorkerPort, offer_visits
from mainspring.retry_policy import RetryPolicy
from mainspring.sources.apply.batch import Committer
from mainspring.sources.apply.effects import Host
from mainspring.sources.declare.broker import BrokerClient
from mainspring.sources.declare.source import RecordSource
from mainspring.sources.read.finder import FIND, Finder
from mainspring.sources.read.reader import Looks, PartitionReader
from mainspring.sources.read.rejects import Retrier

# Partitions that a worker may read of one source.
SLOTS = 1_000
# Deaths of workers in a row, with nothing of a partition getting through, that stop it.
CRASHES = 5


class SourceLayer(Layer):
    """The sources of an application in one worker."""

    def __init__(
        self,
        database: Database,
        worker: WorkerPort,
        host: Host,
        sources: Mapping[str, RecordSource],
        *,
        pool: str,
    ) -> None:
        self._database = database
        self._worker = worker
        self._host = host
        self._sources = sources
        self._pool = pool
        self._opened: list[tuple[BrokerClient, Endpoint]] = []
        self._looks: Looks | None = None

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        return [self._queue(source) for source in self._sources.values()]

    def pools(self) -> Collection[str]:
        return {source.pool for source in self._sources.values()}

    def _queue(self, source: RecordSource) -> QueueSettings:
        client = source.broker.client(source.name)
        endpoint = Endpoint(source.broker.address, client.probe)
        self._opened.append((client, endpoint))
        worker, line = self._worker, self._worker.line()
        if self._looks is None:
            self._looks = Looks(worker.line())
        committer = Committer(self._host, source, worker.line())
        reader = PartitionReader(source, client, committer, endpoint, worker, line, self._looks)
        retrier = Retrier(self._host, source, worker.line())
        finder = Finder(self._database, source, client, endpoint, line, retrier)

        async def handle(run: Run) -> Outcome:
            return await (finder.find() if run.visit.key == FIND else reader.read(run))

        return QueueSettings(
            name=source.queue,
            handler=handle,
            pool=source.pool,
            kind="source",
            hold_after=0,
            crash_limit=CRASHES,
            slots=SLOTS,
            endpoint=endpoint,
            # What fails without a record to blame is the database's trouble, and passes.
            retry=RetryPolicy(attempts=1_000_000, first=0.5, most=60),
            quiet=True,
        )

    async def start(self) -> None:
        """Look for partitions now."""
        mine = [source for source in self._sources.values() if source.pool == self._pool]
        offers = [Offer(source.queue, FIND) for source in mine]
        if offers:
            async with self._worker.line().use() as connection, connection.atomic():
                await offer_visits(self._database, connection, offers)

    async def close(self) -> None:
        if self._looks is not None:
            await self._looks.close()
        for client, endpoint in self._opened:
            await endpoint.close()
            await client.close()
