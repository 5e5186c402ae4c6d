"""A DAO of one's own saves many entities in one call, each checked for its own version (S24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mainspring import Change, Kind, Untouched, Update, one_by_one
from mainspring.errors import InvalidKind
from mainspring.retry_policy import RetryPolicy
from mainspring.testing import wait_until
from stages import Stages

MANY = 120


class Boxes:
    """Boxes in a table, written by one statement for many; notes how many each call got."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    async def load(self, connection: Any, ids: Sequence[str]) -> Mapping[str, tuple[Any, int]]:
        query = "select id, n, version from box where id = any($1::int[])"
        rows = await connection.fetch(query, [int(id) for id in ids])
        return {str(r["id"]): ({"id": r["id"], "n": r["n"]}, r["version"]) for r in rows}

    async def update(self, connection: Any, changes: Sequence[Change[Any]]) -> Mapping[str, int]:
        given = [[int(c.id) for c in changes], [c.version for c in changes]]
        if not changes[0].patch:
            rows = await connection.fetch(
                "select b.id, b.version from box b join unnest($1::int[], $2::bigint[]) c(id, version)"
                " using (id) where b.version = c.version order by b.id for no key update of b",
                *given,
            )
        else:
            self.calls.append([c.id for c in changes])
            rows = await connection.fetch(
                "update box b set n = c.n, version = b.version + 1"
                " from unnest($1::int[], $2::bigint[], $3::int[]) c(id, version, n)"
                " where b.id = c.id and b.version = c.version returning b.id, b.version",
                *given,
                [c.patch["n"] for c in changes],
            )
        return {str(r["id"]): r["version"] for r in rows}


def declare(stages: Stages, dao: Any) -> Kind:
    stages.query(
        "create table box (id integer primary key, n integer default 0, version bigint default 1,"
        " check (n <> 13))"
    )
    stages.query(f"insert into box (id) select generate_series(1, {MANY})")
    kind = stages.app.entities("box", dao=dao)

    @kind.stage(name="Fill", retry=RetryPolicy(attempts=1))
    async def fill(box: dict[str, Any]) -> Update | Untouched:
        return Untouched() if box["n"] else Update(n=box["id"])

    return kind


async def test_many_changes_come_in_one_call_each_with_its_own_version(stages: Stages) -> None:
    """S24: one that fails does so alone, one that is locked by somebody holds up no other."""
    dao = Boxes()
    kind = declare(stages, dao)
    await stages.install()
    await kind.changed([str(n) for n in range(1, MANY + 1)])
    filled = "select count(*) from box where n = id"

    async with stages.working():
        with stages.transaction() as user:
            user.execute("update box set version = version + 1 where id = 7")
            await wait_until(lambda: stages.value(filled) == MANY - 2, 30)
            assert stages.value("select n from box where id = 7") == 0
        await wait_until(lambda: stages.value(filled) == MANY - 1, 30)

    assert max(map(len, dao.calls)) > 10
    visit = stages.visit("box/Fill", 13)
    assert visit is not None
    assert "CheckViolation" in visit["error"]
    assert stages.query("select id, version from box where version <> 2 order by id") == [
        {"id": 7, "version": 3},
        {"id": 13, "version": 1},
    ]


async def test_one_by_one_has_a_transaction_for_each(stages: Stages) -> None:
    """S24: the unbatched form."""
    many = Boxes()

    class Box:
        async def load(self, connection: Any, id: str) -> tuple[Any, int] | None:
            return (await many.load(connection, [id])).get(id)

        async def update(self, connection: Any, change: Change[Any]) -> int | None:
            return (await many.update(connection, [change])).get(change.id)

    kind = declare(stages, one_by_one(Box()))
    await stages.install()
    await kind.changed(["1", "2", "3"])
    await stages.run()

    assert sorted(many.calls) == [["1"], ["2"], ["3"]]


async def test_how_many_a_dao_takes_is_checked(stages: Stages) -> None:
    dao = Boxes()
    dao.most = 0  # type: ignore[attr-defined]
    declare(stages, dao)
    await stages.install()

    with pytest.raises(InvalidKind, match="most of the dao of kind 'box' must be 1 to 1000, got 0"):
        async with stages.working():
            pass
