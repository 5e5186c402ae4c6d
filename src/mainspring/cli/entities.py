"""`mainspring entities`: kinds of entities and their stages; offer, peek, check, delete, crawl, skip."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli import codes, options, show
from mainspring.cli.entity import print_entity
from mainspring.cli.group import CommandGroup
from mainspring.cli.operations import show_begun
from mainspring.cli.target import ask
from mainspring.entities.declare.consumer import relay_queue
from mainspring.entities.operate.operator import LAST_ASKED, AskFailures
from mainspring.entities.operate.why import KindLoad
from mainspring.errors import InvalidSetting
from mainspring.jobs import Operation
from mainspring.operate.queues import QueueLoad
from mainspring.operator import Operator

group = typer.Typer(
    cls=CommandGroup,
    help="Entities and their stages. An id of several columns is a JSON array of texts.",
    no_args_is_help=True,
)
Kind = Annotated[str, typer.Argument(help="The kind of entities.")]
Id = Annotated[str, typer.Argument(help="The entity's id.")]
Stage = Annotated[str | None, typer.Option("--stage", "-s", help="Of this stage.")]
Consumer = Annotated[str, typer.Argument(help="A stage with a saved hook, or a sink.")]
OfConsumer = Annotated[str | None, typer.Option("--consumer", help="Of this consumer.")]
Crawl = Annotated[bool, typer.Option("--crawl", help="Its queue of the crawl lane.")]


@group.command("list")
def list_kinds(
    url: options.Url = None, app: options.App = None, json: options.Json = False
) -> None:
    """All kinds of entities with what lies in their queues."""
    found = ask(lambda operator: operator.entities.kinds(), url, app)
    if json:
        show.as_json(found)
        return
    columns = ("kind", "source", "stages", "waiting", "scheduled", "running", "parked", "crawl")
    show.print_table(columns, map(_kind_row, found), empty="there are no kinds of entities yet")


def _kind_row(kind: KindLoad) -> tuple[object, ...]:
    return (
        kind.name,
        kind.source,
        ", ".join(kind.stages),
        kind.waiting,
        kind.scheduled,
        kind.running,
        kind.parked,
        None if kind.crawl is None else f"operation {kind.crawl}",
    )


@group.command()
def stages(
    kind: Kind, url: options.Url = None, app: options.App = None, json: options.Json = False
) -> None:
    """The queues of a kind: system, stages, both lanes, relays."""

    async def question(operator: Operator) -> tuple[list[QueueLoad], list[AskFailures]]:
        failures = await operator.entities.ask_failures(kind)
        mine = (f"{kind}/", f"{kind}!")
        queues = [
            q
            for q in await operator.queues()
            if q.name in (kind, f"{kind}~") or q.name.startswith(mine)
        ]
        return queues, failures

    found, failures = ask(question, url, app)
    if json:
        show.as_json(found)
        return
    columns = ("queue", "workers", "waiting", "scheduled", "running", "parked", "lag s", "paused")
    rows = (
        (
            q.name,
            q.workers,
            q.waiting,
            q.scheduled,
            q.running,
            q.parked,
            q.lag_seconds,
            q.pause or None,
        )
        for q in found
    )
    show.print_table(columns, rows, empty=f"kind {kind!r} has no queues yet: start a worker")
    for f in failures:
        last = f", last {f.last}" if f.last else ""
        show.say(
            f"should_process of {f.stage!r} failed {f.failed} and overran {f.overran} times in the last "
            f"{LAST_ASKED:,} system visits; its entities were queued unasked{last}"
        )


@group.command("show")
def show_entity(
    kind: Kind,
    id: Id,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """An entity: its queues, timers, states, events on their way, and who changed what."""
    print_entity(ask(lambda operator: operator.entities.why(kind, id), url, app), json=json)


@group.command()
def offer(
    kind: Kind,
    id: Id,
    stage: Stage = None,
    at: Annotated[str | None, typer.Option(help="A time with zone; else now.")] = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Offer an entity to a stage, or (without one) have all stages asked about it."""

    async def order(operator: Operator) -> bool:
        due_at = await options.moment(operator, "at", at)
        return await operator.entities.offer(kind, id, stage=stage, at=due_at)

    changed = ask(order, url, app)
    if json:
        show.as_json({"kind": kind, "id": id, "stage": stage, "changed": changed})
        return
    to = f"stage {stage!r}" if stage else "all stages"
    was = "" if changed else " (it was due no later before; it will be visited again)"
    show.say(f"{kind} {id} is offered to {to}{was}")


@group.command()
def peek(
    kind: Kind,
    stage: Stage = None,
    limit: options.Limit = 50,
    crawl: Crawl = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """The first entities of a stage's queue (without one: of the system's)."""
    found = ask(
        lambda operator: operator.entities.peek(kind, stage=stage, limit=limit, crawl=crawl),
        url,
        app,
    )
    if json:
        show.as_json(found)
        return
    rows = ((p.key, p.due_at, p.priority, p.attempt) for p in found)
    show.print_table(("id", "due", "priority", "failures"), rows, empty="the queue is empty")


@group.command()
def check(
    kind: Kind,
    id: Id,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """In which queues an entity is, and when it is due there."""
    found = ask(lambda operator: operator.entities.check(kind, id), url, app)
    if json:
        show.as_json(found)
        return
    rows = ((e.queue, e.lane, e.state, e.due_at, e.attempt) for e in found)
    columns = ("queue", "lane", "state", "due", "failures")
    show.print_table(columns, rows, empty="in no queue: at rest")


@group.command()
def delete(
    kind: Kind,
    id: Id,
    stage: Stage = None,
    crawl: Crawl = False,
    force: Annotated[bool, typer.Option("--force", help="The system's entry too.")] = False,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Take an entity out of a stage's queue, its timer with it. The entity itself stays."""
    if stage is None and not force:
        raise InvalidSetting("name a --stage; the system's entry is deleted with --force only")
    gone = ask(
        lambda operator: operator.entities.delete(kind, id, stage=stage, crawl=crawl, force=force),
        url,
        app,
    )
    place = f"the queue of {f'stage {stage!r}' if stage else 'the system stage'}"
    show.say(f"{kind} {id} was {'taken out of' if gone else 'not in'} {place}")
    if not gone:
        raise typer.Exit(codes.NOT_FOUND)


@group.command()
def crawl(
    kind: Kind,
    stage: Annotated[list[str] | None, typer.Option("--stage", "-s", help="Only this.")] = None,
    rate: Annotated[float | None, typer.Option(help="Entities a second.")] = None,
    pause_if_lag: Annotated[float, typer.Option(help="Seconds that live visits may lag.")] = 5.0,
    after_deploy: Annotated[
        bool, typer.Option("--after-deploy", help="Begin when the workers of now are gone.")
    ] = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Ask every stage about every entity again, beside the live changes."""
    begun = ask(
        lambda operator: operator.entities.crawl(
            kind,
            stages=stage or None,
            rate=rate,
            pause_if_lag=pause_if_lag,
            after_deploy=after_deploy,
            source=options.source(),
            dry_run=dry_run,
        ),
        url,
        app,
    )
    show_begun(begun, json=json)


@group.command("resend")
def resend_entities(
    kind: Kind,
    consumer: Consumer,
    rate: Annotated[float | None, typer.Option(help="Entities a second.")] = None,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Tell one consumer what every entity is now, by events with new numbers."""
    begun = ask(
        lambda operator: operator.entities.resend(
            kind, consumer, rate=rate, source=options.source(), dry_run=dry_run
        ),
        url,
        app,
    )
    show_begun(begun, json=json)


@group.command("replay")
def replay_events(
    kind: Kind,
    consumer: Consumer,
    since: Annotated[str, typer.Option(help="The number of an event, or a time with zone.")],
    rate: Annotated[float | None, typer.Option(help="Events a second.")] = None,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Bring one consumer the kept events again, with their old numbers (keep_events)."""

    async def order(operator: Operator) -> Operation:
        first = int(since) if since.isdigit() else await options.moment(operator, "since", since)
        assert first is not None, "it was given"
        return await operator.entities.replay(
            kind, consumer, since=first, rate=rate, source=options.source(), dry_run=dry_run
        )

    show_begun(ask(order, url, app), json=json)


@group.command()
def skip(
    kind: Kind,
    id: Id,
    consumer: Consumer,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Drop the first event that waits for a consumer; those behind it go on."""
    number = ask(lambda operator: operator.entities.skip(kind, id, consumer), url, app)
    show.say(f"event {number} of {kind} {id} is skipped for {consumer!r}")


@group.command()
def retire(
    kind: Kind,
    stage: Stage = None,
    consumer: OfConsumer = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Take a stage, or a consumer with what waits for it, out of a kind that no code has any more."""
    if (stage is None) == (consumer is None):
        raise InvalidSetting("name a --stage or a --consumer")
    if stage is not None:
        ask(lambda operator: operator.entities.retire_stage(kind, stage), url, app)
        show.say(f"stage {stage!r} of {kind!r} is asked no more; what waits in its queue stays")
        return
    assert consumer is not None
    gone = ask(lambda operator: operator.entities.retire_consumer(kind, consumer), url, app)
    show.say(f"consumer {consumer!r} of {kind!r} is retired; {gone} deliveries were dropped")


@group.command()
def drop(kind: Kind, url: options.Url = None, app: options.App = None) -> None:
    """Forget a kind that no code has any more, its triggers first. The entities stay."""
    gone = ask(lambda operator: operator.entities.drop_kind(kind), url, app)
    show.say(f"kind {kind!r} is forgotten, {gone} visits with it; its entities are as they were")


@group.command()
def pause(
    kind: Kind,
    stage: Stage = None,
    consumer: OfConsumer = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Visit nothing of a stage (without one: ask nobody) until it is resumed; both lanes. With a consumer:
    send it nothing."""

    async def order(operator: Operator) -> None:
        for queue in _queues(kind, stage, consumer):
            await operator.pause(queue)

    ask(order, url, app)
    show.say(f"{_place(kind, stage, consumer)} is paused")


@group.command()
def resume(
    kind: Kind,
    stage: Stage = None,
    consumer: OfConsumer = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Undo a pause."""

    async def order(operator: Operator) -> None:
        for queue in _queues(kind, stage, consumer):
            await operator.resume(queue)

    ask(order, url, app)
    show.say(f"{_place(kind, stage, consumer)} goes on")


@group.command()
def limit(
    kind: Kind,
    stage: Annotated[str, typer.Option("--stage", "-s", help="Of this stage.")],
    rate: Annotated[float | None, typer.Option(help="Calls of process a second.")] = None,
    parallel: Annotated[int | None, typer.Option(help="Calls at once.")] = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Limit the load on a stage, over all workers, until the code declares something else."""
    given: dict[str, float | None] = {}
    if rate is not None:
        given["rate"] = rate
    if parallel is not None:
        given["concurrency"] = parallel
    if not given:
        raise InvalidSetting("name a limit: --rate or --parallel")

    async def order(operator: Operator) -> None:
        for queue in _queues(kind, stage):
            await operator.limit(queue, source=options.source(), **given)

    ask(order, url, app)
    show.say(f"{_place(kind, stage)}: " + ", ".join(f"{n} {v:g}" for n, v in given.items() if v))


def _queues(kind: str, stage: str | None, consumer: str | None = None) -> tuple[str, ...]:
    if consumer is not None:
        if stage is not None:
            raise InvalidSetting("name a --stage or a --consumer, not both")
        return (relay_queue(kind, consumer),)
    live = f"{kind}/{stage}" if stage else kind
    return live, f"{live}~"


def _place(kind: str, stage: str | None, consumer: str | None = None) -> str:
    if consumer is not None:
        return f"what is sent to {consumer!r} of {kind!r}"
    return f"stage {stage!r} of {kind!r}" if stage else f"the system stage of {kind!r}"
