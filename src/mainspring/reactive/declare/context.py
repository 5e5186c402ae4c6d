"""What a running reactive task can know and do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple, cast
from uuid import UUID

import msgspec

from mainspring.errors import InvalidSetting, WentBack
from mainspring.kernel import Run
from mainspring.reactive.decide.decide import (
    RawRewind,
    SeenValue,
    chunks_to_do,
    rewinds_of,
)
from mainspring.reactive.decide.evaluate import Fact
from mainspring.reactive.declare.task import ReactiveTask
from mainspring.reactive.model.chunks import Chunk, check_chunk
from mainspring.reactive.model.triggers import ChunkDelay, ChunkDelta, ChunkRefDelay, leaves_of
from mainspring.reactive.model.values import (
    AnyParam,
    Param,
    Product,
    Raw,
    RawSeen,
    V,
    Value,
    check_value,
    dump_value,
    from_raw,
)


class StartedRun(NamedTuple):
    """What the start of a firing found: the state as it stood, what its check captured. Texts are JSON.

    Unless `answer` is 'started' or 'again' the rest may be missing.
    """

    task: str
    answer: str
    kind: str
    record: bool
    cause: str
    captured: str
    seen: str
    base: int | None
    failures: int | None
    run: int
    exact: bool
    rewound: bool
    rewinds: str | None
    products: str | None


class Firing(msgspec.Struct):
    """The payload of a run visit."""

    firing: str


_captured = msgspec.json.Decoder(dict[str, RawSeen | None]).decode
_rewinds = msgspec.json.Decoder(list[RawRewind]).decode
_products = msgspec.json.Decoder(dict[str, Raw | None]).decode
_firing = msgspec.json.Decoder(Firing).decode


def firing_of(run: Run) -> int:
    """The firing that a run visit is about."""
    return int(_firing(run.visit.payload).firing)


class Values(Mapping[AnyParam, Value | None]):
    """Values by param, each of its param's type."""

    def __init__(self, found: Mapping[AnyParam, Value | None]) -> None:
        self._found = found

    def __getitem__(self, param: Param[V]) -> V | None:
        return cast("V | None", self._found[param])

    def __iter__(self) -> Iterator[AnyParam]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return repr(self._found)


class ReactiveRun:
    """The run of a reactive task, seen from inside.

    Example:

        @app.task(when=new_chunk(orders, "day"), produces=[built])
        async def daily(run: ReactiveRun) -> None:
            for day in run.chunks(orders):
                await build(day)
            run.advance(built, run.current[orders])
    """

    def __init__(self, run: Run, task: ReactiveTask, started: StartedRun) -> None:
        self._run = run
        self._task = task
        self._started = started
        #: The values of the check that started this run, by param; None: it had none.
        self.current = Values(_values(task.params, started.captured))
        #: The values of the last recorded success, by param; None: not seen yet.
        self.seen = Values(_values(task.params, started.seen))
        kinds = {param.key: param.kind for param in task.params}
        self._rewinds = rewinds_of(_rewinds(started.rewinds or "[]"), kinds)
        self._products = _products(started.products or "{}")
        self.products: list[Product] = []

    def __repr__(self) -> str:
        return f"<{self.kind} run of {self.task}: {self.cause}>"

    @property
    def task(self) -> str:
        """The task's name."""
        return self._task.name

    @property
    def kind(self) -> str:
        """'regular' (started by the trigger) or 'manual'."""
        return self._started.kind

    @property
    def cause(self) -> str:
        """Why it was started."""
        return self._started.cause

    @property
    def idempotency_key(self) -> str:
        """Of this firing: the same for everything that its one run does."""
        return str(firing_of(self._run))

    @property
    def stopped(self) -> bool:
        """Whether the run no longer counts: a plain function that loops should look at it."""
        return self._run.stopped is not None

    def chunks(self, param: AnyParam, chunk: Chunk | str | None = None) -> list[datetime]:
        """The starts of the chunks to do: after what was seen up to now, and those restated since.

        `chunk` may be left out if the trigger has a chunk for this param. Nothing seen yet: the chunk
        of the current value alone.
        """
        size = check_chunk(chunk) if chunk is not None else self._chunk_of(param)
        current, last = self._known(self.current, param), self._known(self.seen, param)
        if current is None:
            return []
        if not isinstance(current, datetime):
            raise InvalidSetting(f"param {param.key!r} is of kind {param.kind!r}: it has no chunks")
        rewinds = self._rewinds.get(param.key, [])
        # A run that does data again begins where the param was moved back to.
        back = [r.to for r in rewinds if isinstance(r.to, datetime)]
        if isinstance(last, datetime) and self._task.settings.on_rewind == "rerun":
            last = min([last, *back])
        return chunks_to_do(size, Fact(current, last), SeenValue(last, -1), rewinds)

    def _chunk_of(self, param: AnyParam) -> Chunk:
        for leaf in leaves_of(self._task.settings.when):
            if (
                isinstance(leaf, ChunkDelta | ChunkDelay | ChunkRefDelay)
                and leaf.param.key == param.key
            ):
                return leaf.chunk
        raise InvalidSetting(
            f"the trigger of task {self.task!r} has no chunk for {param.key!r}; say which one: "
            "run.chunks(param, 'day')"
        )

    def _known(self, values: Mapping[AnyParam, Value | None], param: AnyParam) -> Value | None:
        if param not in values:
            named = ", ".join(p.key for p in values)
            raise InvalidSetting(
                f"the trigger of task {self.task!r} does not name {param.key!r}, so its check did not "
                f"look at it; it names {named}"
            )
        return values[param]

    def advance(self, param: Param[V], value: V | UUID | None, *, if_greater: bool = False) -> None:
        """Set a param that this task produces, when the run succeeds: in that very transaction.

        A value below the current one fails the run, here already if it is known; `if_greater` leaves
        a higher one alone. None, as `current` has it for a param without a value, is refused.
        """
        checked = self._check(param, value)
        old = self._products.get(param.key)
        raw = dump_value(checked)
        if isinstance(raw, int) and isinstance(old, int) and raw < old:
            if if_greater:
                return
            raise WentBack(param.key, from_raw(param.kind, old), checked)
        self.products.append(Product(param, checked, if_greater=if_greater))
        self._products[param.key] = raw

    def rewind(
        self,
        param: Param[V],
        to: V | UUID,
        *,
        chunks: Iterable[object] = (),
        why: str | None = None,
    ) -> None:
        """Move a param that this task produces back, when the run succeeds: passes a rewind on."""
        checked = self._check(param, to)
        starts = tuple(sorted(int(dump_value(check_value(param, chunk))) for chunk in chunks))
        reason = why or f"passed on by {self.task}"
        self.products.append(Product(param, checked, is_rewind=True, chunks=starts, why=reason))
        self._products[param.key] = dump_value(checked)

    def _check(self, param: AnyParam, value: object) -> Value:
        declared = self._task.settings.produces
        if param not in declared:
            named = ", ".join(p.key for p in declared) or "nothing"
            raise InvalidSetting(
                f"task {self.task!r} does not declare that it produces {param.key!r}; it declares "
                f"{named}: add it to produces="
            )
        return check_value(param, value)


def _values(params: Iterable[AnyParam], text: str) -> dict[AnyParam, Value | None]:
    raw = _captured(text)
    return {param: _value(param, raw.get(param.key)) for param in params}


def _value(param: AnyParam, raw: RawSeen | None) -> Value | None:
    return None if raw is None or raw.value is None else from_raw(param.kind, raw.value)
