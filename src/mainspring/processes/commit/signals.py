"""Sending signals: buffered when early, the same id is the same signal (P15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mainspring.db.sql import Steps, first, rows
from mainspring.errors import InvalidArguments, NotFound, Refused
from mainspring.ids import new_id
from mainspring.processes.commit.visits import engine_visit, insert_steps
from mainspring.processes.commit.waiting import GRANT, lock_signal
from mainspring.processes.statements import SQL


class SignalTarget(NamedTuple):
    """A row of insert_signal.sql."""

    state: str  # of the process
    stored: int  # 0: the same signal was there
    engine: str
    is_clear: bool  # and the values of the process are encrypted: it is not stored


def send_steps(
    process_id: str,
    name: str,
    payload: str,
    *,
    shard_count: int,
    id: str | None = None,
    sent_by: str = "",
) -> Steps[bool]:
    """Store a signal (`payload` is JSON) and have the process look at it, in anyone's transaction.

    Answers whether it is new. The visit has a key of its own: no open transaction of a sender ever
    holds up the process. A lock is granted by whoever looks at it, and by nobody else.
    """
    _check_name(name)
    return (
        yield from _send_steps(
            process_id,
            name,
            payload,
            shard_count=shard_count,
            id=new_id() if id is None else id,
            sent_by=sent_by,
        )
    )


def grant_steps(process_id: str, task: str, generation: int, *, shard_count: int) -> Steps[None]:
    """Tell a task that it has the lock for which it asked, once for each time that it asks."""
    name = lock_signal(task, generation)
    yield from _send_steps(
        process_id, name, "null", shard_count=shard_count, id="granted", sent_by=""
    )


def _check_name(name: str) -> None:
    if name.startswith(GRANT):
        raise InvalidArguments(
            f"the signal {name!r} says that a lock is granted, and the engine alone sends it: cancel who "
            "holds the lock (`mainspring processes locks` names him)"
        )


def _send_steps(
    process_id: str, name: str, payload: str, *, shard_count: int, id: str, sent_by: str
) -> Steps[bool]:
    target = yield from first(
        SQL["insert_signal"],
        SignalTarget,
        process_id=process_id,
        name=name,
        id=id,
        payload=payload,
        sent_by=sent_by,
    )
    if target is None:
        raise NotFound(f"there is no process {process_id}: the signal {name!r} was not sent")
    if target.state != "open":
        raise Refused(
            f"process {process_id} is {target.state}: it takes no signal {name!r} any more"
        )
    if target.is_clear:
        raise in_the_clear(process_id)
    if target.stored:
        visit = engine_visit("signal", process_id, new_id(), id=new_id(), engine=target.engine)
        yield from insert_steps([visit], shard_count)
    return bool(target.stored)


class NewSignal(NamedTuple):
    """A signal for the process of a type that was started with a key. `payload` is JSON."""

    type: str
    key: str
    name: str
    id: str
    payload: str


class KeyedTarget(NamedTuple):
    """A row of insert_signals.sql: the process of a signal, by the signal's place in the list."""

    n: int
    process_id: str
    state: str
    engine: str
    is_new: bool
    was_known: bool


def send_many_steps(
    signals: Sequence[NewSignal], *, shard_count: int, sent_by: str
) -> Steps[list[bool]]:
    """Store signals, in their order, and have their processes look at them.

    Answers of each whether its process has it: not, where there is none, or it has ended before.
    """
    for signal in signals:
        _check_name(signal.name)
    targets = yield from rows(
        SQL["insert_signals"],
        KeyedTarget,
        types=[signal.type for signal in signals],
        keys=[signal.key for signal in signals],
        names=[signal.name for signal in signals],
        ids=[signal.id for signal in signals],
        payloads=[signal.payload for signal in signals],
        sent_by=sent_by,
    )
    visits = [
        engine_visit("signal", each.process_id, new_id(), id=new_id(), engine=each.engine)
        for each in targets
        if each.is_new
    ]
    yield from insert_steps(visits, shard_count)
    has = {each.n for each in targets if each.is_new or each.was_known or each.state == "open"}
    return [n in has for n in range(1, len(signals) + 1)]


def in_the_clear(id: str) -> Refused:
    """Why a value is not taken."""
    return Refused(
        f"the values of process {id} are encrypted, and there is no cipher here to encrypt this one: give "
        "the application that has it (--app module:name on the command line)"
    )
