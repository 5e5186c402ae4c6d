"""T8: a call is part of the caller's own transaction, of whatever library it is."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import asyncpg
import psycopg
import pytest
from callers import ASYNC, SYNC, alchemy_url, configured
from sqlalchemy import create_engine
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from mainspring import Mainspring
from mainspring.errors import InvalidSetting
from mainspring.testing import TestServer


class Base(DeclarativeBase):
    pass


class Thing(Base):
    __tablename__ = "thing"
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture
def note(app: Mainspring) -> Any:
    @app.task
    async def note(n: int, word: str = "") -> None: ...

    return note


def ids(url: str) -> set[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        return {str(id) for (id,) in connection.execute("select id from mainspring.visit")}


class TestAsync:
    @pytest.fixture(params=ASYNC)
    def open(self, request: pytest.FixtureRequest) -> Any:
        return ASYNC[request.param]

    async def test_what_is_committed_is_there_and_not_before(self, note, open, database_url):
        """Single, keyed and copied calls, before and after a statement of the user's."""
        async with open(database_url) as own:
            one = await note.options(on=own.on).enqueue(n=1)
            await own.execute("select 1")
            keyed = await note.options(on=own.on, key="k").enqueue(n=2)
            again = await note.options(on=own.on, key="k").enqueue(n=2)
            many = await note.options(on=own.on).enqueue_many({"n": n} for n in range(60))
            assert ids(database_url) == set()
            await own.commit()

        assert (again.id, again.is_new) == (keyed.id, False)
        assert ids(database_url) == {one.id, keyed.id, *(handle.id for handle in many)}

    async def test_what_is_rolled_back_was_never_there(self, note, open, database_url):
        async with open(database_url) as own:
            await note.options(on=own.on).enqueue(n=1)
            await note.options(on=own.on, key="k").enqueue(n=2)
            await note.options(on=own.on).enqueue_many({"n": n} for n in range(60))
            await own.rollback()

        assert ids(database_url) == set()

    async def test_a_savepoint_is_respected(self, note, open, database_url):
        async with open(database_url) as own:
            await own.execute("select 1")
            kept = await note.options(on=own.on).enqueue(n=1)
            await own.execute("savepoint mine")
            await note.options(on=own.on).enqueue(n=2)
            await own.execute("rollback to savepoint mine")
            await own.commit()

        assert ids(database_url) == {kept.id}

    async def test_a_transaction_that_has_failed_is_said_to(self, note, open, database_url):
        async with open(database_url) as own:
            with pytest.raises(Exception, match="division"):
                await own.execute("select 1/0")
            with pytest.raises(InvalidSetting, match=r"in a transaction that has failed.*roll it"):
                await note.options(on=own.on).enqueue(n=1)
            await own.rollback()

    async def test_a_sync_verb_says_which_to_use(self, note, open, database_url):
        async with open(database_url) as own:
            with pytest.raises(InvalidSetting, match="await enqueue instead, or give a psycopg"):
                note.options(on=own.on).enqueue_sync(n=1)

    async def test_another_database_is_refused(
        self, note, open, database_url, mainspring_server: TestServer
    ):
        with mainspring_server.database() as other:
            async with open(other) as own:
                with pytest.raises(InvalidSetting, match=r"another installation.*nothing was"):
                    await note.options(on=own.on).enqueue(n=1)
                await own.commit()
            assert ids(other) == set()


class TestSync:
    @pytest.fixture(params=SYNC)
    def open(self, request: pytest.FixtureRequest) -> Any:
        return SYNC[request.param]

    def test_what_is_committed_is_there_and_not_before(self, note, open, database_url):
        with open(database_url) as own:
            one = note.options(on=own.on).enqueue_sync(n=1)
            own.execute("select 1")
            keyed = note.options(on=own.on, key="k").enqueue_sync(n=2)
            again = note.options(on=own.on, key="k").enqueue_sync(n=2)
            many = note.options(on=own.on).enqueue_many_sync({"n": n} for n in range(60))
            assert ids(database_url) == set()
            own.commit()

        assert (again.id, again.is_new) == (keyed.id, False)
        assert ids(database_url) == {one.id, keyed.id, *(handle.id for handle in many)}

    def test_what_is_rolled_back_was_never_there(self, note, open, database_url):
        with open(database_url) as own:
            note.options(on=own.on).enqueue_sync(n=1)
            note.options(on=own.on, key="k").enqueue_sync(n=2)
            note.options(on=own.on).enqueue_many_sync({"n": n} for n in range(60))
            own.rollback()

        assert ids(database_url) == set()

    def test_a_savepoint_is_respected(self, note, open, database_url):
        with open(database_url) as own:
            kept = note.options(on=own.on).enqueue_sync(n=1)
            own.execute("savepoint mine")
            note.options(on=own.on).enqueue_sync(n=2)
            own.execute("rollback to savepoint mine")
            own.commit()

        assert ids(database_url) == {kept.id}

    def test_a_transaction_that_has_failed_is_said_to(self, note, open, database_url):
        with open(database_url) as own:
            with pytest.raises(Exception, match="division"):
                own.execute("select 1/0")
            with pytest.raises(InvalidSetting, match=r"in a transaction that has failed.*roll it"):
                note.options(on=own.on).enqueue_sync(n=1)
            own.rollback()

    def test_an_async_verb_says_which_to_use(self, note, open, database_url):
        with (
            open(database_url) as own,
            pytest.raises(InvalidSetting, match="use enqueue_sync, or give an asyncpg"),
        ):
            asyncio.run(note.options(on=own.on).enqueue(n=1))

    def test_another_database_is_refused(
        self, note, open, database_url, mainspring_server: TestServer
    ):
        with mainspring_server.database() as other:
            with open(other) as own:
                with pytest.raises(InvalidSetting, match=r"another installation.*nothing was"):
                    note.options(on=own.on).enqueue_sync(n=1)
                own.commit()
            assert ids(other) == set()


class TestWithoutATransaction:
    """A connection that commits by itself: the verb is a transaction of its own, whole or not at all."""

    async def test_asyncpg_enqueues_at_once(self, note, database_url):
        own = await asyncpg.connect(database_url)
        await note.options(on=own).enqueue(n=1)
        await note.options(on=own, key="k").enqueue(n=2)
        assert len(ids(database_url)) == 2
        assert not own.is_in_transaction()
        await own.close()

    async def test_of_many_none_is_left_of_a_failure(self, note, database_url):
        own = await asyncpg.connect(database_url)
        await own.execute("create function mainspring_fails() returns trigger language plpgsql as"
                          " $$ begin raise 'no'; end $$")  # fmt: skip
        await own.execute("create trigger fails before insert on mainspring.visit for each row"
                          " when (new.key = 'b') execute function mainspring_fails()")  # fmt: skip
        calls = [note.options(key=key).bind(n=1) for key in "abc"]
        with pytest.raises(asyncpg.RaiseError):
            await note._enqueuer.enqueue_calls(calls, own)
        await own.execute("drop function mainspring_fails cascade")
        await own.close()
        assert ids(database_url) == set()

    def test_psycopg_in_autocommit_enqueues_at_once(self, note, database_url):
        with psycopg.connect(database_url, autocommit=True) as own:
            note.options(on=own).enqueue_many_sync([{"n": 1}] * 60)
            assert len(ids(database_url)) == 60
            with own.transaction(force_rollback=True):
                note.options(on=own).enqueue_sync(n=1)
        assert len(ids(database_url)) == 60

    def test_django_outside_atomic_enqueues_at_once(self, note, database_url):
        connection = configured(database_url)
        note.options(on=connection, key="k").enqueue_sync(n=1)
        assert len(ids(database_url)) == 1
        connection.close()

    @pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
    async def test_sqlalchemy_in_autocommit_enqueues_at_once(self, note, database_url, driver):
        engine = create_async_engine(
            alchemy_url(database_url, driver), isolation_level="AUTOCOMMIT"
        )
        async with AsyncSession(engine) as session:
            await note.options(on=session, key="k").enqueue(n=1)
            assert len(ids(database_url)) == 1
            await session.rollback()
        await engine.dispose()
        assert len(ids(database_url)) == 1


class TestSessions:
    async def test_what_waits_in_a_session_is_flushed_first(self, note, database_url):
        """Rows of entities are locked before visits; and the task's id may be a row's new number."""
        engine = create_async_engine(alchemy_url(database_url, "asyncpg"))
        async with async_sessionmaker(engine).begin() as session:
            await (await session.connection()).run_sync(Base.metadata.create_all)
            session.add(thing := Thing())
            handle = await note.options(on=session).enqueue(n=1)
            assert thing.id == 1
            with session.no_autoflush:
                session.add(other := Thing())
                await note.options(on=session).enqueue(n=2)
                assert other.id is None
        await engine.dispose()
        assert handle.id in ids(database_url)

    async def test_a_nested_block_that_fails_takes_its_calls_along(self, note, database_url):
        engine = create_async_engine(alchemy_url(database_url, "asyncpg"))
        async with AsyncSession(engine) as session, session.begin():
            kept = await note.options(on=session).enqueue(n=1)
            nested = await session.begin_nested()
            await note.options(on=session).enqueue(n=2)
            await nested.rollback()
        await engine.dispose()
        assert ids(database_url) == {kept.id}

    async def test_a_session_that_failed_to_flush_says_what_to_do(self, note, database_url):
        engine = create_async_engine(alchemy_url(database_url, "psycopg"))
        async with AsyncSession(engine) as session:
            session.add(Thing(id=1))  # its table is not there
            with pytest.raises(ProgrammingError):
                await note.options(on=session).enqueue(n=1)
            with pytest.raises(
                InvalidSetting, match=r"AsyncSession given as on= cannot.*rolled back"
            ):
                await note.options(on=session).enqueue(n=1)
        await engine.dispose()

    def test_a_session_that_must_be_begun_says_so(self, note, database_url):
        engine = create_engine(alchemy_url(database_url, "psycopg"))
        with (
            Session(engine, autobegin=False) as session,
            pytest.raises(InvalidSetting, match="Autobegin is disabled"),
        ):
            note.options(on=session).enqueue_sync(n=1)
        engine.dispose()

    def test_two_phases_are_refused(self, note, database_url):
        """PostgreSQL prepares no transaction that has notified."""
        engine = create_engine(alchemy_url(database_url, "psycopg"))
        refused = pytest.raises(InvalidSetting, match=r"two-phase transaction.*NOTIFY.*plain")
        with Session(engine, twophase=True) as session, refused:
            note.options(on=session).enqueue_sync(n=1)
        with engine.connect() as connection, connection.begin_twophase(), refused:
            note.options(on=connection).enqueue_sync(n=1)
        engine.dispose()
        with psycopg.connect(database_url) as own:
            own.tpc_begin(own.xid(1, "g", "b"))
            with refused:
                note.options(on=own).enqueue_sync(n=1)
            own.tpc_rollback()

    async def test_the_sync_side_of_an_async_session_is_told_apart(self, note, database_url):
        engine = create_async_engine(alchemy_url(database_url, "asyncpg"))
        async with AsyncSession(engine) as session:
            with pytest.raises(InvalidSetting, match=r"async engine behind it; give an asyncpg"):
                await session.run_sync(lambda s: note.options(on=s).enqueue_sync(n=1))
        await engine.dispose()


class TestWhatUsersRegister:
    """What callers have set on their connections changes neither what is written nor what is read."""

    async def test_json_codecs_of_asyncpg(self, note, database_url):
        own = await asyncpg.connect(database_url)
        for kind in ("json", "jsonb"):
            await own.set_type_codec(
                kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
            )
        await note.options(on=own).enqueue(n=1, word="a")
        await note.options(on=own, key="k").enqueue(n=1, word="a")
        await note.options(on=own).enqueue_many([{"n": 1, "word": "a"}] * 60)
        await own.close()
        with psycopg.connect(database_url) as connection:
            found = connection.execute("select distinct payload from mainspring.visit").fetchall()
        assert found == [({"n": 1, "word": "a"},)]

    def test_adapters_and_factories_of_psycopg(self, note, database_url):
        class Upper(psycopg.adapt.Dumper):
            def dump(self, obj: Any) -> bytes:
                return str(obj).upper().encode()

        own = psycopg.connect(
            database_url, cursor_factory=psycopg.ClientCursor, row_factory=psycopg.rows.dict_row
        )
        own.adapters.register_dumper(str, Upper)
        own.adapters.register_loader("uuid", psycopg.types.string.TextLoader)
        note.options(on=own).enqueue_sync(n=1, word="a")
        handle = note.options(on=own, key="k").enqueue_sync(n=1, word="a")
        assert note.options(on=own, key="k").enqueue_sync(n=1, word="a").id == handle.id
        own.commit()
        own.close()
        with psycopg.connect(database_url) as connection:
            found = connection.execute("select distinct payload from mainspring.visit").fetchall()
        assert found == [({"n": 1, "word": "a"},)]


class TestRefused:
    """Mistakes 31 and 32: what is none of these gets a text that names what is taken."""

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            (1, "on= takes a psycopg Connection, a SQLAlchemy Session or Connection, or Django's "
                "connection or its alias, got int"),
            ("mine", "on= is 'mine', and no database of Django's settings has that alias; there are "
                     "'default', 'lite'"),
            ("postgresql://me:secret@h/d", "on= is an address, and no database of Django's settings "
                                           "has that alias; there are 'default', 'lite'"),
            ("lite", "Django's database 'lite' given as on= is sqlite, not PostgreSQL"),
        ],
    )  # fmt: skip
    def test_sync(self, note, database_url, given, told):
        configured(database_url)
        with pytest.raises(InvalidSetting) as found:
            note.options(on=given).enqueue_sync(n=1)
        assert str(found.value) == told

    async def test_async(self, note, database_url):
        with pytest.raises(InvalidSetting) as found:
            await note.options(on=object()).enqueue(n=1)
        assert str(found.value) == (
            "on= takes an asyncpg Connection, a psycopg AsyncConnection, or a SQLAlchemy AsyncSession "
            "or AsyncConnection, got object"
        )

    def test_near_misses_say_what_was_meant(self, note, database_url):
        engine = create_engine(alchemy_url(database_url, "psycopg"))
        light = create_engine("sqlite://")
        own = psycopg.connect(database_url)
        for given, told in (
            (own.cursor(), r"got psycopg's Cursor: give its connection \(cursor.connection\)"),
            (engine, r"got sqlalchemy's Engine: begin a transaction on it \(with engine.begin"),
            (sessionmaker(engine), "sessionmaker: call it, and give the session"),
            (Session(light), r"Session given as on= speaks by sqlite3, which cannot be used; taken"),
        ):  # fmt: skip
            with pytest.raises(InvalidSetting, match=told):
                note.options(on=given).enqueue_sync(n=1)
        own.close()
        with pytest.raises(InvalidSetting, match="psycopg's Connection given as on= is closed"):
            note.options(on=own).enqueue_sync(n=1)
        engine.dispose()
        light.dispose()

    def test_a_text_means_nothing_without_django(self):
        """And no library is imported for the sake of a look."""
        code = (
            "import sys\n"
            "from mainspring.db.caller.tx_on import sync_driver_of, Verb\n"
            "from mainspring.errors import InvalidSetting\n"
            "for given in ('default', object()):\n"
            "    try: sync_driver_of(given, Verb('x'))\n"
            "    except InvalidSetting as error: print(error)\n"
            "assert not {'django', 'sqlalchemy'} & set(sys.modules)\n"
        )
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert ran.stderr == ""
        assert "Django is not in use here; give a connection" in ran.stdout

    def test_a_database_without_mainspring_is_named(
        self, note, database_url, mainspring_server: TestServer
    ):
        with (
            mainspring_server.database(migrated=False) as other,
            psycopg.connect(other) as own,
            pytest.raises(InvalidSetting, match="which has no schema 'mainspring'; this appl"),
        ):
            note.options(on=own).enqueue_sync(n=1)


class TestHome:
    """Whether it is the application's own database is asked once, not at each enqueue."""

    def test_an_address_is_asked_once(self, app, note, database_url):
        for _ in range(2):
            with psycopg.connect(database_url) as own:
                note.options(on=own).enqueue_sync(n=1)
        home = app.database_sync().home
        known = (len(home._connections), len(home._addresses))
        assert known[1] == 1

        place, home.place = home.place, None  # whoever asks again would fail
        with psycopg.connect(database_url) as own:
            note.options(on=own).enqueue_sync(n=1)
        assert (home.place, place is not None) == (None, True)

    async def test_a_server_that_was_started_anew_is_the_same(self, app, note, database_url):
        """Of the own database it is asked anew before a caller's is refused."""
        own = await asyncpg.connect(database_url)
        await note.options(on=own).enqueue(n=1)
        home = (await app.database()).home
        home.place = home.place._replace(started="1.0")
        home._addresses.clear()
        other = await asyncpg.connect(database_url)
        await note.options(on=other).enqueue(n=1)
        await own.close()
        await other.close()
        assert len(ids(database_url)) == 2


async def test_sleeping_workers_hear_of_it_at_the_commit(app, note, database_url):
    """T3: NOTIFY is part of the caller's transaction."""
    heard = asyncio.Event()
    engine = create_async_engine(alchemy_url(database_url, "asyncpg"))
    done = []

    @app.task
    async def tell(n: int) -> None:
        done.append(n)
        heard.set()

    async with app.worker(poll=60.0):
        async with AsyncSession(engine) as session:
            await tell.options(on=session).enqueue(n=1)
            await session.commit()
        await asyncio.wait_for(heard.wait(), 40)
    await engine.dispose()
    assert done == [1]
