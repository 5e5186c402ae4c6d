"""The doctor: looks at the server, the schema and the tables, and says what is wrong.

Each finding has a name, a level, a text and a remedy. Nothing is changed and nothing is locked. The
judgements are pure functions of what was read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from mainspring.db.database import Connection, Database
from mainspring.db.schema.migrate import migrations, read_schema
from mainspring.declaring import OWN
from mainspring.errors import MissingRights
from mainspring.kernel import DEFAULT_POOL, REMOTE, WorkerSettings
from mainspring.operate import rights
from mainspring.operate.breakers import told
from mainspring.operate.invariants import InvariantReport, look
from mainspring.operate.statements import SQL
from mainspring.operate.status import Status, read_status
from mainspring.phrases import counted

LEVELS = ("ok", "warn", "bad")
ENGINE_LOCK_MS = 200.0  # what the engine's own connections wait for a lock
XMIN_SECONDS = 60.0
LAG_SECONDS = 60.0
CLOCK_SECONDS = 1.0
DEAD_ROWS = 100_000
VIOLATIONS = 20
UNSERVED = 20  # queues that are named one by one


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    level: str
    text: str
    remedy: str = ""


class ExposedObject(NamedTuple):
    """What is open to everybody ('open', 'definer') or belongs to somebody else ('owner')."""

    object: str
    fault: str
    owner: str


class ServerState(NamedTuple):
    """The server's version and settings, as our connection has them."""

    version: str
    version_number: int
    synchronous_commit: str
    fsync: str
    full_page_writes: str
    autovacuum: str
    deadlock_timeout_ms: float
    connections: int
    used: int
    others: int  # connections that are not workers' own
    workers: int
    standby: bool
    clock: float


class XminHolder(NamedTuple):
    """Who keeps dead rows from being removed: so many transactions, for so long if that is known."""

    kind: str
    name: str
    application: str | None
    age: int
    seconds: float | None
    state: str | None


class DeadRows(NamedTuple):
    """Rows of a hot table."""

    name: str
    live: int
    dead: int
    vacuumed_at: datetime | None


class MixedCodePool(NamedTuple):
    """A pool whose workers have different code."""

    pool: str
    workers: int
    workers_before: int
    bands: int


class LackingQueue(NamedTuple):
    """A queue that waits in shards whose owner lacks it."""

    pool: str
    queue: str
    shards: int


async def examine(
    database: Database, connection: Connection, *, exact: bool = False
) -> list[Finding]:
    """Look at everything; the worst first. `exact` reads every visit and run, however many."""
    found = await _schema(connection)
    if any(finding.level == "bad" for finding in found):
        return found
    found += await _rights(database, connection)
    if await rights.missing_rights(database, connection, rights.LOOK):
        return found
    found += judge_exposed(await connection.rows(SQL["list_exposed"], ExposedObject))
    sent = time.time()
    server = await connection.one(SQL["read_server"], ServerState)
    found += judge_server(server)
    found += judge_clock(server.clock, sent=sent, received=time.time())
    found += judge_xmin(await connection.rows(SQL["list_xmin"], XminHolder))
    found += judge_dead_rows(await connection.rows(SQL["read_dead_rows"], DeadRows))
    status = await read_status(database, connection, exact=exact)
    found += judge_status(status)
    mixed = await connection.rows(SQL["list_mixed"], MixedCodePool)
    found += judge_mixed(mixed)
    if mixed:
        found += judge_lacking(await connection.rows(SQL["list_lacking"], LackingQueue))
    found += judge_invariants(await look(database, connection, exact=exact), exact=exact)
    return sorted(found, key=lambda finding: -LEVELS.index(finding.level))


async def _schema(connection: Connection) -> list[Finding]:
    try:
        number, *_ = await read_schema(connection)
    except MissingRights as error:
        return [Finding("rights", "bad", str(error), "docs/operate/rights.md has the grants")]
    known = migrations()[-1].number
    if number is None:
        text = "there is no schema 'mainspring' in this database"
        return [Finding("schema", "bad", text, "run mainspring migrate")]
    if number < known:
        text = f"the schema is at migration {number}, this code needs {known}"
        return [Finding("schema", "bad", text, "run mainspring migrate")]
    if number > known:
        text = f"the schema is at migration {number}, this code knows {known}"
        return [Finding("schema", "warn", text, "upgrade this installation of mainspring")]
    return [Finding("schema", "ok", f"at migration {number}")]


async def _rights(database: Database, connection: Connection) -> list[Finding]:
    """What the role may do. One that may not look at the tables gets no further."""
    lacking = await rights.missing_rights(database, connection, rights.LOOK)
    may_look = not lacking
    lacking = await rights.missing_rights(database, connection, rights.ENQUEUE)
    if lacking and not may_look:
        remedy = "mainspring rights enqueue ROLE prints the grants"
        return [Finding("rights", "bad", f"the role lacks {_listed(lacking)}", remedy)]
    if not may_look:
        text = "the role may enqueue and ask for results, and look at nothing else"
        return [Finding("rights", "warn", text, "run the doctor as a worker or an operator")]
    lacking += await rights.missing_rights(database, connection, rights.WORK)
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        text = f"the role may look but not work: it lacks {_listed(lacking[:3])}{more}"
        remedy = "for a worker: mainspring rights worker ROLE prints the grants"
        return [Finding("rights", "warn", text, remedy)]
    return [Finding("rights", "ok", "the role may enqueue and work")]


def _listed(lacking: Iterable[rights.MissingRight]) -> str:
    return ", ".join(f"{privilege} on {name}" for privilege, name in lacking)


def judge_exposed(rows: Sequence[ExposedObject]) -> Iterator[Finding]:
    """What is open to everybody, or belongs to somebody else than the schema does."""
    faults = {
        "open": (
            "everybody may use {0}",
            "run mainspring migrate; then: revoke all on {0} from public",
        ),
        "definer": (
            "{0} runs as its owner without a fixed search_path",
            "run mainspring migrate, or drop it",
        ),
        "owner": (
            "{0} belongs to role {1}, not to the schema's owner",
            "as a superuser: alter {0} owner to the schema's owner; days of history are dropped by age",
        ),
    }
    for fault, (text, remedy) in faults.items():
        named = [row for row in rows if row.fault == fault]
        if named:
            objects = ", ".join(row.object for row in named[:10])
            owners = ", ".join(sorted({row.owner for row in named}))
            level = "warn" if fault == "owner" and _are_days(named) else "bad"
            yield Finding("exposed", level, text.format(objects, owners), remedy.format(objects))
    if not rows:
        yield Finding("exposed", "ok", "nothing is open to everybody")


def _are_days(rows: Iterable[ExposedObject]) -> bool:
    """Days of history that a worker of an earlier release made as its own."""
    return all(re.search(r"history_(bundle_)?\d{4}_\d\d_\d\d$", row.object) for row in rows)


def judge_server(server: ServerState) -> Iterator[Finding]:
    """The server's version and settings."""
    yield Finding("version", "ok", f"PostgreSQL {server.version}")
    if server.standby:
        yield Finding("standby", "bad", "the server is a standby", "connect to the primary")
    for name, value, loss in (
        ("fsync", server.fsync, "a crash of the machine may destroy the database"),
        ("full_page_writes", server.full_page_writes, "a crash of the machine may tear pages"),
    ):
        off = value == "off"
        text = f"{name} is off: {loss}" if off else f"{name} is on"
        remedy = f"set {name} = on" if off else ""
        yield Finding(name, "bad" if off else "ok", text, remedy)
    if server.synchronous_commit == "off":
        text = "synchronous_commit is off on our own connection: commits may be lost in a crash"
        remedy = "let the role set it: the engine sets it to on"
        yield Finding("synchronous_commit", "bad", text, remedy)
    else:
        text = f"synchronous_commit is {server.synchronous_commit} on the engine's connections"
        yield Finding("synchronous_commit", "ok", text)
    if server.autovacuum == "off":
        text = "autovacuum is off: dead rows are never removed and reads become slow"
        yield Finding("autovacuum", "bad", text, "set autovacuum = on")
    else:
        yield Finding("autovacuum", "ok", "autovacuum is on")
    yield _deadlock_timeout(server.deadlock_timeout_ms)
    yield _connections(server.used, server.connections)
    yield _carries(server.workers, server.others, server.connections)


def _deadlock_timeout(milliseconds: float) -> Finding:
    text = f"deadlock_timeout is {milliseconds:g} ms"
    if milliseconds > ENGINE_LOCK_MS:
        return Finding("deadlock_timeout", "ok", text)
    text += f", not more than the engine's own lock timeout of {ENGINE_LOCK_MS:g} ms: your "
    text += "transactions may be the victims of a deadlock with the engine"
    return Finding("deadlock_timeout", "warn", text, "set deadlock_timeout = '1s'")


def _connections(used: int, most: int) -> Finding:
    text = f"{used} of {most} connections are used"
    if used < 0.8 * most:
        return Finding("connections", "ok", text)
    remedy = (
        "raise max_connections, lower --concurrency (a task with ctx.transaction() has one), run fewer "
        "workers, or put a pooler in between"
    )
    return Finding("connections", "warn", text, remedy)


def _carries(workers: int, others: int, most: int) -> Finding:
    """How many workers the server has room for, beside what is not theirs now."""
    each = WorkerSettings().connections
    carried = max(0, most - others) // each
    text = (
        f"the server can carry {counted(carried, 'worker')} of {each} connections each, beside "
        f"{others} other connections of {most}; {workers} there now"
    )
    if workers <= carried:
        return Finding("workers_carried", "ok", text)
    remedy = (
        "raise max_connections, run workers with fewer --connections (3 at least), or fewer workers"
    )
    return Finding("workers_carried", "warn", text, remedy)


def judge_clock(server: float, *, sent: float, received: float) -> Iterator[Finding]:
    """The server's clock against this machine's, as far as the round trip lets one tell."""
    apart = server - (sent + received) / 2
    doubt = (received - sent) / 2
    text = f"the server's clock is {abs(apart):.3f} s {'ahead' if apart > 0 else 'behind'}"
    if abs(apart) - doubt <= CLOCK_SECONDS:
        yield Finding("clock", "ok", text)
    else:
        remedy = "set both clocks by NTP; the engine goes by the server's"
        yield Finding("clock", "warn", text, remedy)


def judge_xmin(holders: Iterable[XminHolder]) -> Iterator[Finding]:
    """Who keeps dead rows from being removed."""
    old = [h for h in holders if h.seconds is None or h.seconds > XMIN_SECONDS]
    if not old:
        yield Finding("xmin", "ok", "nobody holds dead rows back")
    for holder in old:
        since = "" if holder.seconds is None else f" for {holder.seconds:.0f} s"
        who = f"{holder.kind} {holder.name} ({holder.application or 'unnamed'}, {holder.state})"
        remedy = {
            "transaction": f"end it: select pg_terminate_backend({holder.name})",
            "replication slot": "let its consumer catch up, or drop it",
        }.get(holder.kind, "commit or roll it back")
        yield Finding("xmin", "warn", f"{who} holds {holder.age} transactions back{since}", remedy)


def judge_dead_rows(tables: Iterable[DeadRows]) -> Iterator[Finding]:
    """Dead rows of the hot tables."""
    for table in tables:
        text = f"{table.name} has {table.dead} dead and {table.live} live rows"
        many = table.dead > DEAD_ROWS and table.dead > 2 * table.live
        remedy = f"find who holds xmin back, then: vacuum mainspring.{table.name}" if many else ""
        yield Finding(f"dead_rows.{table.name}", "warn" if many else "ok", text, remedy)


def judge_status(status: Status) -> Iterator[Finding]:
    """Lag, and queues that nobody serves."""
    late = status.lag_seconds > LAG_SECONDS
    remedy = "mainspring status shows where; add workers, or ask mainspring why" if late else ""
    text = f"the oldest due visit has waited {status.lag_seconds:.1f} s"
    yield Finding("lag", "warn" if late else "ok", text, remedy)
    for away, workers in status.away:
        text = f"{away.text} (so {counted(workers, 'worker')} found); {', '.join(away.queues)} wait"
        remedy = "see that it is up, and its address and credentials are right; it is tried again"
        yield Finding("away", "warn", text, remedy)
    for text, remedy in told(status.breakers):
        yield Finding("breaker", "warn", text, remedy)
    for queue in (queue for queue in status.queues if queue.is_full):
        text = f"queue {queue.name!r} is full: it lets {queue.waiting_max} visits wait, and refuses more"
        remedy = "add workers, or let more wait: mainspring queues limit QUEUE --waiting-max"
        yield Finding("full", "warn", text, remedy)
    yield from judge_unrecovered(status)
    if (more := len(status.unserved) - UNSERVED) > 0:
        text = f"visits wait in {counted(more, 'more queue')}{status.whom_unserved_lack}"
        yield Finding("unserved", "warn", text, "mainspring queues list shows them first")
    for queue in status.unserved[:UNSERVED]:
        text = f"{queue.waits} in queue {queue.name!r}{status.whom_unserved_lack}"
        remedy = "start a worker that declares it; if it was renamed, say so: was=[the old name]"
        if queue.name.startswith(OWN):
            pool = queue.name.partition("@")[2] or DEFAULT_POOL
            text = f"{queue.waits} in {queue.name!r}, and no worker is in pool {pool!r}"
            remedy = f"start a worker with --pool {pool}; operations move to any that starts"
        yield Finding("unserved", "warn", text, remedy)


def judge_unrecovered(status: Status) -> Iterator[Finding]:
    """Only workers recover: what an actor elsewhere has and never answers for would be held for ever."""
    pools = {worker.pool for worker in status.workers}
    for queue in status.queues:
        if queue.kind == REMOTE and queue.pool not in pools and queue.running + queue.waiting:
            text = (
                f"actors elsewhere serve {queue.name!r}, and no worker is in pool {queue.pool!r}: nobody "
                "recovers the tasks of one that dies"
            )
            remedy = f"start a worker with --pool {queue.pool}; mainspring serve never recovers"
            yield Finding("unrecovered", "warn", text, remedy)


def judge_mixed(pools: Iterable[MixedCodePool]) -> Iterator[Finding]:
    """Pools whose workers have different code: a deploy, a canary, or several services."""
    for pool in pools:
        text = f"pool {pool.pool!r} has {pool.workers} workers with different queues"
        if pool.workers_before:
            before = counted(pool.workers_before, "worker", "is", "are")
            text += f"; {before} of the release before, so what the owner of its shard lacks waits there"
            yield Finding("mixed_pool", "warn", text, "replace the workers of the release before")
        else:
            shared = (
                f"; it is cut into {counted(pool.bands, 'band')}, each served by who has its queues"
            )
            yield Finding("mixed_pool", "ok", text + shared)


def judge_lacking(queues: Sequence[LackingQueue]) -> Iterator[Finding]:
    """Queues that wait where the owner of a shard has only a part of their turn class."""
    for queue in queues[:UNSERVED]:
        text = (
            f"queue {queue.queue!r} waits in {counted(queue.shards, 'shard')} of pool {queue.pool!r}: "
            "its turn class has one owner there, whose code lacks it"
        )
        remedy = (
            "start more workers with it: at a quarter of the pool's slots they have all of these "
            "shards. Or give the new code a pool of its own"
        )
        yield Finding("owner_lacks_queue", "warn", text, remedy)


def judge_invariants(seen: InvariantReport, *, exact: bool) -> Iterator[Finding]:
    """What is broken; where nothing is, how much was looked at."""
    remedy = "look again in a lease time; if it stays, report it with mainspring status --json"
    for rule, detail in seen.found[:VIOLATIONS]:
        yield Finding("violations", "bad", f"{rule}: {detail}", remedy)
    if seen.found:
        return
    if not seen.unseen:
        yield Finding("violations", "ok", "every invariant holds")
        return
    of = f" of about {seen.about}" if "some visits" in seen.unseen else ""
    text = f"every invariant holds in what was looked at: {counted(seen.visits, 'visit')}{of}"
    text += f"; not looked at: {', '.join(seen.unseen)}"
    more = "mainspring doctor --exact looks at everything and takes its time"
    yield Finding("violations", "warn" if exact else "ok", text, "" if exact else more)
