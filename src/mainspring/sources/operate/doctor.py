"""What is wrong with sources: partitions that have stopped, that nobody reads, and records put aside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from mainspring.db.database import Connection, Database
from mainspring.kernel import EARLIEST, read_now
from mainspring.operate import Finding
from mainspring.phrases import counted
from mainspring.sources.operate.operator import PartitionState, list_partitions

# A partition that nobody has looked at for so long is not read.
UNREAD = timedelta(minutes=5)
NAMED = 5  # one by one


async def examine(database: Database, connection: Connection) -> list[Finding]:
    """Look at all sources."""
    now = await read_now(connection)
    return list(judge(await list_partitions(connection, None), now))


def judge(found: Sequence[PartitionState], now: datetime) -> Iterator[Finding]:
    """What is wrong with these partitions."""
    if stopped := [each for each in found if each.state == "stopped"]:
        text = f"{counted(len(stopped), 'partition')} of sources stopped: " + "; ".join(
            (each.error or each.partition).partition("\n")[0] for each in stopped[:NAMED]
        )
        remedy = "correct what is wrong, then mainspring sources resume NAME (or seek)"
        yield Finding("sources", "bad", text, remedy)
    reads = [each for each in found if each.state in ("unread", "waiting", "reading")]
    unread = [each for each in reads if now - (each.looked_at or each.since or EARLIEST) > UNREAD]
    if unread:
        names = ", ".join(f"{each.source} {each.partition}" for each in unread[:NAMED])
        text = f"{counted(len(unread), 'partition')} of sources are not read: {names}"
        remedy = "start a worker that declares these sources; mainspring sources list shows all"
        yield Finding("sources", "warn", text, remedy)
    if aside := [each for each in found if each.rejects]:
        count = sum(each.rejects for each in aside)
        names = ", ".join(sorted({each.source for each in aside})[:NAMED])
        text = f"{counted(count, 'record')} of sources were put aside: {names}"
        yield Finding("sources", "warn", text, "mainspring sources rejects list NAME")
    if found and not (stopped or unread or aside):
        yield Finding("sources", "ok", f"{counted(len(found), 'partition')} of sources are read")
