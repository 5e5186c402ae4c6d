"""Sending signals: buffered when early, the same id is the same signal (P15)."""

from __future__ import annotations

from typing import NamedTuple

from mainspring.db.steps import Steps, first
from mainspring.errors import NotFound, Refused
from mainspring.kernel import new_id
from mainspring.processes.commit.visits import engine_visit, insert_steps
from mainspring.processes.statements import SQL


class SignalTarget(NamedTuple):
    """A row of insert_signal.sql."""

    state: str  # of the process
    stored: int  # 0: the same signal was there
    engine: str


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
    holds up the process.
    """
    target = yield from first(
        SQL["insert_signal"],
        SignalTarget,
        process_id=process_id,
        name=name,
        id=id if id is not None else new_id(),
        payload=payload,
        sent_by=sent_by,
    )
    if target is None:
        raise NotFound(f"there is no process {process_id}: the signal {name!r} was not sent")
    if target.state != "open":
        raise Refused(
            f"process {process_id} is {target.state}: it takes no signal {name!r} any more"
        )
    if target.stored:
        visit = engine_visit("signal", process_id, new_id(), id=new_id(), engine=target.engine)
        yield from insert_steps([visit], shard_count)
    return bool(target.stored)
