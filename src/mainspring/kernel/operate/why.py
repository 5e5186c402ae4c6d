"""Why a visit has not run: named causes with facts, from one look at the database.

The rules are pure: `causes` takes what `explain_visit.sql` answered. Several causes may hold at
once; the first is the one to look at first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from shlex import join, quote
from typing import Any

from mainspring.db.database import Database
from mainspring.kernel.keys import stored_keys, user_key
from mainspring.kernel.operate.history import HistoryFilter, PastRun, search_history
from mainspring.kernel.operate.queues import nearest_queue
from mainspring.kernel.query import ask, decoded
from mainspring.phrases import counted, instant

# A worker beats every 2 s (a fifth of the lease time): one that is silent for so long may be dead.
SILENT_SECONDS = 5.0

# Every cause, with what an operator can do about it.
VISIT_REMEDIES: Mapping[str, str] = {
    "not_found": "nothing: its runs are in its history",
    "parked": "restart it when its reason is gone: mainspring parked restart",
    "running": "nothing: it runs",
    "orphaned": "nothing: the shard's owner frees it within a lease time",
    "unknown_queue": "declare the task again under this name, or cancel its visits",
    "expired": "nothing: it will be closed as expired, not run",
    "scheduled": "nothing: it is not due yet",
    "backoff": "nothing: it is tried again then",
    "paused": "mainspring queues resume",
    "no_worker": "start a worker whose application declares the queue, in its pool",
    "no_owner": "nothing: a worker takes the shard at its next beat",
    "owner_silent": "nothing: another worker takes over a lease time after its death; if there is "
    "none, start one",
    "owner_lacks_queue": "nothing, if it is gone in a moment: a worker that has the queue takes over; if "
    "it stays, the stages of its kind differ between the workers' codes: end the deploy",
    "group_busy": "nothing: it runs when the group has room",
    "turn_busy": "nothing: it runs when the other run of its key has ended",
    "queue_full": "raise the queue's limit, or wait",
    "rate_limited": "raise the queue's rate, or wait",
    "hanging": "find what it waits for (its worker's log names it at run.hangs); a timeout= ends an async "
    "function, work_timeout_limit= gives a step up",
    "suspect": "nothing: those that had been read by it follow each other, and the rest is as fast as ever",
    "about_to_run": "nothing: it runs when its turn comes",
}


_REPLACE_BEFORE = (
    "replace the {} of the release before: beside them a queue waits wherever the owner of its "
    "shard lacks it"
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason, in a word, in a sentence and in figures."""

    name: str
    text: str
    facts: dict[str, Any] = field(default_factory=dict)
    advice: str = ""  # where more can be said than the remedy of every such cause

    @property
    def remedy(self) -> str:
        return self.advice or VISIT_REMEDIES[self.name]


@dataclass(frozen=True, slots=True)
class Why:
    """The causes of one visit, and its last runs."""

    queue: str
    key: str
    group: str | None
    causes: list[Cause]
    last_runs: list[PastRun]


async def why_visit(
    database: Database, connection: Any, queue: str, key: str, group: str | None = None
) -> Why:
    """Why a visit has not run; if it is not there, what became of it."""
    keys = stored_keys(key, group)
    rows = await ask(database, connection, "explain_visit", queue=queue, keys=keys, grp=group)
    wanted = HistoryFilter(queue=queue, key=key, group=group)
    past = await search_history(database, connection, wanted, limit=5)
    if rows:
        return Why(queue, key, rows[0]["grp"], causes(rows[0]), past)
    names = [row["name"] for row in await ask(database, connection, "list_names")]
    return Why(queue, key, group, [_missing(queue, names, past)], past)


def _missing(queue: str, names: list[str], past: list[PastRun]) -> Cause:
    if past:
        last = past[0]
        text = f"there is no such visit any more; its last run ended as {last.outcome}"
        return Cause("not_found", text, {"outcome": last.outcome, "ended_at": last.ended_at})
    if queue not in names:
        text = f"no queue is named {queue!r}{nearest_queue(queue, names)}"
        return Cause("not_found", text, advice="see which there are: mainspring queues list")
    advice = (
        "it was never committed, or its history was dropped by age; a key within a group is found "
        f"with its group; what waits: mainspring tasks list --queue {quote(queue)}"
    )
    return Cause("not_found", "there is no such visit, and none is in history", advice=advice)


def causes(row: Any) -> list[Cause]:
    """All causes that hold, the strongest first."""
    found = list(_stopping(row))
    if any(cause.name in ("parked", "running", "orphaned") for cause in found):
        return [*found, *_hanging(row)]
    found += _serving(row)
    found += _crowding(row)
    found += _hanging(row)
    if not found and row["suspect"]:
        text = (
            "the worker that had read it died: such visits are tried a few at a time, so that one "
            f"that kills workers is found; {row['ahead']} are before it in its queue"
        )
        found.append(Cause("suspect", text, {"ahead": row["ahead"]}))
    if not found:
        text = f"nothing holds it back: {row['ahead']} are before it in its queue"
        found.append(Cause("about_to_run", text, {"ahead": row["ahead"]}))
    return found


def _stopping(row: Any) -> Iterator[Cause]:
    """What the row itself says."""
    now = row["now"]
    if row["parked_at"] is not None:
        facts = {
            "since": row["parked_at"],
            "attempt": max(1, row["attempt"]),
            "crashes": row["crashes"],
            "error": row["error"],
            "offered_while_parked": row["offered_while_parked"],
        }
        text = f"parked since {instant(row['parked_at'])}: {_first_line(row)}"
        advice = f"restart it when its reason is gone: {_restart(row)}"
        yield Cause("parked", text, facts, advice)
        return
    if row["held"]:
        yield _held(row)
        return
    if row["expires_at"] is not None and row["expires_at"] <= now:
        yield Cause(
            "expired", f"expired at {instant(row['expires_at'])}", {"at": row["expires_at"]}
        )
    if row["due_at"] > now:
        facts = {"due_at": row["due_at"], "seconds": (row["due_at"] - now).total_seconds()}
        if row["attempt"]:
            failures = row["attempt"]
            facts |= {"failures": failures, "attempt": failures + 1, "error": row["error"]}
            again = f"failed {counted(failures, 'time')}, will be tried again at {instant(row['due_at'])}"
            text = f"{again}: {_first_line(row)}"
            yield Cause("backoff", text, facts)
        else:
            yield Cause("scheduled", f"due at {instant(row['due_at'])}", facts)


def _held(row: Any) -> Cause:
    facts = {
        "holder": row["holder"],
        "host": row["holder_host"],
        "process": row["holder_process"],
        "since": row["started_at"],
        "until": row["held_until"],
        "silent_seconds": row["holder_silent"],
    }
    if not row["holder_lives"] and row["held_until"] is None:
        return Cause("orphaned", f"its worker {row['holder']} is gone", facts)
    until = f" until {instant(row['held_until'])}" if row["held_until"] else ""
    where = f"{row['holder_host']} process {row['holder_process']}"
    text = f"run by {where} since {instant(row['started_at'])}{until}"
    if row["holder_silent"] is None:
        text += "; that worker is gone"
    elif row["holder_silent"] >= SILENT_SECONDS:
        text += f"; that worker has been silent for {row['holder_silent']:.0f} s"
    return Cause("running", text, facts)


def _serving(row: Any) -> Iterator[Cause]:
    """Whether anybody would run it."""
    if not row["known"]:
        yield Cause("unknown_queue", f"no code has declared queue {row['queue']!r}; it is kept")
        return
    if row["paused_at"] is not None:
        text = f"queue {row['queue']!r} is paused since {instant(row['paused_at'])}"
        yield Cause("paused", text, {"since": row["paused_at"]})
    facts = {"pool": row["pool"], "pool_workers": row["pool_workers"]}
    if not row["workers"]:
        some = f"{counted(row['pool_workers'], 'worker', 'is', 'are')} in its pool {row['pool']!r}"
        text = f"no worker serves queue {row['queue']!r}; {some}"
        yield Cause("no_worker", text, facts)
    elif row["owner"] is None:
        yield Cause(
            "no_owner",
            f"shard {row['shard']} of pool {row['pool']!r} has no owner at the moment",
            {**facts, "shard": row["shard"]},
        )
    elif not row["owner_serves"]:
        owner = f"{row['owner_host']} process {row['owner_process']}"
        before = row["workers_before"]
        yield Cause(
            "owner_lacks_queue",
            f"shard {row['shard']} of pool {row['pool']!r} is read by {owner}, whose application "
            f"does not declare queue {row['queue']!r}",
            {**facts, "shard": row["shard"], "owner": row["owner"], "workers_before": before},
            advice=_REPLACE_BEFORE.format(counted(before, "worker")) if before else "",
        )
    elif row["owner_silent"] >= SILENT_SECONDS:
        owner = f"{row['owner_host']} process {row['owner_process']}"
        yield Cause(
            "owner_silent",
            f"shard {row['shard']} of pool {row['pool']!r} is read by {owner}, which has been "
            f"silent for {row['owner_silent']:.0f} s",
            {
                **facts,
                "shard": row["shard"],
                "owner": row["owner"],
                "silent_seconds": row["owner_silent"],
            },
        )


def _crowding(row: Any) -> Iterator[Cause]:
    """What other runs and limits keep it from."""
    limit, running = row["group_concurrency"], row["group_running"] or 0
    if row["grp"] is not None and limit is not None and running >= limit:
        facts = {
            "group": row["grp"],
            "running": running,
            "limit": limit,
            "key": user_key(row["group_key"]),
            "holder": row["group_holder"],
            "since": row["group_started_at"],
        }
        text = f"group {row['grp']!r} is busy: {running} of {limit} run, first {facts['key']!r}"
        yield Cause("group_busy", text, facts)
    if row["turn_queue"] is not None:
        facts = {"queue": row["turn_queue"], "holder": row["turn_holder"]}
        yield Cause("turn_busy", f"its key is being run by queue {row['turn_queue']!r}", facts)
    if row["concurrency"] is not None and row["running"] >= row["concurrency"]:
        facts = {"running": row["running"], "limit": row["concurrency"]}
        text = f"{row['running']} of at most {row['concurrency']} runs of its queue are under way"
        yield Cause("queue_full", text, facts)
    if row["rate"] is not None and row["ahead"] > row["rate"]:
        facts = {"rate": row["rate"], "ahead": row["ahead"]}
        text = f"{row['ahead']} are before it, and {row['rate']:g} a second may start"
        yield Cause("rate_limited", text, facts)


def _hanging(row: Any) -> Iterator[Cause]:
    """Runs of it that were overtaken or told to end, and did not."""
    hanging = decoded(row["hanging"])
    if hanging:
        first = hanging[0]
        since = instant(datetime.fromisoformat(first["since"]))
        verb = (
            "was overtaken or stopped and still hangs",
            "were overtaken or stopped and still hang",
        )
        where = f"{first['host']} process {first['process']}"
        text = f"{counted(len(hanging), 'run', *verb)}, the oldest in {where} since {since}"
        yield Cause("hanging", text, {"runs": len(hanging), "since": since, **_process_of(first)})


def _process_of(run: Mapping[str, Any]) -> dict[str, Any]:
    return {"host": run["host"], "process": run["process"]}


def _restart(row: Any) -> str:
    """The command that restarts a parked visit."""
    words = ["mainspring", "parked", "restart", "--queue", row["queue"]]
    words += ["--key", user_key(row["key"])]
    if row["grp"] is not None:
        words += ["--group", row["grp"]]
    return join(words)


def _first_line(row: Any) -> str:
    return (row["error"] or "no error is known").splitlines()[0][:200]
