"""The end of a run: products, last seen values and completion in one transaction (R10).

A kernel writer: many ends are one transaction with the settle of their visits. Params are locked
before states, states before visits, and nothing is waited for that a user's transaction may hold: such
an end is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.kernel import (
    Cancelled,
    Failed,
    Offer,
    RetryPolicy,
    Run,
    Verdict,
    offer_visits,
    token,
)
from mainspring.reactive.declare.params import to_raw
from mainspring.reactive.declare.product import Product
from mainspring.reactive.queues import ADMIT, CHANGE, CHECK, FIRST, Offered, nobody
from mainspring.reactive.statements import SQL


@dataclass(slots=True)
class Ending:
    """What a run came to: the note that its writer finds on the kernel's run."""

    task: str
    firing: int
    run: int  # the token that marked the firing: this run's, or that of one that died
    how: str  # success, failed, void, interrupted, cancelled
    error: str | None = None
    error_type: str = "mainspring.errors.WorkerLost"  # of a failure
    products: list[Product] = field(default_factory=list)
    backoff: RetryPolicy = field(default_factory=RetryPolicy)
    failures: int = 0  # in a row, before this one


class FinishRuns:
    """Writes the ends of runs."""

    most = 100
    overlaps = False
    stands = False

    def __init__(self, database: Database, *, offered: Offered = nobody) -> None:
        self._database = database
        self._offered = offered
        self._ended_at: datetime | None = None  # of the batch that is being written

    def committed(self, connection: Any) -> None:
        """The kernel says that the last batch is there: what it offered can be read."""
        if self._ended_at is not None:
            for queue in (CHANGE, CHECK, ADMIT):
                self._offered(queue, self._ended_at)

    async def write(self, connection: Any, runs: Sequence[Run]) -> list[Verdict]:
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
            kept, errors[run.token] = _try_products(run.note, locked)
            products += [(run.note.task, product) for product in kept]
        await _set_products(connection, products)
        await self._end(connection, ending, addresses, errors, products)
        for run in ending:
            answers[run.token] = _verdict(run.note, errors[run.token])
        return [answers[run.token] for run in runs]

    async def _end(
        self,
        connection: Any,
        runs: Sequence[Run],
        addresses: dict[str, str],
        errors: dict[int, str | None],
        products: Sequence[tuple[str, Product]],
    ) -> None:
        if not runs:
            return
        notes: list[Ending] = [run.note for run in runs]
        failed = [
            note.how == "failed" or errors[run.token] is not None
            for run, note in zip(runs, notes, strict=True)
        ]
        values = {
            "tasks": [note.task for note in notes],
            "addresses": [addresses[note.task] for note in notes],
            "succeeded": [n.how == "success" and not f for n, f in zip(notes, failed, strict=True)],
            "failed": failed,
            "void": [note.how == "void" for note in notes],
            "backoffs": [n.backoff.delay(n.failures + 1) for n in notes],
            "errors": [errors[run.token] or run.note.error for run in runs],
            "turns": [token() for _ in notes],
        }
        rows = await connection.fetch(SQL["end_runs"].numbered, *SQL["end_runs"].arguments(values))
        if len(rows) != len(runs):
            raise RuntimeError(f"{len(runs) - len(rows)} locked states of ending runs have moved")
        self._ended_at = rows[0]["now"]
        offers = [Offer(CHECK, row["task"], row["retry_at"], FIRST) for row in rows]
        capped = {row["task"]: row["pool"] for row in rows if row["capped"]}
        if brought := [(task, p) for task, p in products if task in capped]:
            await connection.fetch(
                SQL["note_ended"].numbered,
                [capped[task] for task, _ in brought],
                [task for task, _ in brought],
                [product.param.key for _, product in brought],
            )
        pools = set(capped.values())
        offers += [Offer(ADMIT, pool, None, FIRST) for pool in sorted(pools)]
        await offer_visits(self._database, connection, offers)


async def _lock_products(connection: Any, runs: Sequence[Run]) -> dict[str, str | None]:
    names = sorted(set().union(*(_products(run) for run in runs)))
    if not names:
        return {}
    rows = await connection.fetch(SQL["lock_products"].numbered, names)
    return {row["name"]: row["value"] for row in rows}


def _products(run: Run) -> set[str]:
    note: Ending = run.note
    return {p.param.key for p in note.products} if note.how == "success" else set()


async def _lock_firings(
    connection: Any, runs: Sequence[Run]
) -> tuple[dict[str, str], dict[int, Verdict]]:
    """Lock the states; answers where they are, by task, and why for those that could not be, by run."""
    if not runs:
        return {}, {}
    values = {
        "tasks": [run.note.task for run in runs],
        "firings": [run.note.firing for run in runs],
        "runs": [run.note.run for run in runs],
    }
    locking = SQL["lock_firings"]
    rows = await connection.fetch(locking.numbered, *locking.arguments(values))
    mine = {row["task"]: row["address"] for row in rows}
    if len(mine) == len(runs):
        return mine, {}
    finding = SQL["find_firings"]
    rows = await connection.fetch(finding.numbered, *finding.arguments(values))
    there = {row["task"] for row in rows}
    refused: dict[int, Verdict] = {
        run.token: "locked" if run.note.task in there else "gone"
        for run in runs
        if run.note.task not in mine
    }
    return mine, refused


def _try_products(note: Ending, current: dict[str, str | None]) -> tuple[list[Product], str | None]:
    """What a run really sets, taken as set in `current`; or nothing, and why the run fails."""
    if note.how != "success":
        return [], None
    moved: dict[str, str | None] = {}
    kept: list[Product] = []
    for product in note.products:
        key, raw = product.param.key, to_raw(product.value)
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


def _step(raw: int | str, old: str | None) -> str:
    if old is None or isinstance(raw, str):
        return "news"
    return "lower" if raw < int(old) else "greater" if raw > int(old) else "same"


def went_back(key: str, old: object, new: object) -> str:
    """Why a run whose product would go back fails, and the two ways out."""
    return (
        f"product {key!r} would go back from {old} to {new}; use run.advance(..., if_greater=True), "
        "or run.rewind to pass a rewind on"
    )


async def _set_products(connection: Any, products: Sequence[tuple[str, Product]]) -> None:
    """Set what successful runs bring, in their order; all is locked and compared already."""
    last: dict[str, tuple[str, Product]] = {}
    for task, product in products:
        key = product.param.key
        if product.is_rewind:
            if key in last:
                await _advance(connection, {key: last.pop(key)})
            await _rewind(connection, product, task)
        else:
            last[key] = (task, product)
    if last:
        await _advance(connection, last)


async def _advance(connection: Any, last: dict[str, tuple[str, Product]]) -> None:
    names = sorted(last)
    values = {
        "names": names,
        "kinds": [last[name][1].param.kind for name in names],
        "given": [str(to_raw(last[name][1].value)) for name in names],
        "only_greater": True,
        "changed_by": ", ".join(sorted({task for task, _ in last.values()}))[:200],
        "why": None,
    }
    await connection.fetch(SQL["advance"].numbered, *SQL["advance"].arguments(values))


async def _rewind(connection: Any, product: Product, by: str) -> None:
    values = {
        "name": product.param.key,
        "kind": product.param.kind,
        "given": str(to_raw(product.value)),
        "chunks": list(product.chunks),
        "changed_by": by,
        "why": product.why,
    }
    await connection.fetch(SQL["rewind"].numbered, *SQL["rewind"].arguments(values))


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


def result_json(captured: Any, base: int | None, firing: int, result: str | None) -> str:
    """What history keeps of a success."""
    kept = {
        "firing": str(firing),
        "base": None if base is None else str(base),
        "captured": captured,
    }
    if result is not None:
        kept["result"] = msgspec.Raw(result.encode())
    return msgspec.json.encode(kept).decode()
