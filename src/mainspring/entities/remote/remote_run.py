"""The visit of a stage elsewhere: its entity goes into a call, and the answer is saved as any other.

The worker decides what is sent and what is saved: only the declared fields leave, only the declared ones
are written, and versions and token referee, so an answer that is late or comes twice has no way in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Executor
from datetime import datetime
from uuid import UUID

import msgspec

from mainspring.entities.declare.outcome import Answer
from mainspring.entities.declare.remote import RemotePlace
from mainspring.entities.offers import Offering
from mainspring.entities.remote.call_line import CallLine, Size, TooLarge
from mainspring.entities.remote.items import Bad, Processed, Refusal, StageItem, StageRef
from mainspring.entities.remote.peer import CALL_BYTES, PUT_OFF, StagePeer
from mainspring.entities.save.change import Patcher
from mainspring.entities.save.saver import Saver
from mainspring.entities.source.loader import Loader, Picture
from mainspring.entities.source.rows import Loaded
from mainspring.entities.visit.stage_run import StageRunner, parked
from mainspring.entities.visit.system import Viewed
from mainspring.errors import EndpointAway, InvalidAnswer, NewerState, PutOff, StageFailed
from mainspring.kernel import Outcome, Parked, Postponed, Run

_encode = msgspec.json.Encoder().encode


def item_of(
    key: str,
    picture: Picture,
    loaded: Loaded,
    stage: str,
    reads: Collection[str] | None,
    crawl: bool,
    run_of: UUID | None = None,
) -> StageItem:
    """An entity as its stage elsewhere gets it: the declared fields and nothing else."""
    version, stored = picture.state(stage)
    body = projected(loaded, reads)
    return StageItem(key, body, loaded.version, stored, version, crawl, run_of)


def projected(loaded: Loaded, reads: Collection[str] | None) -> str:
    """These fields of an entity, as the database prints them."""
    if reads is None:
        return loaded.body
    fields = loaded.fields()
    return _encode({name: fields[name] for name in reads if name in fields}).decode()


class ProcessLine:
    """The calls of `Process` of one stage, its visits live and of the crawl in one line."""

    def __init__(self, peer: StagePeer, ref: StageRef, place: RemotePlace) -> None:
        self._peer = peer
        self._ref = ref
        self._place = place
        self.line: CallLine[StageItem, Processed] = peer.line(ref, self._size, self._call)

    def _size(self) -> Size:
        said = self._peer.description(self._ref)
        items = min(self._place.batch, said.most_items or self._place.batch)
        return Size(items, min(CALL_BYTES, said.most_bytes or CALL_BYTES))

    async def _call(self, now: datetime, items: Sequence[StageItem]) -> list[tuple[str, Processed]]:
        return await self._peer.calls.process(self._ref, now, items, self._place.timeout)


class RemoteRunner(StageRunner):
    """The handler of a remote stage's visits, live or of the crawl."""

    def __init__(
        self,
        viewed: Viewed,
        loader: Loader,
        saver: Saver,
        offering: Offering,
        threads: Executor,
        patcher: Patcher,
        *,
        crawl: bool,
        peer: StagePeer,
        process: ProcessLine,
    ) -> None:
        super().__init__(viewed, loader, saver, offering, threads, patcher, crawl=crawl)
        self._peer = peer
        self._process_line = process
        self._ref = StageRef(viewed.stage.kind, viewed.stage.name)

    async def _answer(
        self, run: Run, picture: Picture, loaded: Loaded, now: datetime
    ) -> Answer | Outcome:
        visit = run.visit
        try:
            if not self._peer.has_met(self._ref):
                await self._peer.meet(self._ref)
            described = self._peer.description(self._ref)
            reads = described.reads or self._stage.settings.reads
            check_schema(self._stage.name, picture, described.schema)
            name = self._stage.name
            item = item_of(visit.key, picture, loaded, name, reads, self._crawl, visit.id)
            # Who has broken the service (or killed a worker) before goes alone, whoever remembers it.
            alone = visit.crashes > 0
            said = await self._process_line.line(item, now=now.timestamp(), alone=alone)
        except EndpointAway as error:
            return Postponed(error.retry_after or PUT_OFF, str(error))
        except PutOff as error:
            return Postponed(error.after, str(error), crash=error.crash)
        except TooLarge as error:
            return parked(TooLarge(f"{error}; {self._smaller(reads)}"))
        if isinstance(said, Refusal):
            return refused(self._stage.name, said)
        if isinstance(said, Bad):
            raise InvalidAnswer(f"stage {self._stage.name!r} elsewhere: {said.why}")
        return said

    def _smaller(self, reads: Collection[str] | None) -> str:
        if reads is None:
            return "name the fields that the stage needs by reads="
        return f"leave out of reads= what the stage can do without (now: {', '.join(reads)})"


def check_schema(stage: str, picture: Picture, schema: int) -> None:
    """Refuse to send a state that the service says it is too old for: during a rolling deploy it comes to
    one that reads it."""
    _, stored = picture.state(stage)
    if schema and stored is not None and stored.schema > schema:
        raise NewerState(
            f"the state of stage {stage!r} has schema {stored.schema} and its service reads {schema}: "
            "newer code wrote it; deploy that, or set the state anew, then restart the visit"
        )


def refused(stage: str, said: Refusal) -> Outcome:
    """What a stage's own failure leads to."""
    text = f"stage {stage!r} elsewhere said {said}"
    if said.final:
        return Parked(StageFailed.__name__, f"{StageFailed.__name__}: {text}")
    if said.retry_after is not None:
        return Postponed(said.retry_after, text)
    raise StageFailed(text)
