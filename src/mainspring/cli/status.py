"""`mainspring status`: workers, pools, queues, lag and throughput, once or live."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import msgspec
import typer

from mainspring.cli import options, show
from mainspring.cli.queues import COLUMNS, SHOWN, left_out, queue_row, shown_queues
from mainspring.cli.target import ask_host, existing
from mainspring.host import DatabaseHost
from mainspring.operate.breakers import BREAKERS
from mainspring.operate.doctor import UNSERVED
from mainspring.operate.status import AwayEndpoint, HangingRun, Status
from mainspring.phrases import counted
from mainspring.processes.operate.actors import Counts
from mainspring.reactive.operate.states import ReactiveLoad, TaskState


def status(
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it anew all the time.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.1, help="With --watch: seconds.")] = 1.0,
    exact: options.Exact = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Show workers, queues, lag and throughput of the last minute."""
    if watch and not json:
        with suppress(KeyboardInterrupt):
            asyncio.run(_watch(url, app, every))
        return
    sight = ask_host(lambda target: _read(target, exact=exact), url, app)
    if json:
        late = [{"task": task.task, "missed_at": task.missed_at} for task in sight.missed]
        more = {"missed": late, "reactive": sight.load, "recovered": sight.counted}
        known = {"database": sight.database, **_as_builtins(sight.status)}
        show.as_json({**known, **msgspec.to_builtins(more)})
    else:
        show.write(_shown(sight))


async def _watch(url: str | None, app: str | None, every: float) -> None:
    async with existing(url, app) as target:
        with show.live() as live:
            while True:
                live.update(_shown(await _read(target)), refresh=True)
                await asyncio.sleep(every)


class _Sight(msgspec.Struct):
    """What there is to show."""

    database: str  # which it is, without its password
    status: Status
    missed: list[TaskState]  # reactive tasks without the success that was expected (R14)
    load: list[ReactiveLoad]  # all reactive tasks, in numbers
    counted: list[Counts]  # what recovery did in the last hour (P3)


async def _read(target: DatabaseHost, *, exact: bool = False) -> _Sight:
    return _Sight(
        (await target.database()).shown,
        await target.operator.status(exact=exact),
        await target.reactive.tasks(missed_only=True),
        await target.reactive.load(),
        await target.operator.processes.counters(),
    )


def _as_builtins(found: Status) -> dict[str, object]:
    known: dict[str, object] = msgspec.to_builtins(found)
    return {
        **known,
        "lag_seconds": found.lag_seconds,
        "per_second": found.per_second,
        "unserved": [queue.name for queue in found.unserved],
        "away": [{**_fields(away), "workers": workers} for away, workers in found.away],
    }


def _fields(away: AwayEndpoint) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(away)
    return found


def _by_queue(runs: Sequence[HangingRun]) -> dict[str, list[HangingRun]]:
    found: dict[str, list[HangingRun]] = {}
    for run in runs:
        found.setdefault(run.queue, []).append(run)
    return found


def _shown(sight: _Sight) -> str:
    found = sight.status
    head = (
        f"{counted(len(found.workers), 'worker')}, lag {found.lag_seconds:.1f} s, "
        f"{found.per_second:.1f} runs/s in the last minute"
    )
    parts: list[str] = [show.line(sight.database), show.line(head)]
    workers = show.table(
        (
            "worker",
            "pool",
            "host",
            "process",
            "slots",
            "free",
            "shards",
            "holds",
            "silent",
            "since",
        ),
        (
            (
                str(w.id)[:8],
                w.pool,
                w.host,
                w.process,
                w.slots,
                w.free,
                w.shards,
                w.holds,
                f"{w.silent_seconds:.1f} s",
                w.started_at,
            )
            for w in found.workers
        ),
        title="workers",
    )
    pools = show.table(
        ("pool", "workers", "shards", "owned"),
        ((p.pool, p.workers, p.shards, p.owned) for p in found.pools),
        title="pools",
    )
    shown = shown_queues(found.queues)
    queues = show.table(COLUMNS, map(queue_row, shown[:SHOWN]), title="queues")
    parts += [made for made in (workers, pools, queues) if made]
    if left := left_out(shown, SHOWN):
        parts.append(show.line(f"{left}; mainspring queues list --limit {len(shown)} shows all"))
    for queue in found.unserved[:UNSERVED]:
        parts.append(show.line(f"{queue.waits} in queue {queue.name!r}{found.whom_unserved_lack}"))
    if (more := len(found.unserved) - UNSERVED) > 0:
        parts.append(show.line(f"and in {counted(more, 'more queue')}{found.whom_unserved_lack}"))
    for away, finders in found.away:
        waits = f"{', '.join(away.queues)}; so {counted(finders, 'worker')} found"
        parts.append(show.line(f"{away.text} ({waits})"))
    parts += [show.line(breaker.text) for breaker in found.breakers[:BREAKERS]]
    if (more := len(found.breakers) - BREAKERS) > 0:
        parts.append(show.line(f"and {counted(more, 'more breaker')}: mainspring queues breakers"))
    for worker in found.workers:
        for name, runs in _by_queue(worker.hanging).items():
            hanging = counted(len(runs), "run", "hangs", "hang")
            since = show.cell(min(run.started_at for run in runs))
            parts.append(
                show.line(
                    f"{hanging} in queue {name!r}, overtaken or stopped and still under way in "
                    f"{worker.host} process {worker.process}, the oldest since {since}"
                )
            )
    if sight.load:
        parts.append(
            show.table(
                ("pool", "tasks", "ready", "running", "failing", "missed", "paused", "retired"),
                (
                    (p.pool, p.tasks, p.ready, p.running, p.failing, p.missed, p.paused, p.retired)
                    for p in sight.load
                ),
                title="reactive tasks",
            )
        )
    for task in sight.missed:
        parts.append(
            show.line(f"{task.task} missed its expectation at {show.cell(task.missed_at)}")
        )
    for counts in sight.counted:
        listed = ", ".join(counted(n, name.replace("_", " ")) for name, n in counts.counts.items())
        parts.append(show.line(f"{counts.actor} in the last hour: {listed}"))
    return "\n".join(parts)
