"""Why a visit has not run: named causes with facts, from one look at the database.

The rules are pure: `causes` takes what `explain_visit.sql` answered. Several causes may hold at
once; the first is the one to look at first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from shlex import join, quote
from typing import NamedTuple
from uuid import UUID

import msgspec

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.operate.breakers import OpenBreaker
from mainspring.operate.history import HistoryFilter, PastRun, search_history
from mainspring.operate.keys import stored_keys, user_key
from mainspring.operate.parked import restart_command
from mainspring.operate.queues import list_names, nearest_queue, pause_text
from mainspring.operate.statements import SQL
from mainspring.operate.status import read_away, read_hanging
from mainspring.operate.visits import find_visit
from mainspring.phrases import counted, instant
from mainspring.redact import read_rules

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
    "away": "nothing: it is tried again, at most 30 s apart; see that it is up, and that its address and "
    "credentials are right",
    "coming_back": "nothing: twice as many may run after each that succeeds",
    "breaker_open": "nothing: one run is tried then; sooner with mainspring queues close-breaker",
    "breaker_tried": "nothing: each success lets twice as many run, a failure opens it again",
    "no_worker": "start a worker whose application declares the queue, in its pool",
    "waiting_for_remote": "start the actor that pulls these tasks",
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
    facts: Mapping[str, object] = field(default_factory=dict)
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

    def __str__(self) -> str:
        """As `mainspring why` tells it: the causes, and the last runs below them."""
        told = [f"{c.name}: {c.text}\n  what to do: {c.remedy}" for c in self.causes]
        for run in self.last_runs:
            error = f": {run.error.splitlines()[0]}" if run.error else ""
            told.append(f"{instant(run.ended_at)}, attempt {run.attempt}: {run.outcome}{error}")
        return "\n".join(told)


class VisitFacts(NamedTuple):
    """All that one look finds about a visit: its row, its queue, its shard's owner, others before it."""

    queue: str
    key: str
    id: UUID
    grp: str | None
    priority: int
    shard: int
    due_at: datetime
    attempt: int
    crashes: int
    error: str | None
    parked_at: datetime | None
    offered_while_parked: bool
    expires_at: datetime | None
    called_off: str | None
    held: bool
    holder: UUID | None
    holder_host: str | None
    holder_process: int | None
    holder_lives: bool
    holder_silent: float | None
    started_at: datetime | None
    held_until: datetime | None
    now: datetime
    known: bool
    pool: str | None
    kind: str | None
    paused_at: datetime | None
    paused_until: datetime | None
    pause_reason: str | None
    concurrency: int | None
    rate: float | None
    group_concurrency: int | None
    group_rate: float | None
    owner: UUID | None
    owner_host: str | None
    owner_process: int | None
    owner_silent: float | None
    owner_serves: bool
    suspect: bool
    pool_workers: int
    workers: int
    workers_before: int
    running: int | None
    group_running: int | None
    group_key: str | None
    group_holder: UUID | None
    group_started_at: datetime | None
    turn_queue: str | None
    turn_holder: UUID | None
    turn_started_at: datetime | None
    ahead: int
    hanging: str | None
    away: str | None
    breakers: str | None


_breakers = msgspec.json.Decoder(list[OpenBreaker]).decode


async def why_visit(
    database: Database, tx: Tx, queue: str, key: str, group: str | None = None
) -> Why:
    """Why a visit has not run; if it is not there, what became of it."""
    keys = stored_keys(key, group)
    visit = await tx.first(SQL["explain_visit"], VisitFacts, queue=queue, keys=keys, grp=group)
    wanted = HistoryFilter(queue=queue, key=key, group=group)
    past = await search_history(database, tx, wanted, limit=5)
    if visit is not None:
        if visit.error is not None and (await read_rules(tx)).of(queue):
            found = await find_visit(database, tx, key, queue=queue, group=visit.grp)
            visit = visit._replace(error=found[0].error if found else None)
        return Why(queue, key, visit.grp, causes(visit), past)
    return Why(queue, key, group, [_missing(queue, await list_names(tx), past)], past)


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


def causes(visit: VisitFacts) -> list[Cause]:
    """All causes that hold, the strongest first."""
    found = list(_stopping(visit))
    if any(cause.name in ("parked", "running", "orphaned") for cause in found):
        return [*found, *_hanging(visit)]
    found += _serving(visit)
    found += _away(visit)
    found += _breaking(visit)
    found += _crowding(visit)
    found += _hanging(visit)
    if not found and visit.suspect:
        text = (
            "the worker that had read it died: such visits are tried a few at a time, so that one "
            f"that kills workers is found; {visit.ahead} are before it in its queue"
        )
        found.append(Cause("suspect", text, {"ahead": visit.ahead}))
    if not found:
        text = f"nothing holds it back: {visit.ahead} are before it in its queue"
        found.append(Cause("about_to_run", text, {"ahead": visit.ahead}))
    return found


def _stopping(visit: VisitFacts) -> Iterator[Cause]:
    """What the row itself says."""
    now = visit.now
    if visit.parked_at is not None:
        facts = {
            "since": visit.parked_at,
            "attempt": max(1, visit.attempt),
            "crashes": visit.crashes,
            "error": visit.error,
            "offered_while_parked": visit.offered_while_parked,
        }
        text = f"parked since {instant(visit.parked_at)}: {_first_line(visit)}"
        advice = f"restart it when its reason is gone: {restart_command(visit.queue, visit.key, visit.grp)}"
        yield Cause("parked", text, facts, advice)
        return
    if visit.held:
        yield _held(visit)
        return
    if visit.expires_at is not None and visit.expires_at <= now:
        yield Cause("expired", f"expired at {instant(visit.expires_at)}", {"at": visit.expires_at})
    if visit.due_at > now:
        facts = {"due_at": visit.due_at, "seconds": (visit.due_at - now).total_seconds()}
        if visit.attempt:
            failures = visit.attempt
            facts |= {"failures": failures, "attempt": failures + 1, "error": visit.error}
            again = f"failed {counted(failures, 'time')}, will be tried again at {instant(visit.due_at)}"
            text = f"{again}: {_first_line(visit)}"
            yield Cause("backoff", text, facts)
        else:
            yield Cause("scheduled", f"due at {instant(visit.due_at)}", facts)


def _held(visit: VisitFacts) -> Cause:
    facts = {
        "holder": visit.holder,
        "host": visit.holder_host,
        "process": visit.holder_process,
        "since": visit.started_at,
        "until": visit.held_until,
        "silent_seconds": visit.holder_silent,
    }
    if not visit.holder_lives and visit.held_until is None:
        return Cause("orphaned", f"its worker {visit.holder} is gone", facts)
    until = f" until {instant(visit.held_until)}" if visit.held_until else ""
    if visit.kind == "remote" and visit.holder is None:
        return Cause("running", f"run by an actor elsewhere{until}", facts)
    where = f"{visit.holder_host} process {visit.holder_process}"
    since = f" since {instant(visit.started_at)}" if visit.started_at else ""
    text = f"run by {where}{since}{until}"
    if visit.holder_silent is None:
        text += "; that worker is gone"
    elif visit.holder_silent >= SILENT_SECONDS:
        text += f"; that worker has been silent for {visit.holder_silent:.0f} s"
    if visit.called_off is not None:
        text += f"; it is told to end: {visit.called_off}"
    return Cause("running", text, facts)


def _serving(visit: VisitFacts) -> Iterator[Cause]:
    """Whether anybody would run it."""
    if not visit.known:
        yield Cause("unknown_queue", f"no code has declared queue {visit.queue!r}; it is kept")
        return
    if visit.paused_at is not None:
        pause = pause_text(visit.paused_at, visit.paused_until, visit.pause_reason)
        until, reason = visit.paused_until, visit.pause_reason
        stands = {"since": visit.paused_at, "until": until, "reason": reason}
        advice = join(["mainspring", "queues", "resume", visit.queue])
        yield Cause("paused", f"queue {visit.queue!r} is paused {pause}", stands, advice)
    if visit.kind == "remote":
        ahead = f"; {counted(visit.ahead, 'call', 'is', 'are')} before it" if visit.ahead else ""
        text = f"an actor elsewhere is to pull it{ahead}"
        yield Cause("waiting_for_remote", text, {"ahead": visit.ahead})
        return
    facts = {"pool": visit.pool, "pool_workers": visit.pool_workers}
    if not visit.workers:
        some = f"{counted(visit.pool_workers, 'worker', 'is', 'are')} in its pool {visit.pool!r}"
        text = f"no worker serves queue {visit.queue!r}; {some}"
        yield Cause("no_worker", text, facts)
    elif visit.owner is None:
        yield Cause(
            "no_owner",
            f"shard {visit.shard} of pool {visit.pool!r} has no owner at the moment",
            {**facts, "shard": visit.shard},
        )
    elif not visit.owner_serves:
        owner = f"{visit.owner_host} process {visit.owner_process}"
        before = visit.workers_before
        yield Cause(
            "owner_lacks_queue",
            f"shard {visit.shard} of pool {visit.pool!r} is read by {owner}, whose application "
            f"does not declare queue {visit.queue!r}",
            {**facts, "shard": visit.shard, "owner": visit.owner, "workers_before": before},
            advice=_REPLACE_BEFORE.format(counted(before, "worker")) if before else "",
        )
    elif visit.owner_silent is not None and visit.owner_silent >= SILENT_SECONDS:
        owner = f"{visit.owner_host} process {visit.owner_process}"
        yield Cause(
            "owner_silent",
            f"shard {visit.shard} of pool {visit.pool!r} is read by {owner}, which has been "
            f"silent for {visit.owner_silent:.0f} s",
            {
                **facts,
                "shard": visit.shard,
                "owner": visit.owner,
                "silent_seconds": visit.owner_silent,
            },
        )


def _away(visit: VisitFacts) -> Iterator[Cause]:
    """Whom its runs need, as the worker that reads its shard finds them."""
    for found in read_away(visit.away or "[]"):
        facts = {
            "endpoint": found.endpoint,
            "since": found.since,
            "reason": found.reason,
            "at_once": found.at_once,
            "host": visit.owner_host,
            "process": visit.owner_process,
        }
        yield Cause("coming_back" if found.reason is None else "away", found.text, facts)


def _breaking(visit: VisitFacts) -> Iterator[Cause]:
    """Breakers of its queue and of its group that are not closed."""
    for found in _breakers(visit.breakers or "[]"):
        name = "breaker_open" if found.is_open else "breaker_tried"
        yield Cause(name, found.text, msgspec.structs.asdict(found))


def _crowding(visit: VisitFacts) -> Iterator[Cause]:
    """What other runs and limits keep it from."""
    limit, running = visit.group_concurrency, visit.group_running or 0
    if visit.grp is not None and limit is not None and running >= limit:
        facts = {
            "group": visit.grp,
            "running": running,
            "limit": limit,
            "key": user_key(visit.group_key or ""),
            "holder": visit.group_holder,
            "since": visit.group_started_at,
        }
        text = f"group {visit.grp!r} is busy: {running} of {limit} run, first {facts['key']!r}"
        yield Cause("group_busy", text, facts)
    if visit.turn_queue is not None:
        facts = {"queue": visit.turn_queue, "holder": visit.turn_holder}
        yield Cause("turn_busy", f"its key is being run by queue {visit.turn_queue!r}", facts)
    if visit.concurrency is not None and (visit.running or 0) >= visit.concurrency:
        facts = {"running": visit.running, "limit": visit.concurrency}
        text = f"{visit.running} of at most {visit.concurrency} runs of its queue are under way"
        yield Cause("queue_full", text, facts)
    if visit.rate is not None and visit.ahead > visit.rate:
        facts = {"rate": visit.rate, "ahead": visit.ahead}
        text = f"{visit.ahead} are before it, and {visit.rate:g} a second may start"
        yield Cause("rate_limited", text, facts)


def _hanging(visit: VisitFacts) -> Iterator[Cause]:
    """Runs of it that were overtaken or told to end, and did not."""
    if hanging := read_hanging(visit.hanging):
        first = hanging[0]
        since = instant(first.since)
        verb = (
            "was overtaken or stopped and still hangs",
            "were overtaken or stopped and still hang",
        )
        where = f"{first.host} process {first.process}"
        text = f"{counted(len(hanging), 'run', *verb)}, the oldest in {where} since {since}"
        facts = {"runs": len(hanging), "since": since, "host": first.host, "process": first.process}
        yield Cause("hanging", text, facts)


def _first_line(visit: VisitFacts) -> str:
    return (visit.error or "no error is known").splitlines()[0][:200]
