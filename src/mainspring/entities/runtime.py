"""The stages of an application inside one worker: their queues, handlers, loaders and writers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from mainspring.db.database import Database
from mainspring.db.shared import Haste, SharedLine
from mainspring.db.tx import Tx
from mainspring.endpoint import Endpoint
from mainspring.entities.crawl import schedule
from mainspring.entities.declare import catalogue, consumer
from mainspring.entities.declare.catalogue import Known
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.model import Model
from mainspring.entities.declare.partial_model import model_of, seen_fields
from mainspring.entities.declare.stage import Stage
from mainspring.entities.declare.stage_declaration import check_stages
from mainspring.entities.declare.table import Shape
from mainspring.entities.offers import Offering
from mainspring.entities.outbox.relay import Relay
from mainspring.entities.register import register_kinds
from mainspring.entities.remote.asking import QuestionLine
from mainspring.entities.remote.hearing import hearers
from mainspring.entities.remote.items import StageRef
from mainspring.entities.remote.peer import StagePeer
from mainspring.entities.remote.peers import MakeCalls, Peers
from mainspring.entities.remote.remote_run import ProcessLine, RemoteRunner
from mainspring.entities.save.change import Patcher
from mainspring.entities.save.saver import Saver
from mainspring.entities.source.choose import fields_of, source_of, writable
from mainspring.entities.source.loader import Loader, LoadNeed, Prefetched
from mainspring.entities.source.rows import PRINTING
from mainspring.entities.visit.stage_run import StageRunner
from mainspring.entities.visit.system import StageAsker, Viewed
from mainspring.kernel import (
    MOST_HANGING,
    Handler,
    Outcome,
    QueueSettings,
    Run,
    WorkerPort,
)

MOST_SLOTS = 10_000
log = logging.getLogger("mainspring")


class KindRuntime:
    """One kind in one worker."""

    def __init__(
        self,
        kind: DeclaredKind,
        shape: Shape | None,
        database: Database,
        line: SharedLine,
        threads: ThreadPoolExecutor,
        peers: Peers,
    ) -> None:
        self.kind = kind
        self.known = Known(kind.name)
        source = source_of(kind, shape, loaded_fields(kind))
        prefetched = Prefetched()
        self._loader = loader = Loader(kind.name, source, self.known, prefetched, database, line)
        ignore = frozenset(kind.ignore)
        self.saver = Saver(
            kind.name,
            source,
            self.known,
            prefetched,
            ignore=ignore,
            version=kind.version,
            keeps=kind.settings.keep_events is not None,
        )
        viewed = {name: Viewed(s, model_of(kind, s)) for name, s in kind.stages.items()}
        offering = Offering()
        jitter = {name: jitter_of(kind, stage) for name, stage in kind.stages.items()}
        asking = (kind.name, viewed, self.known, loader, offering)
        fields = fields_of(kind, shape)
        having = partial(StageAsker, *asking, fields=fields, jitter=jitter)
        elsewhere = {
            name: QuestionLine(peers.of(stage), stage)
            for name, stage in kind.stages.items()
            if stage.remote is not None and stage.remote.asks
        }
        self.asker = having(crawl=False, elsewhere=elsewhere)
        self.crawl_asker = having(crawl=True, elsewhere=elsewhere)
        self._handlers: dict[str, Handler] = {
            kind.name: self.asker.handle,
            f"{kind.name}~": self.crawl_asker.handle,
        }
        self._endpoints: dict[str, Endpoint] = {}  # of stages elsewhere
        loader.needs[kind.name] = LoadNeed(None, None, self.asker.has_to_see)
        loader.needs[f"{kind.name}~"] = LoadNeed(None, None, self.crawl_asker.has_to_see)
        for stage in kind.stages.values():
            model = Model(kind.name) if stage.remote else viewed[stage.name].model
            patcher = patcher_of(kind, stage, model, shape)
            needs = (viewed[stage.name], loader, self.saver, offering, threads, patcher)
            runner: Callable[..., StageRunner] = StageRunner
            if stage.remote is not None:
                runner = remote_runner(peer := peers.of(stage), stage)
                self._endpoints[stage.name] = peer.endpoint
            for queue, crawl in ((stage.queue, False), (stage.crawl_queue, True)):
                self._handlers[queue] = runner(*needs, crawl=crawl).handle
                loader.needs[queue] = LoadNeed(stage.name, stage.queue if crawl else "")

    def queues(self) -> list[QueueSettings]:
        """The kind's queues with their handlers."""
        queues = kind_queues(self.kind, self._handlers, self._endpoints)
        if self.kind.dao is not None:
            return queues  # the user's own code may take long, and whoever reads would wait for it
        return [replace(queue, prepare=self._loader.prepare) for queue in queues]

    async def close(self) -> None:
        await self._loader.close()


class Runtime:
    """All kinds of an application in one worker."""

    def __init__(
        self,
        database: Database,
        worker: WorkerPort,
        kinds: Iterable[DeclaredKind],
        shapes: Mapping[str, Shape],
        *,
        threads: int,
        calls: MakeCalls | None = None,
    ) -> None:
        self._peers = Peers(calls)
        shared = worker.line("loader", settings=PRINTING)
        # One for each slot, and for each run that hangs beside them.
        self._threads = ThreadPoolExecutor(
            threads + MOST_HANGING, thread_name_prefix="mainspring.stage"
        )
        self.kinds: dict[str, KindRuntime] = {}
        for kind in kinds:
            line = shared
            if kind.dao is not None:  # the user's own code may take long: its kind alone waits
                line = worker.line("dao", Haste.LONG, PRINTING)
            self.kinds[kind.name] = KindRuntime(
                kind, shapes.get(kind.name), database, line, self._threads, self._peers
            )
        declared = {name: runtime.kind for name, runtime in self.kinds.items()}
        told = hearers(self._peers, declared.values())
        self._relay = Relay(worker.line(), list(declared.values()), self._threads, told)

    def queues(self) -> list[QueueSettings]:
        """The queues of all kinds and of their relays."""
        queues = [queue for kind in self.kinds.values() for queue in kind.queues()]
        return [*queues, *self._relay.queues()]

    async def close(self) -> None:
        await self._relay.close()
        await self._peers.close()
        for kind in self.kinds.values():
            await kind.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


async def register_stages(tx: Tx, kinds: Iterable[DeclaredKind]) -> None:
    """Enter the stages of registered kinds in their catalogues."""
    for kind in kinds:
        fresh = await catalogue.register(tx, kind.name, kind.stages.values())
        if fresh:
            log.info("stages.new", extra={"kind": kind.name, "stages": fresh})


def kind_queues(
    kind: DeclaredKind,
    handlers: Mapping[str, Handler] | None = None,
    endpoints: Mapping[str, Endpoint] | None = None,
) -> list[QueueSettings]:
    """The queues of a kind: system and stages, live and of the crawl."""
    handlers = handlers or {}
    queues = [
        QueueSettings(
            name=name,
            handler=handlers.get(name, _never_run),
            pool=kind.settings.pool,
            kind="stage",
            turns=kind.name if kind.is_serial else None,
            share=kind.settings.crawl.share if name.endswith("~") else None,
            leaves_slots=not name.endswith("~"),
        )
        for name in (kind.name, f"{kind.name}~")
    ]
    for stage in kind.stages.values():
        s = stage.settings
        queues += [
            QueueSettings(
                name=name,
                handler=handlers.get(name, _never_run),
                pool=kind.settings.pool,
                kind="stage",
                turns=kind.name if takes_turns(kind, stage) else None,
                hold_after=s.hold_after,
                timeout=None if stage.remote else s.timeout,  # elsewhere it is each call's
                crash_limit=s.crash_limit,
                concurrency=s.parallel,
                rate=s.rate,
                retry=s.retry,
                share=kind.settings.crawl.share if name.endswith("~") else None,
                leaves_slots=stage.remote is None and not name.endswith("~"),
                slots=min(s.parallel or stage.remote.slots, MOST_SLOTS) if stage.remote else None,
                endpoint=(endpoints or {}).get(stage.name),
            )
            for name in (stage.queue, stage.crawl_queue)
        ]
    return queues


async def _never_run(_: Run) -> Outcome:
    raise AssertionError("this queue is only declared here")


def takes_turns(kind: DeclaredKind, stage: Stage) -> bool:
    """Whether a stage waits for the others of its entity (S14)."""
    return kind.is_serial if stage.settings.serial is None else stage.settings.serial


def jitter_of(kind: DeclaredKind, stage: Stage) -> float:
    """How far the offers of a stage are spread, in seconds (S22)."""
    if takes_turns(kind, stage):
        return 0.0
    return kind.settings.jitter if stage.settings.jitter is None else stage.settings.jitter


def loaded_fields(kind: DeclaredKind) -> list[str] | None:
    """The columns that any stage may look at; None: all."""
    wanted: set[str] = set()
    for stage in kind.stages.values():
        seen = seen_fields(kind, stage)
        if seen is None:
            return None
        wanted |= seen | set(stage.settings.interest or ())
    return sorted(wanted) or None


def patcher_of(kind: DeclaredKind, stage: Stage, model: Model, shape: Shape | None) -> Patcher:
    """What makes patches of a stage's answers."""
    writes = stage.settings.writes
    return Patcher(
        who=f"stage {stage.name!r}",
        model=model,
        whole=kind.model,
        writable=writable(kind, shape) if writes is None else frozenset(writes),
        fields=fields_of(kind, shape),
        declared=writes,
    )


def remote_runner(peer: StagePeer, stage: Stage) -> Callable[..., StageRunner]:
    """What makes the runners of a stage elsewhere: both lanes share its calls."""
    assert stage.remote is not None
    process = ProcessLine(peer, StageRef(stage.kind, stage.name), stage.remote)
    return partial(RemoteRunner, peer=peer, process=process)


async def start(
    database: Database,
    worker: WorkerPort,
    kinds: Iterable[DeclaredKind],
    *,
    threads: int,
    calls: MakeCalls | None = None,
) -> Runtime:
    """Register kinds and stages, look at their tables, and make what runs them."""
    known = list(kinds)
    if not known:
        return Runtime(database, worker, known, {}, threads=1)
    async with worker.line().use() as connection, connection.atomic():
        shapes = await register_kinds(connection, known)
        for kind in known:
            check_stages(kind, shapes.get(kind.name))  # before another worker goes by them
        await register_stages(connection, known)
        await consumer.register(connection, [c for kind in known for c in kind.consumers])
        await schedule(database, connection, known)
    return Runtime(database, worker, known, shapes, threads=threads, calls=calls)
