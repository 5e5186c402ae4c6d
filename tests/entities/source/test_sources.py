"""Stages on every kind of source: odd keys, xmin, partitions, row security, locks, a DAO of one's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pytest

from mainspring import RetryPolicy, Untouched, Update
from mainspring.db.sql import Record, Statement, Values
from mainspring.db.tx import Tx
from mainspring.entities.declare.dao import Change, one_by_one
from mainspring.entities.declare.table import TableRow, shape_of
from mainspring.entities.source.rows import TableSource
from mainspring.entities.statements import SQL
from stages import Stages

ONCE = RetryPolicy(attempts=1)
ODD = [
    ("timestamptz", "2026-03-29 01:30:00+00"),
    ("bytea", "\\xdead"),
    ("char(4)", "ab"),
    ("numeric(8,2)", "7.50"),
    ("int4range", "[1,4)"),
]


@pytest.mark.parametrize(("type_", "text"), ODD)
@pytest.mark.parametrize("version", ["version", "xmin"])
async def test_a_stage_saves_entities_with_keys_of_any_type(
    stages: Stages, type_: str, text: str, version: str
) -> None:
    """S25, S26: any id type, and a version column or xmin as the lock."""
    stages.query(
        f"create table thing (id {type_} primary key, a integer, b integer, version bigint)"
    )
    kind = stages.kind("thing", table="thing", version=version)

    @kind.stage(reads=["a"], writes=["b"])
    async def double(thing: dict[str, Any]) -> Update:
        return Update(b=2 * thing["a"])

    await stages.install()
    stages.query(f"insert into thing (id, a) values ('{text}', 4)")
    await stages.run()
    stages.query("update thing set a = 5")
    await stages.run()

    assert stages.query("select b from thing") == [{"b": 10}]
    assert stages.queues(text) == []


@pytest.mark.parametrize("queue", ["listing", "listing/look", "listing~", "listing/look~"])
async def test_a_visit_under_another_text_of_the_id_goes_on_under_the_right_one(
    stages: Stages, queue: str
) -> None:
    """S25: one entity has one text, so that it has one turn; whatever else it was offered under."""
    kind = stages.kind()
    seen = []

    @kind.stage
    async def look(listing: dict[str, Any]) -> Untouched:
        seen.append(listing["id"])
        return Untouched()

    await stages.install()
    stages.add(7)
    stages.query("delete from mainspring.visit")
    stages.offer(queue, "007", {"new": 1, "out": 1})

    await stages.run()

    assert seen == [7]
    assert stages.queues("007") == []
    assert stages.queues(7) == []
    assert stages.history(queue, "007")[0]["result"] == {"written": "7"}


@pytest.mark.parametrize(
    ("type_", "written", "offered"), [("numeric", "1.0", "1.00"), ("citext", "Ada", "ADA")]
)
async def test_equal_ids_of_different_texts_have_one_turn_and_one_state(
    stages: Stages, type_: str, written: str, offered: str
) -> None:
    """S25: a key whose type keeps what was typed is visited as its row writes it."""
    if type_ == "citext":
        try:
            stages.query("create extension if not exists citext")
        except psycopg.Error:
            pytest.skip("this server has no citext")
    stages.query(f"create table thing (id {type_} primary key, version bigint default 1)")
    kind = stages.kind("thing", table="thing")
    seen = []

    @kind.stage
    async def look(thing: dict[str, Any], state: int | None) -> Untouched:
        seen.append(state)
        return Untouched(state=(state or 0) + 1)

    await stages.install()
    stages.query(f"insert into thing values ('{written}')")
    await stages.run()

    await kind.changed(offered)
    await stages.run()

    assert seen == [None, 1]
    assert stages.queues(offered) == []
    state = stages.state("look", written, kind="thing")
    assert state is not None
    assert state["body"] == 2


async def test_entities_of_a_partitioned_table_are_loaded_after_their_insert(
    stages: Stages,
) -> None:
    """`insert ... returning xmin` fails on a partitioned table; rows are read, and saved, all the same."""
    stages.query(
        "create table ad (id integer, region text, n integer, version bigint default 1, "
        "primary key (id, region)) partition by list (region)"
    )
    stages.query("create table ad_n partition of ad for values in ('n')")
    stages.query("create table ad_rest partition of ad default")
    kind = stages.kind("ad", table="ad", key="id")

    @kind.stage(writes=["region", "n"])
    async def settle(ad: dict[str, Any]) -> Update | Untouched:
        return Update(region="s", n=1) if ad["region"] == "n" else Untouched()

    await stages.install()
    stages.query("insert into ad values (1, 'n'), (2, 's')")
    await stages.run()

    rows = stages.query("select id, region, n, version from ad order by id")
    assert rows == [
        {"id": 1, "region": "s", "n": 1, "version": 2},
        {"id": 2, "region": "s", "n": None, "version": 1},
    ]


async def test_a_row_that_is_merely_not_found_keeps_its_state(stages: Stages) -> None:
    """S21: row security, a detached partition: a row that is not found is not a delete."""
    kind = stages.kind()

    @kind.stage
    async def remember(listing: dict[str, Any]) -> Untouched:
        return Untouched(state={"seen": listing["title"]})

    await stages.install()
    stages.add(1, title="a")
    await stages.run()
    stages.query("alter table listing rename to hidden")
    stages.query("create table listing (like hidden including all)")
    stages.offer("listing", 1, {"new": 1, "out": 1})
    stages.offer("listing/remember", 1)

    await stages.run()

    assert stages.queues(1) == []
    state = stages.state("remember")
    assert state is not None
    assert state["body"] == {"seen": "a"}


async def test_a_row_that_may_be_read_and_not_written_fails_alone_and_says_so(
    stages: Stages,
) -> None:
    """S2: row security hides it from the lock as if somebody had it, for ever."""

    async def price(listing: dict[str, Any]) -> Update:
        return Update(price=5)

    stages.kind().stage(price, retry=ONCE)
    await stages.install()
    role = f"clerk_{stages.connection.info.backend_pid}"
    stages.query(f"create role {role} login")
    stages.query(f"grant usage on schema mainspring to {role}")
    for what in ("tables", "sequences", "functions"):
        stages.query(f"grant all on all {what} in schema mainspring to {role}")
    stages.query(f"grant select, update on listing to {role}")
    stages.query("alter table listing enable row level security")
    stages.query("create policy shown on listing for select using (true)")
    stages.query("create policy changed on listing for update using (id <> 1)")
    worker = Stages.of(stages, stages.url.replace("postgres@", f"{role}@", 1))
    worker.kind().stage(price, retry=ONCE)
    try:
        stages.add(1, 2)
        async with worker.app:
            await worker.run()
    finally:
        stages.query(f"drop owned by {role}")
        stages.query(f"drop role {role}")

    visit = stages.visit("listing/price")
    assert visit is not None
    assert visit["parked_at"] is not None
    assert "shows the row to this role and does not let it update it" in visit["error"]
    assert [stages.listing(id)["price"] for id in (1, 2)] == [0, 5]


async def test_a_locked_table_holds_nothing_up_and_nothing_is_lost(stages: Stages) -> None:
    """A table lock cannot be skipped: the engine waits a little, gives way and comes again."""
    kind = stages.kind()

    @kind.stage(reads=["title"], writes=["price"])
    async def price(listing: dict[str, Any]) -> Update:
        return Update(price=len(listing["title"]))

    other = stages.app.entities("draft", table="draft", version="xmin")
    stages.query("create table draft (id integer primary key, n integer)")
    done = asyncio.Event()

    @other.stage
    async def touch(draft: dict[str, Any]) -> Untouched:
        done.set()
        return Untouched()

    await stages.install()
    stages.add(1, title="abc")
    async with stages.working() as worker:
        await stages.rest(worker)
        with stages.transaction() as user:
            user.execute("update listing set title = 'abcd'")
            user.execute("lock table listing in access exclusive mode")
            user.execute("insert into draft values (1)")
            user.commit()
            user.execute("lock table listing in access exclusive mode")
            await asyncio.wait_for(done.wait(), 10)
            user.rollback()
        await stages.rest(worker)

    assert stages.listing()["price"] == 4


async def test_loading_and_locking_ride_the_keys_index(stages: Stages) -> None:
    """A cast on the key's column would scan the table: casts are on the parameters."""
    stages.query("create table pair (a uuid, b timestamptz, n integer, primary key (a, b))")
    stages.query(
        "insert into pair select gen_random_uuid(), now(), n from generate_series(1, 3000) n"
    )
    stages.query("analyze pair")
    stages.kind("pair", table="pair", key=["a", "b"], version="xmin")
    await stages.install()
    row = stages.query("select a::text, b::text from pair limit 1")[0]
    connection = await (await stages.app.database()).connect("test")
    try:
        sent: list[tuple[str, ...]] = []

        class Spy(Tx):
            async def send(self, statement: Statement, values: Values) -> Sequence[Record]:
                sent.append((statement.numbered, *statement.arguments(values)))
                return await connection.send(statement, values)

        shape = shape_of(await connection.one(SQL["inspect_table"], TableRow, name="pair"))
        source = TableSource(stages.app.kinds["pair"], shape, None)
        key = json.dumps([row["a"], row["b"]])
        for ask in (source.load, source.lock):
            found = await ask(Spy(), [key])
            assert len(found) == 1
        assert await source.moved(Spy(), list(found.values())) == set()
        for text, *batch in sent:
            plan = await connection.fetch(f"explain {text}", *batch)
            lines = "\n".join(line[0] for line in plan)
            assert "Seq Scan on pair" not in lines
            assert "pair_pkey" in lines
    finally:
        await connection.close()


class Orders:
    """Orders in two tables, one at a time: what a single table cannot say."""

    async def load(self, connection: Any, id: str) -> tuple[Any, int] | None:
        row = await connection.fetchrow(
            "select o.id, o.version, o.status, coalesce(sum(l.price), 0)::int as total from orders o "
            "left join line l on l.order_id = o.id where o.id = $1 group by o.id",
            int(id),
        )
        if row is None:
            return None
        return ({"id": row["id"], "status": row["status"], "total": row["total"]}, row["version"])

    async def update(self, connection: Any, change: Change[Any]) -> int | None:
        if not change.patch:
            return await connection.fetchval(
                "select version from orders where id = $1 and version = $2 for no key update",
                int(change.id),
                change.version,
            )
        return await connection.fetchval(
            "update orders set status = $3, version = version + 1 where id = $1 and version = $2 "
            "returning version",
            int(change.id),
            change.version,
            change.patch["status"],
        )


class ManyOrders:
    """The same, many at once."""

    async def load(self, connection: Any, ids: Sequence[str]) -> Mapping[str, tuple[Any, int]]:
        rows = await connection.fetch(
            "select o.id, o.version, o.status, coalesce(sum(l.price), 0)::int as total from orders o "
            "left join line l on l.order_id = o.id where o.id = any($1::int[]) group by o.id",
            [int(id) for id in ids],
        )
        return {
            str(r["id"]): (
                {"id": r["id"], "status": r["status"], "total": r["total"]},
                r["version"],
            )
            for r in rows
        }

    async def update(self, connection: Any, changes: Sequence[Change[Any]]) -> Mapping[str, int]:
        one = one_by_one(Orders())
        return await one.update(connection, changes)


@pytest.mark.parametrize("dao", [one_by_one(Orders()), ManyOrders()])
async def test_a_dao_of_ones_own_loads_and_saves(stages: Stages, dao: Any) -> None:
    """S24: the DAO (load, update with version check, one and many)."""
    stages.query(
        "create table orders (id integer primary key, status text, version bigint default 1)"
    )
    stages.query("create table line (order_id integer, price integer)")
    orders = stages.app.entities("order", dao=dao)

    @orders.stage
    async def close(order: dict[str, Any], state: Any) -> Update | Untouched:
        if order["status"] == "open" and order["total"] > 10:
            return Update(status="closed", state={"at": order["total"]})
        return Untouched(state={"at": order["total"]})

    await stages.install()
    stages.query("insert into orders values (1, 'open'), (2, 'open')")
    stages.query("insert into line values (1, 7), (1, 8), (2, 1)")
    await orders.changed([1, 2])
    await stages.run()

    rows = stages.query("select id, status, version from orders order by id")
    assert rows == [
        {"id": 1, "status": "closed", "version": 2},
        {"id": 2, "status": "open", "version": 1},
    ]
    assert (await orders.state("close", 1))[0] == {"at": 15}
    assert (await orders.state("close", 2))[0] == {"at": 1}
    await orders.deleted(2)
    assert await orders.state("close", 2) == (None, 0)
    assert await asyncio.to_thread(orders.deleted_sync, [1]) == 1
    assert await orders.state("close", 1) == (None, 0)


class Wrong:
    """A DAO as it is written at first: `wrong` says what is amiss."""

    def __init__(self, wrong: str) -> None:
        self.wrong = wrong

    async def load(self, connection: Any, ids: Sequence[str]) -> Any:
        if self.wrong == "list":
            return [({"id": id}, 1) for id in ids]
        if self.wrong == "numbers":
            return {int(id): ({"id": id}, 1) for id in ids}
        return {id: {"id": id} if self.wrong == "no version" else ({"id": id}, 1) for id in ids}

    async def update(self, connection: Any, changes: Sequence[Change[Any]]) -> Any:
        return {change.id: change.version + 1 for change in changes if change.patch}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("list", "load of the dao must answer a mapping by id, got list of 1"),
        (
            "numbers",
            "load of the dao answered for the id 1, which it was not asked for; ids are the",
        ),
        ("no version", "load of the dao must answer (entity, version) for '1'"),
        ("no lock", "an empty patch of version 1 and answered None: it must lock the entity"),
    ],
)
async def test_a_dao_that_is_wrong_is_told_so(stages: Stages, wrong: str, said: str) -> None:
    """S24: an entity is neither taken for missing nor tried for ever."""
    orders = stages.app.entities("order", dao=Wrong(wrong))

    @orders.stage(retry=ONCE)
    async def close(order: dict[str, Any]) -> Update:
        return Update(status="closed")

    await stages.install()
    stages.offer("order/close")
    await stages.run()

    visit = stages.visit("order/close")
    assert visit is not None
    assert visit["parked_at"] is not None
    assert said in visit["error"]


async def test_what_a_dao_writes_to_the_table_of_another_kind_is_a_change_of_it(
    stages: Stages,
) -> None:
    """S21, S24: only the kind that is saved for hears nothing of the save."""
    stages.query(
        "create table orders (id integer primary key, status text, version bigint default 1)"
    )
    stages.query("create table line (order_id integer, price integer)")
    orders, rows = (
        stages.app.entities("order", dao=ManyOrders()),
        stages.kind("row", table="orders"),
    )
    seen = []

    @orders.stage
    async def close(order: dict[str, Any]) -> Update:
        return Update(status="closed")

    @rows.stage(reads=["status"])
    async def look(row: dict[str, Any]) -> Untouched:
        seen.append(row["status"])
        return Untouched()

    await stages.install()
    stages.query("insert into orders values (1, 'open')")
    await stages.run()
    await orders.changed([1])
    await stages.run()

    assert seen == ["open", "closed"]


class SlowOrders:
    """A DAO that answers when it is let go."""

    def __init__(self) -> None:
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def load(self, connection: Any, ids: Sequence[str]) -> Mapping[str, tuple[Any, int]]:
        self.asked.set()
        await self.gate.wait()
        return {id: ({"id": id}, 1) for id in ids}

    async def update(self, connection: Any, changes: Sequence[Change[Any]]) -> Mapping[str, int]:
        return {change.id: change.version for change in changes}


async def test_a_slow_dao_keeps_no_other_kind_from_loading(stages: Stages) -> None:
    """S2, S24: it has a connection of its own."""
    dao = SlowOrders()
    orders, kind = stages.app.entities("order", dao=dao), stages.kind()
    looked = asyncio.Event()

    @orders.stage
    async def close(order: dict[str, Any]) -> Untouched:
        return Untouched()

    @kind.stage
    async def look(listing: dict[str, Any]) -> Untouched:
        looked.set()
        return Untouched()

    await stages.install()
    await orders.changed([1])
    async with stages.working() as worker, asyncio.timeout(30):
        await dao.asked.wait()
        stages.add(1)
        await looked.wait()
        dao.gate.set()
        await stages.rest(worker)


async def test_an_id_is_one_however_it_is_asked_for(stages: Stages) -> None:
    """S25, S11, S20: the state, the queues and the timer of 1.0 are those of 1.00."""
    stages.query("create table thing (id numeric primary key, version bigint default 1)")
    kind = stages.kind("thing", table="thing")

    @kind.stage
    async def look(thing: dict[str, Any], state: int | None) -> Untouched:
        return Untouched(state=state or 1, visit_in=3600)

    await stages.install()
    stages.query("insert into thing values (1.0)")
    await stages.run()

    value, version = await kind.state("look", "1.00")
    changed = await kind.set_state("look", "1.000", 5, version)
    entries = [entry.queue for entry in await kind.check("1.00")]
    gone = await kind.delete_visit("1.000", "look")

    assert (value, changed, gone) == (1, True, True)
    assert entries == ["thing", "thing/look"]
    assert stages.query("select key, body from mainspring.state") == [{"key": "1.0", "body": 5}]
    assert stages.query("select distinct key from mainspring.visit") == [{"key": "1.0"}]


async def test_columns_named_as_the_aliases_of_our_statements(stages: Stages) -> None:
    """S26: a table whose columns are called t, i, x, n, k0 and c0 is loaded, locked, saved and set."""
    stages.query(
        "create table odd (k0 bigint primary key, t text, i integer, x integer, n integer, c0 integer, "
        "version bigint default 1)"
    )
    kind = stages.kind("odd", table="odd", key="k0")
    seen = []

    @kind.stage(name="whole", writes=["c0"])
    async def whole(odd: dict[str, Any], state: int | None) -> Update:
        seen.append(dict(odd))
        return Update(c0=odd["i"] + odd["x"] + odd["n"], state=state or 1)

    @kind.stage(name="part", reads=["x", "t"], writes=["n"])
    async def part(odd: dict[str, Any]) -> Untouched:
        seen.append(dict(odd))
        return Untouched()

    await stages.install()
    stages.query("insert into odd values (1, 'text', 2, 3, 4, 0)")
    await stages.run()
    _, version = await kind.state("whole", 1)
    changed = await kind.set_state("whole", 1, 7, version)
    await stages.run()

    assert changed is True
    assert {"k0": 1, "x": 3, "t": "text", "n": 4} in seen
    assert stages.query("select t, i, c0 from odd") == [{"t": "text", "i": 2, "c0": 9}]
