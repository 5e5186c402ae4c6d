"""Sending signals: buffered when early, the same id is the same signal (P15)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from mainspring.errors import NotFound, Refused
from mainspring.kernel import KERNEL_SQL, new_id
from mainspring.processes.commit.visits import engine_visit, insert_values
from mainspring.processes.statements import SQL
from mainspring.processes.steps import Step


def send_steps(
    process_id: str,
    name: str,
    payload: str,
    *,
    shard_count: int,
    id: str | None = None,
    sent_by: str = "",
) -> Generator[Step, list[Any], bool]:
    """Store a signal (`payload` is JSON) and have the process look at it, in anyone's transaction.

    Answers whether it is new. The visit has a key of its own: no open transaction of a sender ever
    holds up the process.
    """
    id = id if id is not None else new_id()
    values = {
        "process_id": process_id,
        "name": name,
        "id": id,
        "payload": payload,
        "sent_by": sent_by,
    }
    rows = yield SQL["insert_signal"], values
    if not rows:
        raise NotFound(f"there is no process {process_id}: the signal {name!r} was not sent")
    state, stored, engine = rows[0]
    if state != "open":
        raise Refused(f"process {process_id} is {state}: it takes no signal {name!r} any more")
    if stored:
        visit = engine_visit("signal", process_id, new_id(), id=new_id(), engine=engine)
        yield KERNEL_SQL["insert_new"], insert_values([visit], shard_count)
    return bool(stored)
