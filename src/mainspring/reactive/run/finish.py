"""The end of a run: products, last seen values and completion in one transaction (R10).

A kernel writer: many ends are one transaction with the settle of their visits. Params are locked
before states, states before visits, and nothing is waited for that a user's transaction may hold: such
an end is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.db.database import Connection, Database
from mainspring.db.tx import Tx
from mainspring.ids import token
from mainspring.kernel import Cancelled, Failed, Offer, Run, Verdict, offer_visits
from mainspring.reactive.declare.advance import advance_values
from mainspring.reactive.declare.task import BACKOFF
from mainspring.reactive.model.values import AnyParam, Product, Raw, Value, dump_value
from mainspring.reactive.queues import ADMIT, CHANGE, CHECK, FIRST, Offered, nobody
from mainspring.reactive.statements import SQL
from mainspring.retry_policy import RetryPolicy


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run came to: the change that its writer finds on the kernel's run."""

    task: str
    firing: int
    run: int  # the token that marked the firing: this run's, or that of one that died
    how: str  # success, failed, void, interrupted, cancelled
    error: str | None = None
    error_type: str = "mainspring.errors.WorkerLost"  # of a failure
    products: list[Product] = field(default_factory=list)
    backoff: RetryPolicy = BACKOFF
    failures: int = 0  # in a row, before this one


class LockedProduct(NamedTuple):
    """A param that runs set, as it is now."""

    name: str
    kind: str
    value: str | None


class LockedFiring(NamedTuple):
    """The state of a task whose firing is the one that ends, and where it is."""

    task: str
    address: str


class EndedRun(NamedTuple):
    """A task whose run has ended: when its next check is due, and its pool."""

    task: str
    pool: str
    retry_at: datetime | None
    capped: bool
    now: datetime


class FinishRuns:
    """Writes the ends of runs."""

    most = 100
    overlaps = False
    stands = False

    def __init__(self, database: Database, *, offered: Offered = nobody) -> None:
        self._database = database
        self._offered = offered
        self._ended_at: datetime | None = None  # of the batch that is being written

    def committed(self, connection: Connection) -> None:
        """The kernel says that the last batch is there: what it offered can be read."""
        if self._ended_at is not None:
            for queue in (CHANGE, CHECK, ADMIT):
                self._offered(queue, self._ended_at)

    async def write(self, connection: Connection, runs: Sequence[Run]) -> list[Verdict]:
        """Products, then states, then offers; the kernel settles the visits after it."""
        answers: dict[int, Verdict] = {}
        self._ended_at = None
        locked = await _lock_products(connection, runs)
        waiting = [run for run in runs if not _products(run) <= locked.keys()]
        for run in waiting:
            answers[run.token] = "locked"
        runs_left = [run for run in runs if run.token not in answers]
        addresses, refused = await _lock_firings(connection, runs_left)
        answers |= refused
        ending = [run for run in runs_left if run.token not in answers]
        errors: dict[int, str | None] = {}
        products: list[tuple[str, Product]] = []
        for run in ending:
            kept, errors[run.token] = _try_products(run.change, locked)
            products += [(run.change.task, product) for product in kept]
        await _set_products(connection, products)
        await self._end(connection, ending, addresses, errors, products)
        for run in ending:
            answers[run.token] = _verdict(run.change, errors[run.token])
        return [answers[run.token] for run in runs]

    async def _end(
        self,
        tx: Tx,
        runs: Sequence[Run],
        addresses: dict[str, str],
        errors: dict[int, str | None],
        products: Sequence[tuple[str, Product]],
    ) -> None:
        if not runs:
            return
        notes: list[Ending] = [run.change for run in runs]
        failed = [
            note.how == "failed" or errors[run.token] is not None
            for run, note in zip(runs, notes, strict=True)
        ]
        backoffs = [
            note.backoff.delay(note.failures + 1) if has_failed else 0.0
            for note, has_failed in zip(notes, failed, strict=True)
        ]
        ended = await tx.rows(
            SQL["end_runs"],
            EndedRun,
            tasks=[note.task for note in notes],
            addresses=[addresses[note.task] for note in notes],
            succeeded=[n.how == "success" and not f for n, f in zip(notes, failed, strict=True)],
            failed=failed,
            void=[note.how == "void" for note in notes],
            backoffs=backoffs,
            errors=[errors[run.token] or run.change.error for run in runs],
            turns=[token() for _ in notes],
        )
        if len(ended) != len(runs):
            raise RuntimeError(f"{len(runs) - len(ended)} locked states of ending runs have moved")
        self._ended_at = ended[0].now
        offers = [Offer(CHECK, end.task, end.retry_at, FIRST) for end in ended]
        capped = {end.task: end.pool for end in ended if end.capped}
        if brought := [(task, p) for task, p in products if task in capped]:
            await tx.run(
                SQL["note_ended"],
                pools=[capped[task] for task, _ in brought],
                tasks=[task for task, _ in brought],
                params=[product.param.key for _, product in brought],
            )
        pools = set(capped.values())
        offers += [Offer(ADMIT, pool, None, FIRST) for pool in sorted(pools)]
        await offer_visits(self._database, tx, offers)


async def _lock_products(tx: Tx, runs: Sequence[Run]) -> dict[str, str | None]:
    names = sorted(set().union(*(_products(run) for run in runs)))
    if not names:
        return {}
    locked = await tx.rows(SQL["lock_products"], LockedProduct, names=names)
    return {product.name: product.value for product in locked}


def _products(run: Run) -> set[str]:
    note: Ending = run.change
    return {p.param.key for p in note.products} if note.how == "success" else set()


async def _lock_firings(tx: Tx, runs: Sequence[Run]) -> tuple[dict[str, str], dict[int, Verdict]]:
    """Lock the states; returns where they are, by task, and why for those that could not be, by run."""
    if not runs:
        return {}, {}
    values = {
        "tasks": [run.change.task for run in runs],
        "firings": [run.change.firing for run in runs],
        "runs": [run.change.run for run in runs],
    }
    locked = await tx.rows(SQL["lock_firings"], LockedFiring, **values)
    mine = {firing.task: firing.address for firing in locked}
    if len(mine) == len(runs):
        return mine, {}
    there = set(await tx.rows(SQL["find_firings"], str, **values))
    refused: dict[int, Verdict] = {
        run.token: "locked" if run.change.task in there else "gone"
        for run in runs
        if run.change.task not in mine
    }
    return mine, refused


def _try_products(note: Ending, current: dict[str, str | None]) -> tuple[list[Product], str | None]:
    """What a run really sets, taken as set in `current`; or nothing, and why the run fails."""
    if note.how != "success":
        return [], None
    moved: dict[str, str | None] = {}
    kept: list[Product] = []
    for product in note.products:
        key, raw = product.param.key, dump_value(product.value)
        old = moved.get(key, current[key])
        step = _step(raw, old)
        if product.is_rewind:
            if old is None:
                return [], f"run.rewind of {key!r}: it has no value to move back from; advance it"
            if step == "greater":
                return [], f"run.rewind of {key!r} would not go back: it is {old}; use run.advance"
        elif step == "lower":
            if product.if_greater:
                continue
            return [], went_back(key, old, raw)
        moved[key] = str(raw)
        kept.append(product)
    current.update(moved)
    return kept, None


def _step(raw: Raw, old: str | None) -> str:
    if old is None or isinstance(raw, str):
        return "news"
    return "lower" if raw < int(old) else "greater" if raw > int(old) else "same"


def went_back(key: str, old: object, new: object) -> str:
    """Why a run whose product would go back fails, and the two ways out."""
    return (
        f"product {key!r} would go back from {old} to {new}; use run.advance(..., if_greater=True), "
        "or run.rewind to pass a rewind on"
    )


async def _set_products(tx: Tx, products: Sequence[tuple[str, Product]]) -> None:
    """Set what successful runs bring, in their order; all is locked and compared already."""
    last: dict[str, tuple[str, Product]] = {}
    for task, product in products:
        key = product.param.key
        if product.is_rewind:
            if key in last:
                await _advance(tx, {key: last.pop(key)})
            await _rewind(tx, product, task)
        else:
            last[key] = (task, product)
    if last:
        await _advance(tx, last)


async def _advance(tx: Tx, last: dict[str, tuple[str, Product]]) -> None:
    brought: dict[str, tuple[AnyParam, Value]] = {
        name: (product.param, product.value) for name, (_, product) in last.items()
    }
    by = ", ".join(sorted({task for task, _ in last.values()}))[:200]
    values = advance_values(brought, only_greater=True, by=by)
    await tx.run(SQL["advance"], **values)


async def _rewind(tx: Tx, product: Product, by: str) -> None:
    await tx.run(
        SQL["rewind"],
        name=product.param.key,
        kind=product.param.kind,
        given=str(dump_value(product.value)),
        chunks=list(product.chunks),
        changed_by=by,
        why=product.why,
    )


def _verdict(note: Ending, error: str | None) -> Verdict:
    """A success is done, a failure is in history as one, anything else as called off, with the reason.

    The visit is over in any case: after a failure the backoff is that of the next check.
    """
    if error is not None:  # of its products
        return Failed("mainspring.errors.WentBack", error)
    match note.how:
        case "success":
            return None
        case "failed":
            return Failed(note.error_type, note.error or "")
        case how:
            return Cancelled(error=f"{how}: {note.error}")


def result_json(captured: str, base: int | None, firing: int, result: str | None) -> str:
    """What history keeps of a success."""
    kept: dict[str, object] = {
        "firing": str(firing),
        "base": None if base is None else str(base),
        "captured": msgspec.Raw(captured.encode()),
    }
    if result is not None:
        kept["result"] = msgspec.Raw(result.encode())
    return msgspec.json.encode(kept).decode()
