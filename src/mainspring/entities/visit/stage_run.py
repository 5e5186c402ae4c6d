"""The stage visit: load, `process`, and hand the result to the save (S13).

A whole entity becomes a patch against what was loaded; a patch that changes nothing is no change. What a
stage may not write, an outcome that is none and a time that is none are failures of the stage.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from concurrent.futures import Executor
from datetime import UTC, datetime

import msgspec

from mainspring.entities.declare.outcome import (
    KEEP,
    Answer,
    Update,
    at_moment,
    check_answer,
    check_state,
    seconds_until,
)
from mainspring.entities.declare.partial_model import misfit
from mainspring.entities.declare.stage import Process
from mainspring.entities.declare.state import is_same
from mainspring.entities.offers import Offering, StageOffer
from mainspring.entities.save import loop_guard
from mainspring.entities.save.change import Patcher, Save
from mainspring.entities.save.saver import Saver
from mainspring.entities.source.loader import Loader, Picture
from mainspring.entities.source.rows import Loaded
from mainspring.entities.visit.system import Viewed
from mainspring.errors import (
    NewerState,
    StageLoop,
    UnreadableEntity,
    UnreadableState,
)
from mainspring.failure_text import describe
from mainspring.kernel import (
    DEFAULT_PRIORITY,
    Again,
    Done,
    Outcome,
    Parked,
    Run,
)
from mainspring.loops import to_its_end
from mainspring.shape import fault

log = logging.getLogger("mainspring")
_decode = msgspec.json.Decoder(dict[str, object]).decode
_encode = msgspec.json.Encoder().encode


class StageRunner:
    """The handler of a stage's visits, live or of the crawl."""

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
    ) -> None:
        self._stage = viewed.stage
        self._model = viewed.model
        self._loader = loader
        self._saver = saver
        self._offering = offering
        self._threads = threads
        self._patcher = patcher
        self._crawl = crawl
        self._is_async = viewed.stage.is_async

    async def handle(self, run: Run) -> Outcome:
        """One visit of the stage."""
        visit = run.visit
        picture = self._loader.prepared(visit) or await self._loader.load(visit)
        if picture.entity is None:
            self._saver.conflicts.over(run.visit)
            return Done(result='"missing"')
        if (readdressed := self._loader.readdress(run, picture)) is not None:
            result = _encode({"written": readdressed.key}).decode()
            return self._offering.done(run, [readdressed], result)
        if (successor := picture.catalogue.successor(self._stage.name)) is not None:
            queue = f"{self._stage.kind}/{successor}{'~' if self._crawl else ''}"
            offers = [self._handed_on(run, queue, visit.priority)]
            return self._offering.done(run, offers, _encode({"stage": successor}).decode())
        if self._crawl and self._stage.queue in picture.due:
            # The live visit does what the crawl's would; under a new token, for it may be under way.
            offers = [self._handed_on(run, self._stage.queue, DEFAULT_PRIORITY)]
            return self._offering.done(run, offers, '"due already"')
        self._saver.conflicts.loaded(run.visit, picture.entity)
        now = max(datetime.fromtimestamp(run.started, UTC), run.visit.due_at)
        answer = await self._answer(run, picture, picture.entity, now)
        if not isinstance(answer, Answer):
            return answer
        return self._outcome(run, picture, answer, now)

    async def _answer(
        self, run: Run, picture: Picture, loaded: Loaded, now: datetime
    ) -> Answer | Outcome:
        """What the stage makes of the entity, or what the run comes to without it. A stage elsewhere is
        asked in another way (remote/remote_run.py)."""
        try:
            entity = self._decoded(loaded)
            state = self._stage.state.decode(picture.state(self._stage.name)[1])
        except NewerState:
            raise  # retried: during a rolling deploy it comes to a worker that reads it
        except (UnreadableEntity, UnreadableState, ValueError) as error:
            return parked(error)  # no retry makes it readable
        with at_moment(now):
            try:
                if self._is_async:
                    answered = await self._stage.process(entity, state)
                else:
                    answered = await self._in_thread(entity, state)
            except TypeError as error:
                raise misfit(self._patcher.whole, self._stage, error) or error from error
            answer = check_answer(answered, self._stage.name)
        if isinstance(answer, Update) and answer.state is not KEEP and not self._stage.state.type:
            check_state(answer, self._stage.name, self._patcher.fields or loaded.fields())
        return answer

    def _decoded(self, entity: Loaded) -> object:
        try:
            return self._model.decode_json(entity.body)
        except (msgspec.MsgspecError, ValueError) as error:
            model = self._patcher.whole.type.__name__
            raise UnreadableEntity(
                f"{self._stage.kind} {entity.key!r} does not fit model {model}: "
                f"{fault(error)}; correct the entity, or let the model take it as it is, then restart "
                "the visit"
            ) from None

    def _handed_on(self, run: Run, queue: str, priority: int) -> StageOffer:
        """The offer that replaces a visit of the crawl lane where the live one is due, or one of a stage
        that has another name in newer code by now."""
        visit = run.visit
        payload = _decode(visit.payload)
        return StageOffer(queue, visit.shard, visit.key, payload=payload, priority=priority)

    async def _in_thread(self, entity: object, state: object) -> object:
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(
            self._threads, context.run, _plain, self._stage.process, entity, state
        )
        return await to_its_end(future)

    def _outcome(self, run: Run, picture: Picture, answer: Answer, now: datetime) -> Outcome:
        assert picture.entity is not None
        after, at, restless = seconds_until(answer, now), answer.visit_at, None
        version, stored = picture.state(self._stage.name)
        patch = (
            self._patcher.patch(picture.entity.body, answer) if isinstance(answer, Update) else {}
        )
        state = None if answer.state is KEEP else self._stage.state.encode(answer.state)
        if state is not None and is_same(state, stored):
            state = None
        chain = loop_guard.begin(_decode(run.visit.payload), now.timestamp())
        if patch:
            fields = picture.entity.fields()
            changes = {
                name: (bytes(fields.get(name, b"null")), _encode(value))
                for name, value in patch.items()
            }
            chain = loop_guard.extend(chain, self._stage.name, changes)
        elif after is not None and after < loop_guard.HOP_BELOW:
            chain = loop_guard.hop(chain)
            if rest := loop_guard.rest(chain):
                after, at, restless = rest, None, self._restless(run, chain, rest)
        if (why := loop_guard.verdict(chain)) is not None:
            return parked(StageLoop(why))
        payload = None  # of the visit, if it goes on
        if after is not None and not self._crawl:
            goes_on = (chain.n or chain.hops) and after < loop_guard.RESTS_AFTER
            payload = _encode({"chain": loop_guard.encode(chain)} if goes_on else {}).decode()
        save = Save(
            stage=self._stage,
            loaded=picture.entity,
            state_version=version,
            stored=stored,
            patch=patch,
            state=state,
            chain=chain,
            after=after,
            at=at,
            crawl=self._crawl,
            payload=payload,
            restless=restless,
        )
        run.leave_to_writer(save, ends_turn=save.is_quiet)
        if after is None or self._crawl:
            return Done(writer=self._saver)
        return Again(at=at, after=after, payload=payload, error=restless, writer=self._saver)

    def _restless(self, run: Run, chain: loop_guard.Chain, rest: float) -> str:
        """What is said of a visit that is wanted at once too often; logged when it begins."""
        if chain.hops == loop_guard.FREE_HOPS + 1:
            stage, key = self._stage, run.visit.key
            extra = {"kind": stage.kind, "key": key, "stage": stage.name, "hops": chain.hops}
            log.warning("stage.restless", extra=extra)
        return (
            f"asked {chain.hops} times in a row to be visited again at once, so it is put off for "
            f"{rest:g} s: give a time to come, or none to wait for a change"
        )


def _plain(function: Process, entity: object, state: object) -> object:
    """Call a plain function in a thread; no future can carry a StopIteration."""
    try:
        return function(entity, state)
    except StopIteration as error:
        raise RuntimeError("process raised StopIteration") from error


def parked(error: Exception) -> Parked:
    """No retry is of use."""
    name, text = describe(error)
    return Parked(error_type=name, error=text)
