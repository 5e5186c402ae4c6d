"""The doctor: looks at the server, the schema and the tables, and says what is wrong.

Each finding has a name, a level, a text and a remedy. Nothing is changed and nothing is locked. The
judgements are pure functions of what was read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mainspring.db.database import Database
from mainspring.db.schema.migrate import migrations, read_schema
from mainspring.errors import MissingRights
from mainspring.kernel.jobs import recurring
from mainspring.kernel.operate import rights
from mainspring.kernel.operate.invariants import InvariantReport, look
from mainspring.kernel.operate.status import Status, read_status
from mainspring.kernel.query import ask
from mainspring.kernel.settings import DEFAULT_POOL, OWN
from mainspring.phrases import counted

LEVELS = ("ok", "warn", "bad")
ENGINE_LOCK_MS = 200.0  # what the engine's own connections wait for a lock
DAYS_AHEAD = 2
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


async def examine(database: Database, connection: Any, *, exact: bool = False) -> list[Finding]:
    """Look at everything; the worst first. `exact` reads every visit and run, however many."""
    found = await _schema(connection)
    if any(finding.level == "bad" for finding in found):
        return found
    found += await _rights(database, connection)
    if await rights.missing_rights(database, connection, rights.LOOK):
        return found
    found += judge_exposed(await ask(database, connection, "list_exposed"))
    sent = time.time()
    server = (await ask(database, connection, "read_server"))[0]
    found += judge_server(server)
    found += judge_clock(server["clock"], sent=sent, received=time.time())
    found += judge_xmin(await ask(database, connection, "list_xmin"))
    found += judge_dead_rows(await ask(database, connection, "read_dead_rows"))
    missing = await ask(database, connection, "keep_days", ahead=DAYS_AHEAD)
    status = await read_status(database, connection, exact=exact)
    found += judge_days(missing, status)
    found += judge_status(status)
    mixed = await ask(database, connection, "list_mixed")
    found += judge_mixed(mixed)
    if mixed:
        found += judge_lacking(await ask(database, connection, "list_lacking"))
    found += judge_recurring(await recurring.list_recurring(database, connection), status)
    found += judge_invariants(await look(database, connection, exact=exact), exact=exact)
    return sorted(found, key=lambda finding: -LEVELS.index(finding.level))


async def _schema(connection: Any) -> list[Finding]:
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


async def _rights(database: Database, connection: Any) -> list[Finding]:
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


def _listed(lacking: list[tuple[str, str]]) -> str:
    return ", ".join(f"{privilege} on {name}" for privilege, name in lacking)


def judge_exposed(rows: list[Any]) -> Iterator[Finding]:
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
        named = [row for row in rows if row["fault"] == fault]
        if named:
            objects = ", ".join(row["object"] for row in named[:10])
            owners = ", ".join(sorted({row["owner"] for row in named}))
            level = "warn" if fault == "owner" and _are_days(named) else "bad"
            yield Finding("exposed", level, text.format(objects, owners), remedy.format(objects))
    if not rows:
        yield Finding("exposed", "ok", "nothing is open to everybody")


def _are_days(rows: list[Any]) -> bool:
    """Days of history that a worker of an earlier release made as its own."""
    return all(re.search(r"history_(bundle_)?\d{4}_\d\d_\d\d$", row["object"]) for row in rows)


def judge_server(row: Any) -> Iterator[Finding]:
    """The server's version and settings."""
    yield Finding("version", "ok", f"PostgreSQL {row['version']}")
    if row["standby"]:
        yield Finding("standby", "bad", "the server is a standby", "connect to the primary")
    for name, loss in (
        ("fsync", "a crash of the machine may destroy the database"),
        ("full_page_writes", "a crash of the machine may tear pages"),
    ):
        off = row[name] == "off"
        text = f"{name} is off: {loss}" if off else f"{name} is on"
        remedy = f"set {name} = on" if off else ""
        yield Finding(name, "bad" if off else "ok", text, remedy)
    if row["synchronous_commit"] == "off":
        text = "synchronous_commit is off on our own connection: commits may be lost in a crash"
        remedy = "let the role set it: the engine sets it to on"
        yield Finding("synchronous_commit", "bad", text, remedy)
    else:
        text = f"synchronous_commit is {row['synchronous_commit']} on the engine's connections"
        yield Finding("synchronous_commit", "ok", text)
    if row["autovacuum"] == "off":
        text = "autovacuum is off: dead rows are never removed and reads become slow"
        yield Finding("autovacuum", "bad", text, "set autovacuum = on")
    else:
        yield Finding("autovacuum", "ok", "autovacuum is on")
    yield _deadlock_timeout(row["deadlock_timeout_ms"])
    yield _connections(row["used"], row["connections"])


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


def judge_xmin(rows: list[Any]) -> Iterator[Finding]:
    """Who keeps dead rows from being removed."""
    old = [row for row in rows if (row["seconds"] or 0) > XMIN_SECONDS or row["seconds"] is None]
    if not old:
        yield Finding("xmin", "ok", "nobody holds dead rows back")
    for row in old:
        since = "" if row["seconds"] is None else f" for {row['seconds']:.0f} s"
        who = f"{row['kind']} {row['name']} ({row['application'] or 'unnamed'}, {row['state']})"
        remedy = {
            "transaction": f"end it: select pg_terminate_backend({row['name']})",
            "replication slot": "let its consumer catch up, or drop it",
        }.get(row["kind"], "commit or roll it back")
        yield Finding("xmin", "warn", f"{who} holds {row['age']} transactions back{since}", remedy)


def judge_dead_rows(rows: list[Any]) -> Iterator[Finding]:
    """Dead rows of the hot tables."""
    for row in rows:
        text = f"{row['name']} has {row['dead']} dead and {row['live']} live rows"
        many = row["dead"] > DEAD_ROWS and row["dead"] > 2 * row["live"]
        remedy = f"find who holds xmin back, then: vacuum mainspring.{row['name']}" if many else ""
        yield Finding(f"dead_rows.{row['name']}", "warn" if many else "ok", text, remedy)


def judge_days(missing: list[Any], status: Status) -> Iterator[Finding]:
    """History's days should be there ahead of time, from the first worker on."""
    if not missing:
        yield Finding("history_days", "ok", f"history has its days for {DAYS_AHEAD} days ahead")
        return
    if missing[0]["has_none"] and not status.workers:
        text = "history has no days yet: the first worker makes them"
        yield Finding("history_days", "ok", text)
        return
    names = ", ".join(row["name"] for row in missing)
    text = (
        f"history lacks the days {names}; their runs go to history_other and history_bundle_other"
    )
    remedy = "start a worker: it makes them; if one runs, look at its log for history.day_not_made"
    yield Finding("history_days", "warn", text, remedy)


def judge_status(status: Status) -> Iterator[Finding]:
    """Lag, and queues that nobody serves."""
    lag = status.lag_seconds
    late = lag > LAG_SECONDS
    remedy = "mainspring status shows where; add workers, or ask mainspring why" if late else ""
    text = f"the oldest due visit has waited {lag:.1f} s"
    yield Finding("lag", "warn" if late else "ok", text, remedy)
    for queue in (queue for queue in status.queues if queue.is_full):
        text = f"queue {queue.name!r} is full: it lets {queue.waiting_max} visits wait, and refuses more"
        remedy = "add workers, or let more wait: mainspring queues limit QUEUE --waiting-max"
        yield Finding("full", "warn", text, remedy)
    if (more := len(status.unserved) - UNSERVED) > 0:
        text = f"{counted(more, 'more queue')} beside these have visits that no worker knows"
        yield Finding("unserved", "warn", text, "mainspring queues list shows them first")
    for queue in status.unserved[:UNSERVED]:
        waiting = queue.waits
        text = f"{waiting} in queue {queue.name!r}, which no worker knows"
        remedy = "start a worker that declares it; if it was renamed, declare the old name too"
        if queue.name.startswith(OWN):
            pool = queue.name.partition("@")[2] or DEFAULT_POOL
            text = f"{waiting} in {queue.name!r}, and no worker is in pool {pool!r}"
            remedy = f"start a worker with --pool {pool}; operations move to any that starts"
        yield Finding("unserved", "warn", text, remedy)


def judge_mixed(rows: list[Any]) -> Iterator[Finding]:
    """Pools whose workers have different code: a deploy, a canary, or several services."""
    for row in rows:
        text = f"pool {row['pool']!r} has {row['workers']} workers with different queues"
        if row["workers_before"]:
            before = counted(row["workers_before"], "worker", "is", "are")
            text += f"; {before} of the release before, so what the owner of its shard lacks waits there"
            yield Finding("mixed_pool", "warn", text, "replace the workers of the release before")
        else:
            shared = f"; it is cut into {counted(row['bands'], 'band')}, each served by who has its queues"
            yield Finding("mixed_pool", "ok", text + shared)


def judge_lacking(rows: list[Any]) -> Iterator[Finding]:
    """Queues that wait where the owner of a shard has only a part of their turn class."""
    for row in rows[:UNSERVED]:
        text = (
            f"queue {row['queue']!r} waits in {counted(row['shards'], 'shard')} of pool {row['pool']!r}: "
            "its turn class has one owner there, whose code lacks it"
        )
        remedy = (
            "start more workers with it: at a quarter of the pool's slots they have all of these "
            "shards. Or give the new code a pool of its own"
        )
        yield Finding("owner_lacks_queue", "warn", text, remedy)


def judge_recurring(schedules: list[recurring.Recurring], status: Status) -> Iterator[Finding]:
    """Schedules whose target nobody serves fill their queue with ticks."""
    served = {name for worker in status.workers for name in worker.queues}
    for schedule in schedules:
        if status.workers and schedule.paused_at is None and schedule.queue not in served:
            text = f"recurring {schedule.name!r} ticks, but no worker serves {schedule.queue!r}"
            remedy = f"mainspring recurring remove {schedule.name}, or start a worker for it"
            yield Finding("recurring", "warn", text, remedy)


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
