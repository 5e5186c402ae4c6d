"""The system visit: an entity changed, so the stages are asked whether they want it (S15, S21).

It goes through the stages of the catalogue. A stage is concerned if a field of its interest changed, if
the fields are not known, or if it is asked for by name; not if what it would see is its own save. A stage
that is due already is not asked, but offered all the same: it may be running on the old entity right now,
and only the new token makes it look again. Whatever goes wrong in `should_process` queues the entity.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from mainspring import clock
from mainspring.entities.declare.catalogue import Catalogue, CatalogueEntry, Known
from mainspring.entities.declare.model import Model
from mainspring.entities.declare.outcome import at_moment, check_visit_time, now
from mainspring.entities.declare.stage import Stage
from mainspring.entities.offers import CRAWL_PRIORITY, Offering, StageOffer
from mainspring.entities.source.loader import Loader, Picture
from mainspring.errors import MainspringError
from mainspring.failure_text import clean_text
from mainspring.kernel import DEFAULT_PRIORITY, Done, Outcome, Run, Visit
from mainspring.shape import shape

log = logging.getLogger("mainspring")
_decode = msgspec.json.Decoder(dict[str, object]).decode
_encode = msgspec.json.Encoder().encode
# A failing should_process is logged this often per stage (seconds).
LOG_EVERY = 10.0
# So many different sets of changed fields are remembered.
MOST_JUDGED = 1000
_NOBODY = '{"asked":{}}'


class StaleRead(MainspringError):
    """The entity that was loaded is older than the change that was announced: a replica answered."""

    code = "stale_read"


class Viewed(msgspec.Struct, frozen=True):
    """A stage of the code, and the model of what it sees."""

    stage: Stage
    model: Model


class AsksElsewhere(Protocol):
    """Asks a stage in another service, within its budget."""

    async def ask(
        self, key: str, picture: Picture, now: datetime, crawl: bool
    ) -> bool | datetime | str: ...


def changed_fields(payload: Mapping[str, object]) -> frozenset[str]:
    """The fields that changed, of a system visit's payload."""
    return frozenset([name[2:] for name in payload if name.startswith("f:")])


def is_concerned(
    entry: CatalogueEntry,
    payload: Mapping[str, object],
    fields: frozenset[str],
    version: int | None,
) -> bool:
    """Whether a stage has to do with what changed. Pure."""
    if f"ask:{entry.name}" in payload:
        return True
    own = payload.get(f"by:{entry.name}")
    if own is not None and own == version and not entry.sees_own:
        return False  # it saw everything up to this version, and the rest is its own
    if "new" in payload:
        return True
    if entry.interest is None:
        return bool(fields)  # what was asked of another stage alone is not its business
    return not fields.isdisjoint(entry.interest)


class StageAsker:
    """The handler of a kind's system visits."""

    def __init__(
        self,
        kind: str,
        stages: Mapping[str, Viewed],
        known: Known,
        loader: Loader,
        offering: Offering,
        *,
        fields: Collection[str] | None,
        jitter: Mapping[str, float],
        crawl: bool,
        elsewhere: Mapping[str, AsksElsewhere],
    ) -> None:
        self._elsewhere = elsewhere  # by stage
        self._kind = kind
        self._stages = stages
        self._known = known
        self._loader = loader
        self._offering = offering
        self._fields = None if fields is None else frozenset(fields)  # of the entity, as we know it
        self._jitter = jitter  # of each stage, in seconds
        self._lane = "~" if crawl else ""
        self._priority = CRAWL_PRIORITY if crawl else DEFAULT_PRIORITY
        self._logged: dict[str, float] = {}
        # What a payload says -> whether it may concern any stage of this catalogue.
        self._judged: dict[frozenset[str], bool] = {}
        self._judged_by: Catalogue | None = None

    async def handle(self, run: Run) -> Outcome:
        """One system visit."""
        visit = run.visit
        payload = _decode(visit.payload)
        if self._known.is_fresh and not self._may_concern(payload):
            return Done(result=_NOBODY)  # whatever is in the row
        picture = self._loader.prepared(visit) or await self._loader.load(visit)
        if picture.entity is None:
            return Done(result='"missing"')
        if (readdressed := self._loader.readdress(run, picture)) is not None:
            return self._offering.done(run, [readdressed], _said(written=readdressed.key))
        version, announced = picture.entity.version, payload.get("v")
        if version is not None and isinstance(announced, int) and version < announced:
            raise StaleRead(
                f"version {announced} of {visit.key!r} was announced, version {version} was loaded"
            )
        now = max(datetime.fromtimestamp(run.started, UTC), visit.due_at)
        with at_moment(now):
            answers = await self._ask_all(picture, payload, visit.key, now)
        shown = {name: _shown(answer) for name, answer in answers.items()}
        return self._offering.done(run, self._offers(run, answers, payload), _said(asked=shown))

    def has_to_see(self, visit: Visit) -> bool:
        """Whether the answer to a visit depends on what is in the row."""
        return not self._known.is_fresh or self._may_concern(_decode(visit.payload))

    def _may_concern(self, payload: Mapping[str, object]) -> bool:
        """Whether any stage may have to do with what changed, whichever version is there. That is in the
        names of what it says alone, and few sets of them come again and again."""
        if self._judged_by is not self._known.now or len(self._judged) >= MOST_JUDGED:
            self._judged_by, self._judged = self._known.now, {}
        said = frozenset(payload)
        if said not in self._judged:
            self._judged[said] = self._judge(payload)
        return self._judged[said]

    def _judge(self, payload: Mapping[str, object]) -> bool:
        fields = changed_fields(payload)
        if self._fields is not None and not fields <= self._fields:
            return True  # the table is not as it was: a column may have another name now
        return any(is_concerned(e, payload, fields, None) for e in self._known.now.stages)

    async def _ask_all(
        self, picture: Picture, payload: Mapping[str, object], key: str, now: datetime
    ) -> dict[str, bool | datetime | str]:
        """What each concerned stage answers: True, False, a time, or why it is offered unasked."""
        assert picture.entity is not None
        answers: dict[str, bool | datetime | str] = {}
        elsewhere: list[str] = []
        fields = changed_fields(payload)
        for entry in picture.catalogue.stages:
            if not is_concerned(entry, payload, fields, picture.entity.version):
                continue
            name = entry.name
            if name not in self._stages:
                answers[name] = "unknown"
            elif f"{self._kind}/{name}{self._lane}" in picture.due:
                answers[name] = "due"
            elif name in self._elsewhere:
                elsewhere.append(name)
            else:
                answers[name] = await self._ask(self._stages[name], picture)
        if elsewhere:
            # Each has its budget, and they run at the same time.
            crawl = self._lane != ""
            asked = (self._elsewhere[name].ask(key, picture, now, crawl) for name in elsewhere)
            answers |= zip(elsewhere, await asyncio.gather(*asked), strict=True)
        return answers

    async def _ask(self, viewed: Viewed, picture: Picture) -> bool | datetime | str:
        stage = viewed.stage
        if stage.should_process is None:
            return True
        assert picture.entity is not None
        budget = stage.settings.budget
        began = clock.local()
        try:
            entity = viewed.model.decode_json(picture.entity.body)
            state = stage.state.decode(picture.state(stage.name)[1])
            answer = stage.should_process(entity, state)
            if not isinstance(answer, bool) and inspect.isawaitable(answer):
                answer = await asyncio.wait_for(answer, budget)
            answer = _checked(answer, stage.name)
        except Exception as error:
            overrun = isinstance(error, TimeoutError)
            self._log(stage.name, error)
            return (
                "overrun"
                if overrun
                else "failed: " + clean_text(f"{type(error).__name__}: {error}", 200)
            )
        if clock.local() - began > budget:
            self._log(stage.name, TimeoutError(f"took longer than {budget:g} s"))
            return "overrun"
        return answer

    def _log(self, stage: str, error: Exception) -> None:
        now = clock.local()
        if now - self._logged.get(stage, float("-inf")) >= LOG_EVERY:
            self._logged[stage] = now
            log.warning(
                "stage.ask_failed",
                extra={
                    "kind": self._kind,
                    "stage": stage,
                    "error": f"{type(error).__name__}: {error}",
                },
            )

    def _offers(
        self,
        run: Run,
        answers: Mapping[str, bool | datetime | str],
        payload: Mapping[str, object],
    ) -> list[StageOffer]:
        """Offers to the stages; the chain of hops goes along."""
        passed: dict[str, object] = {"chain": payload["chain"]} if "chain" in payload else {}
        if "out" in payload or "chain" not in payload:
            passed = {"out": 1}
        offers = []
        for name, answer in answers.items():
            if answer is False:
                continue
            due_at = answer if isinstance(answer, datetime) else None
            lane, priority = self._lane, self._priority
            if due_at is not None and due_at.timestamp() > run.started:
                lane, priority = "", DEFAULT_PRIORITY  # a timer is a live thing, whoever set it
            queue = f"{self._kind}/{name}{lane}"
            jitter = self._jitter.get(name)
            after = random.uniform(0, jitter) if jitter and due_at is None else None
            offers.append(
                StageOffer(queue, run.visit.shard, run.visit.key, due_at, after, passed, priority)
            )
        return offers


def _checked(answer: object, stage: str) -> bool | datetime:
    if isinstance(answer, bool):
        return answer
    if isinstance(answer, datetime):
        check_visit_time(answer, stage, now())
        return answer
    raise TypeError(
        f"should_process of stage {stage!r} must answer True, False or a datetime, got {shape(answer)}"
    )


def _said(**result: object) -> str:
    return _encode(result).decode()


def _shown(answer: bool | datetime | str) -> bool | str:
    return answer.isoformat() if isinstance(answer, datetime) else answer
