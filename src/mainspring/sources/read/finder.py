"""Finds the partitions that there are, and offers a visit for each: of new ones, and of any that was lost.
Records that were put aside and are to be tried again have their turn with it.

The partitions of a source that is new begin where its `start` says. One that comes later begins at its
first record, whatever `start` says: it is younger than the source.
"""

from __future__ import annotations

from mainspring.db.database import Database
from mainspring.db.shared import SharedLine
from mainspring.endpoint import Endpoint
from mainspring.errors import EndpointAway
from mainspring.kernel import Again, Offer, Outcome, Postponed, offer_new_visits
from mainspring.sources.declare.broker import BrokerClient
from mainspring.sources.declare.source import RecordSource
from mainspring.sources.read.rejects import Retrier
from mainspring.sources.statements import SQL

# The key of the visit that finds partitions; no partition's key begins so.
FIND = "@partitions"
FIND_SECONDS = 30.0
PUT_OFF = 1.0


class Finder:
    """Finds the partitions of one source."""

    def __init__(
        self,
        database: Database,
        source: RecordSource,
        client: BrokerClient,
        endpoint: Endpoint,
        line: SharedLine,
        retrier: Retrier,
    ) -> None:
        self._database = database
        self._source = source
        self._client = client
        self._endpoint = endpoint
        self._line = line
        self._retrier = retrier

    async def find(self) -> Outcome:
        """Look once, and again later."""
        try:
            partitions = await self._client.partitions()
        except EndpointAway as error:
            self._endpoint.left(error)
            return Postponed(error.retry_after or PUT_OFF, str(error))
        self._endpoint.succeeded()
        name, queue = self._source.name, self._source.queue
        async with self._line.use() as connection, connection.atomic():
            known = set(await connection.rows(SQL["list_partitions"], str, source=name))
            fresh = [partition for partition in partitions if partition not in known]
            if fresh:
                start = "earliest" if known else self._source.start
                await connection.run(
                    SQL["insert_offsets"],
                    source=name,
                    partitions=fresh,
                    starts=[start] * len(fresh),
                )
            offers = [Offer(queue, partition) for partition in partitions]
            await offer_new_visits(self._database, connection, offers)
        is_more = await self._retrier.retry()
        return Again(after=0 if is_more else FIND_SECONDS)
