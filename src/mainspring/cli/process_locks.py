"""`mainspring processes locks`: who holds locks over several steps, and who waits for them."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.target import ask
from mainspring.operator import Operator
from mainspring.processes.locks.claims import ProcessLock


def locks(
    name: Annotated[str | None, typer.Argument(help="This lock alone, with its line.")] = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Who holds locks, and who waits for them. A holder that has ended has none: that needs no release."""

    async def question(operator: Operator) -> list[ProcessLock]:
        return await operator.processes.locks(name)

    found = ask(question, url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("lock", "held by", "process", "since", "waiting", "deadlock"),
        (
            (
                lock.name,
                None if lock.holder is None else lock.holder.who,
                None if lock.holder is None else lock.holder.process_id,
                None if lock.holder is None else lock.holder.held_at,
                len(lock.waiters),
                " -> ".join(lock.circle) or None,
            )
            for lock in found
        ),
        empty="nobody holds a lock or waits for one",
    )
    if name is not None and found:
        show.print_table(
            ("in line", "process", "since"),
            ((claim.who, claim.process_id, claim.asked_at) for claim in found[0].waiters),
            empty="nobody waits",
        )
