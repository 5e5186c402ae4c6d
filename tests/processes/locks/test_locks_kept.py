"""P15: nobody gets past a lock, and no word of a stranger grants one."""

from __future__ import annotations

import psycopg
import pytest

from mainspring import Mainspring, Promise, lock
from mainspring.errors import InvalidArguments
from mainspring.processes.commit.waiting import lock_signal
from mainspring.processes.locks.granting import PAGE
from mainspring.testing import run_until_idle


async def test_a_signal_of_a_strangers_grants_no_lock(app: Mainspring) -> None:
    """P15: by an operator, by the application, of any name that grants one."""
    said: list[str] = []
    go_on = app.signal("go on", None)

    @app.task
    def step(who: str) -> None:
        said.append(who)

    @app.process
    def section(who: str) -> Promise[None]:
        with lock("door") as s:
            s.returns(step(who, after=[go_on.wait()]))
        return s.promise

    await section.start("a")
    await run_until_idle(app)
    waits = await section.start("b")
    await run_until_idle(app)
    [door] = await app.operator.processes.locks("door")
    name = lock_signal(door.waiters[0].task, 1)
    forged = app.signal(name, None)
    for sending in (
        app.operator.processes.signal(waits.id, name),
        waits.signal(forged),
    ):
        with pytest.raises(InvalidArguments, match="says that a lock is granted, and the engine"):
            await sending
    await waits.signal(go_on)
    await run_until_idle(app)
    assert said == []


async def test_a_line_of_those_who_left_is_passed_over_whole(
    app: Mainspring, mainspring_url: str
) -> None:
    """P15: a page and one more of those who do not count, the holder last of them."""

    @app.task
    def step(who: str) -> str:
        return who

    @app.process
    def section(who: str) -> Promise[str]:
        with lock("door") as s:
            s.returns(step(who))
        return s.promise

    text = """
        insert into mainspring.process_lock
          (name, process_id, task, generation, scope_id, asked_at, held_at)
        select 'door', gen_random_uuid(), gen_random_uuid(), 1, gen_random_uuid(), now(),
          case when n = %(most)s then now() end
        from generate_series(1, %(most)s) n
    """
    await run_until_idle(app)
    with psycopg.connect(mainspring_url, autocommit=True) as connection:
        connection.execute(text, {"most": 2 * PAGE + 1})
    handle = await section.start("a")
    await run_until_idle(app)
    assert await handle.result(timeout=1) == "a"
