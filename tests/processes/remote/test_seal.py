"""The secrets under which tickets are sealed: two are good, and those of another installation are not."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.errors import InvalidArguments
from mainspring.processes.remote.pulling import pass_of
from mainspring.processes.remote.seal import rotate_secret_steps


def declare(app: Mainspring) -> Any:
    @app.task(remote=True)
    def scan(page: int) -> str:
        raise AssertionError("it is run elsewhere")

    return scan


async def rotate(app: Mainspring, *, seen: bool = True) -> int:
    pool = await app.pool()
    async with pool.connection(transaction=True) as connection:
        number = await connection.follow(rotate_secret_steps())
    if seen:
        app.remote._seals._read_at -= 10.0  # what was read is not believed any more
    return number


async def test_a_ticket_outlives_one_change_of_the_secret_and_not_two(
    app: Mainspring,
) -> None:
    """P3: what is at work goes on; what is older than two secrets comes back by its time."""
    scan = declare(app)
    await app.migrate()
    for page in range(3):
        await scan.enqueue(page)
    old, older = await app.remote.pull("scan", limit=2)
    assert await rotate(app) == 2
    assert await app.remote.complete(old.ticket, "text") == "accepted"
    [new] = await app.remote.pull("scan", limit=2)
    assert await rotate(app) == 3
    assert await app.remote.beat(new.ticket)
    with pytest.raises(InvalidArguments, match="is no ticket"):
        await app.remote.beat(older.ticket)


async def test_a_server_that_knows_an_old_secret_looks_again(app: Mainspring) -> None:
    """A ticket under a secret that was made a moment ago, elsewhere, is opened."""
    scan = declare(app)
    await app.migrate()
    await scan.enqueue(1)
    await scan.enqueue(2)
    [_] = await app.remote.pull("scan")
    app.remote._seals._read_at -= 2.0  # it was read two seconds ago, and is still believed
    await rotate(app, seen=False)
    async with Mainspring(app._url) as other:
        [task] = await other.remote.pull("scan")
        assert await app.remote.beat(task.ticket)


async def test_tickets_of_another_installation_are_none(app: Mainspring, database_url: str) -> None:
    scan = declare(app)
    await app.migrate()
    await scan.enqueue(1)
    [task] = await app.remote.pull("scan")
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("delete from mainspring.secret")
        other.execute("insert into mainspring.secret (number) values (1)")
    app.remote._seals._read_at -= 10.0
    with pytest.raises(InvalidArguments, match="is no ticket"):
        await app.remote.complete(task.ticket, "text")


def test_the_pass_of_a_pull_is_the_same_in_sql(database_url: str) -> None:
    """Rule 14: whoever asks again is known by it."""
    text = (
        "select (('x' || left(encode(sha256(convert_to(%s::text || %s::bigint::text, 'UTF8')), 'hex'), 16))"
        "::bit(64) >> 1)::bigint"
    )
    with psycopg.connect(database_url) as connection:
        for pull_id, version in (("a", 1), ("ü" * 30, -(2**63)), ("x-7", 2**63 - 1)):
            [(found,)] = connection.execute(text, (pull_id, version)).fetchall()
            assert found == pass_of(pull_id, version)


async def test_without_a_worker_nobody_recovers_and_the_doctor_says_so(app: Mainspring) -> None:
    scan = declare(app)
    await app.migrate()
    await scan.enqueue(1)
    [_] = await app.remote.pull("scan")
    [finding] = [f for f in await app.operator.doctor() if f.name == "unrecovered"]
    assert finding.text == (
        "actors elsewhere serve 'scan', and no worker is in pool 'default': nobody recovers the tasks of "
        "one that dies"
    )
    assert "mainspring serve never recovers" in finding.remedy
