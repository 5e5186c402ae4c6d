"""Params: set, moved back, refused; from Python in one's own or the caller's transaction, from SQL."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from tables import Base, day, working

from mainspring import Mainspring
from mainspring.errors import InvalidSetting, InvalidValue, UnknownParam, WentBack
from mainspring.reactive.model.triggers import Delta
from mainspring.reactive.model.values import Param
from mainspring.testing import Clock, wait_until

KEY = "dwh.orders.loaded_to"


@pytest.fixture
async def count(app: Mainspring) -> Param:
    return app.data("dwh.orders").param("rows", kind="integer")


@pytest.fixture
async def version(app: Mainspring) -> Param:
    return app.data("ref.codes").param("version", kind="version")


@pytest.fixture
async def made(app: Mainspring, orders: Param, count: Param, version: Param) -> None:
    for param in (orders, count, version):
        await app.reactive.create_param(param)


async def value_of(app: Mainspring, param: Param) -> object:
    return (await app.reactive.params(name=param.key))[0].value


async def test_values_of_every_kind_are_kept_exactly(
    app: Mainspring, orders: Param, count: Param, version: Param
) -> None:
    """R1: instants to the microsecond, integers of 64 bits, versions as they are."""
    moment = datetime(8999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)

    await app.advance_many([(orders, moment), (count, 2**63 - 1), (version, "v2")])

    assert await value_of(app, orders) == moment
    assert await value_of(app, count) == 2**63 - 1
    assert await value_of(app, version) == "v2"


async def test_a_change_is_kept_with_who_and_why(
    app: Mainspring, orders: Param, base: Base
) -> None:
    """R1: changes are kept as a history; an equal value is no change."""
    await app.advance(orders, day(1), by="loader", why="nightly")
    await app.advance(orders, day(1), by="nobody")
    await app.rewind(orders, day(1) - timedelta(hours=1), by="ann", why="late rides")

    newest, oldest = await app.reactive.param_history(orders.key)

    assert (oldest.value, oldest.old, oldest.changed_by, oldest.why) == (
        day(1),
        None,
        "loader",
        "nightly",
    )
    assert (newest.is_rewind, newest.changed_by, newest.old) == (True, "ann", day(1))


async def test_a_burst_in_one_call_leaves_one_row_and_one_change(
    app: Mainspring, orders: Param, base: Base
) -> None:
    """R1: 50,000 updates of one param as one advance_many."""
    changes = [(orders, day(1) + timedelta(seconds=n)) for n in range(50_000)]

    await app.advance_many(changes)

    assert base.value("select count(*) from mainspring.param") == 1
    assert base.visits("mainspring.change") == [("mainspring.change", KEY)]
    assert await value_of(app, orders) == changes[-1][1]


@pytest.mark.parametrize(
    "many", [1_000, pytest.param(50_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
async def test_a_burst_in_transactions_of_their_own_leaves_one_change(
    app: Mainspring, orders: Param, base: Base, many: int
) -> None:
    """R1: values, not events: however many there were, one change waits."""
    await app.reactive.create_param(orders)
    with psycopg.connect(base.url, autocommit=True) as connection:
        for n in range(many):
            app.advance_sync(orders, day(1) + timedelta(seconds=n), on=connection)

    assert base.value("select count(*) from mainspring.param") == 1
    assert len(base.visits("mainspring.change")) == 1


async def test_history_is_kept_by_age(
    app: Mainspring, base: Base, clock: Clock, orders: Param
) -> None:
    """R1: changes and evaluations older than a month go, the value stays; a rewind stays until every
    consumer has passed it."""

    @app.task(when=Delta(orders, "9d"), first_run="baseline", on_rewind="rerun")
    async def daily() -> None: ...

    await app.advance(orders, day(5))
    async with working(app) as worker:
        await app.rewind(orders, day(4))
        await worker.idle()
        await clock.advance(timedelta(days=31))
        await app.advance(orders, day(6))
        await wait_until(
            lambda: base.value("select count(*) from mainspring.param_log") == 1, timeout=30
        )
        await worker.idle()

        assert base.value("select count(*) from mainspring.param_rewind") == 1
        assert (await app.reactive.params(name=orders.key))[0].value == day(6)
        await app.reactive.seen_move("daily", orders.key, day(5))
        await clock.advance(timedelta(hours=2))
        await wait_until(
            lambda: base.value("select count(*) from mainspring.param_rewind") == 0, timeout=30
        )


async def test_a_value_that_goes_back_is_refused_and_the_transaction_goes_on(
    app: Mainspring, orders: Param, base: Base
) -> None:
    """R13: refused with the hint to rewind, without spoiling the caller's transaction."""
    await app.advance(orders, day(2))
    async with await psycopg.AsyncConnection.connect(base.url) as connection:
        with pytest.raises(WentBack, match=r"would go back from 2026-03-02.*rewind.*if_greater"):
            await app.advance(orders, day(1), on=connection)
        await app.advance(orders, day(3), on=connection)

    assert await value_of(app, orders) == day(3)


async def test_only_if_greater_answers_no(app: Mainspring, orders: Param, base: Base) -> None:
    """R13: "only if greater" answers no, an equal value is accepted and nothing happens."""
    await app.advance(orders, day(2))
    base.rows("delete from mainspring.visit")

    assert not await app.advance(orders, day(1), if_greater=True)
    assert not await app.advance(orders, day(2))
    assert base.visits() == []
    assert await value_of(app, orders) == day(2)


async def test_a_version_has_no_order(app: Mainspring, version: Param) -> None:
    """R13: unordered versions are exempt: any difference is news."""
    assert await app.advance(version, "b")
    assert await app.advance(version, "a")
    assert not await app.advance(version, "a")


async def test_many_are_set_all_or_none(app: Mainspring, orders: Param, count: Param) -> None:
    await app.advance_many([(orders, day(2)), (count, 5)])

    with pytest.raises(WentBack, match=r"dwh\.orders\.rows"):
        await app.advance_many([(orders, day(3)), (count, 4)])

    assert await value_of(app, orders) == day(2)


async def test_an_advance_is_part_of_the_callers_transaction(
    app: Mainspring, orders: Param, base: Base, made: None
) -> None:
    """R1: whoever changes the data sets them, in its own transaction."""
    with psycopg.connect(base.url) as connection:
        app.advance_sync(orders, day(1), on=connection)
        connection.rollback()

    assert await value_of(app, orders) is None
    assert base.visits() == []


async def test_a_connection_of_the_wrong_kind_is_named(
    app: Mainspring, orders: Param, base: Base
) -> None:
    with (
        psycopg.connect(base.url) as connection,
        pytest.raises(InvalidSetting, match=r"a sync connection .*use advance_sync"),
    ):
        await app.advance(orders, day(1), on=connection)
    async with await psycopg.AsyncConnection.connect(base.url) as connection:
        with pytest.raises(InvalidSetting, match=r"an async connection .*await advance"):
            app.advance_sync(orders, day(1), on=connection)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (datetime(2026, 3, 1), "naive"),
        (datetime(9000, 1, 1, tzinfo=UTC), "1970 to the end of 8999"),
        (datetime(1969, 12, 31, tzinfo=UTC), "1970 to the end of 8999"),
        (5, "kind 'instant'"),
        ("2026-03-01", "kind 'instant'"),
        (None, "kind 'instant'"),
    ],
)
async def test_what_cannot_be_a_value_is_refused(
    app: Mainspring, orders: Param, given: object, words: str
) -> None:
    """R3: naive datetimes, other types, instants outside 1970 to 9000."""
    with pytest.raises(InvalidValue, match=words):
        await app.advance(orders, given)


async def test_an_unknown_param_is_refused_with_the_nearest(app: Mainspring, orders: Param) -> None:
    with pytest.raises(UnknownParam, match=r"'dwh.orders.loaded'; did you mean '" + KEY):
        await app.advance("dwh.orders.loaded", day(1))
    await app.reactive.create_param(orders)
    with pytest.raises(UnknownParam, match="did you mean"):
        await app.reactive.params(name="dwh.order.loaded_to")


async def test_a_param_that_nobody_declared_is_not_made_by_setting_it(
    app: Mainspring, base: Base, orders: Param
) -> None:
    """R1: a typo would be a param that no task looks at; the caller's transaction stays usable."""
    await app.reactive.create_param(orders)
    typo = Param("dwh.order", "loaded_to", "instant")

    with pytest.raises(UnknownParam, match=r"'dwh.order.loaded_to'; did you mean '" + KEY):
        await app.advance(typo, day(1))
    with pytest.raises(UnknownParam, match="did you mean"):
        await app.rewind(typo, day(1))
    with psycopg.connect(base.url) as loader:
        with pytest.raises(UnknownParam, match="did you mean"):
            app.advance_many_sync([(orders, day(1)), (typo, day(1))], on=loader)
        app.advance_sync(orders, day(2), on=loader)

    assert base.rows("select name from mainspring.param") == [{"name": orders.key}]
    assert (await app.reactive.params(name=orders.key))[0].value == day(2)


async def test_a_param_of_another_kind_is_refused(app: Mainspring, orders: Param) -> None:
    await app.reactive.create_param(orders)
    other = Param("dwh.orders", "loaded_to", "integer")

    with pytest.raises(InvalidValue, match="declared as 'integer', the database has it as 'inst"):
        await app.advance(other, 5)
    with pytest.raises(InvalidSetting, match="'instant' and as 'integer'"):
        app.data("dwh.orders").param("loaded_to", kind="integer")


async def test_a_value_far_ahead_is_warned_about_and_listed(
    app: Mainspring, orders: Param, caplog: pytest.LogCaptureFixture
) -> None:
    """A far-future value makes every later advance lower: it is said at once."""
    with caplog.at_level(logging.WARNING, "mainspring"):
        await app.advance(orders, datetime(2999, 1, 1, tzinfo=UTC))

    assert [r.msg for r in caplog.records] == ["param.far_ahead"]
    assert (await app.reactive.params(name=orders.key))[0].ahead
    await app.rewind(orders, day(1))
    assert not (await app.reactive.params(name=orders.key))[0].ahead


class TestRewind:
    async def test_a_rewind_must_go_back(self, app: Mainspring, orders: Param) -> None:
        """R13: forward is advance; the same value only with restated chunks."""
        await app.advance(orders, day(2))

        with pytest.raises(InvalidValue, match="is no way back; use advance"):
            await app.rewind(orders, day(3))
        with pytest.raises(InvalidValue, match=r"already.*chunks=\[...\]"):
            await app.rewind(orders, day(2))
        await app.rewind(orders, day(2), chunks=[day(1)])

        assert (await app.reactive.params(name=orders.key))[0].rewinds == 1

    async def test_a_param_without_a_value_cannot_be_moved_back(
        self, app: Mainspring, orders: Param, made: None
    ) -> None:
        with pytest.raises(InvalidValue, match="has no value to move back from"):
            await app.rewind(orders, day(2))
        with pytest.raises(UnknownParam):
            await app.rewind(Param("no", "thing"), day(2))

    async def test_versions_have_no_chunks(self, app: Mainspring, version: Param) -> None:
        await app.advance(version, "b")

        with pytest.raises(InvalidValue, match="has no chunks"):
            await app.rewind(version, "a", chunks=[day(1)])


@pytest.mark.usefixtures("made")
class TestSql:
    async def test_a_param_is_advanced_by_plain_sql(
        self, app: Mainspring, orders: Param, count: Param, version: Param, base: Base
    ) -> None:
        """R1: select mainspring.advance(...), in the user's own transaction, from any language."""
        assert base.value("select mainspring.advance(%s, timestamptz '2026-03-01 00:00Z')", KEY)
        assert not base.value("select mainspring.advance(%s, timestamptz '2026-03-01 00:00Z')", KEY)
        assert base.value("select mainspring.advance('dwh.orders.rows', 7)")
        assert base.value("select mainspring.advance('dwh.orders.rows', 8::bigint, why => 'more')")
        assert base.value("select mainspring.advance('ref.codes.version', 'v1')")

        assert await value_of(app, orders) == day(1)
        assert await value_of(app, count) == 8
        assert await value_of(app, version) == "v1"
        assert len(base.visits("mainspring.change")) == 3

    async def test_a_literal_is_read_by_the_params_kind(
        self, app: Mainspring, orders: Param, count: Param, base: Base
    ) -> None:
        base.rows("select mainspring.advance('dwh.orders.loaded_to', '2026-03-01T03:00:00+03:00')")
        base.rows("select mainspring.advance('dwh.orders.rows', '42')")

        assert await value_of(app, orders) == day(1)
        assert await value_of(app, count) == 42

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            ("advance('dwh.orders.loaded_to', timestamp '2026-03-01')", "no time zone"),
            ("advance('dwh.orders.loaded_to', date '2026-03-01')", "no time zone"),
            ("advance('dwh.orders.loaded_to', '2026-03-01 00:00')", "no offset"),
            ("advance('dwh.orders.loaded_to', '2026-03-01')", "no offset"),
            ("advance('dwh.orders.loaded_to', timestamptz 'infinity')", "1970 to 9000"),
            ("advance('dwh.orders.loaded_to', timestamptz '20000-01-01Z')", "1970 to 9000"),
            ("advance('dwh.orders.loaded_to', timestamptz '0044-03-15Z BC')", "1970 to 9000"),
            ("advance('dwh.orders.loaded_to', null::timestamptz)", "given null"),
            ("advance('dwh.orders.loaded_to', 5)", "kind instant, got a value of kind integer"),
            ("advance('dwh.orders.rows', 1.5)", "not a whole number"),
            ("advance('dwh.orders.rows', now())", "kind integer, got a value of kind instant"),
            ("advance('dwh.orders.load_to', now())", "unknown param 'dwh.orders.load_to'"),
            ("rewind('dwh.orders.loaded_to', now())", "no value yet"),
            ("rewind('dwh.orders.loaded_to', date '2026-03-01')", "no time zone"),
        ],
    )
    async def test_what_sql_would_cast_in_silence_is_refused(
        self, base: Base, call: str, words: str
    ) -> None:
        """Traps: timestamp and date shift with the session's zone; infinity cannot be loaded."""
        with pytest.raises(psycopg.Error, match=words):
            base.rows(f"select mainspring.{call}")

    async def test_an_unknown_param_is_refused_with_the_nearest(self, base: Base) -> None:
        with pytest.raises(psycopg.Error) as refused:
            base.rows("select mainspring.advance('dwh.orders.load_to', now())")

        assert refused.value.diag.message_hint is not None
        assert "did you mean 'dwh.orders.loaded_to'?" in refused.value.diag.message_hint

    async def test_going_back_is_refused_with_the_hint(self, base: Base) -> None:
        """R13: the SQL function raises, with the hint to rewind."""
        base.rows("select mainspring.advance('dwh.orders.rows', 7)")

        with pytest.raises(psycopg.Error, match="would go back from 7 to 6") as refused:
            base.rows("select mainspring.advance('dwh.orders.rows', 6)")

        assert "mainspring.rewind" in str(refused.value.diag.message_hint)
        assert base.value("select mainspring.rewind('dwh.orders.rows', 6, why => 'restated')")
        assert base.value("select num from mainspring.param where name = 'dwh.orders.rows'") == 6
        with pytest.raises(psycopg.Error, match="would not go back: it is 6"):
            base.rows("select mainspring.rewind('dwh.orders.rows', 9)")

    async def test_two_loaders_of_one_consumer_do_not_wait_for_each_other(
        self, app: Mainspring, orders: Param, count: Param, base: Base
    ) -> None:
        """Trap: a check offered by the setter would make loaders of different params wait."""
        with psycopg.connect(base.url) as first, psycopg.connect(base.url) as second:
            second.execute("set lock_timeout = '1s'")
            app.advance_sync(orders, day(1), on=first)
            app.advance_sync(count, 1, on=second)

        assert len(base.visits("mainspring.change")) == 2

    async def test_a_setter_that_waited_writes_to_the_row_that_it_found_then(
        self, app: Mainspring, count: Param, base: Base
    ) -> None:
        """Trap: a row is written by its address, and has moved while the setter waited for its lock."""
        with psycopg.connect(base.url) as first:
            app.advance_sync(count, 1, on=first)
            second = asyncio.create_task(asyncio.to_thread(app.advance_sync, count, 2))
            while not base.value(
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
                " and datname = current_database()"
            ):
                await asyncio.sleep(0)
            first.commit()
            assert await second

        assert base.rows("select old_num, num from mainspring.param_log order by id") == [
            {"old_num": None, "num": 1},
            {"old_num": 1, "num": 2},
        ]
        assert base.value("select num from mainspring.param where name = 'dwh.orders.rows'") == 2

    async def test_many_advances_in_one_transaction_write_one_visit(self, base: Base) -> None:
        """Trap: the offer is not repeated for a visit that this very transaction wrote."""
        with base.connection.transaction():
            base.rows("select mainspring.advance('dwh.orders.rows', 1)")
            first = base.value("select version from mainspring.visit")
            base.rows("select mainspring.advance('dwh.orders.rows', 2)")
            assert base.value("select version from mainspring.visit") == first
        base.rows("select mainspring.advance('dwh.orders.rows', 3)")

        assert base.value("select version from mainspring.visit") != first
