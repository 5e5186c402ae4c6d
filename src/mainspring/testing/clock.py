"""A clock that moves: the engine's time in one database, shifted for every process at once.

The engine asks the database for the time, so moving it there moves it for all. Only times that are
stored follow (due times, backoffs, work timeouts, ages); leases and rates are measured by each
worker's own clock and go on as they were.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import psycopg

# Replaces what `migrate` has made; a later migrate puts the real functions back, until the next move.
_INSTALL = """
create table if not exists mainspring.test_clock ("offset" interval not null);
insert into mainspring.test_clock select '0' where not exists (select from mainspring.test_clock);
create or replace function mainspring.now() returns timestamptz
  language sql stable parallel safe
  as 'select pg_catalog.now() + (select "offset" from mainspring.test_clock)';
create or replace function mainspring.clock() returns timestamptz
  language sql volatile parallel safe
  as 'select pg_catalog.clock_timestamp() + (select "offset" from mainspring.test_clock)';
"""
_IS_INSTALLED = """
select prosrc like '%test_clock%' from pg_proc where oid = 'mainspring.now()'::regprocedure
"""
_MOVE = 'update mainspring.test_clock set "offset" = "offset" + %s'
# Workers beat at once, see that the clock has jumped and read everything anew.
_TELL = "select pg_notify('mainspring', 'settings')"


class Clock:
    """The engine's time in the database at `url`.

    Example: `await clock.advance(timedelta(hours=1))`, or in plain code `clock.advance_sync(3600)`.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        with self._connect() as connection:
            connection.execute(_INSTALL)

    def _connect(self) -> psycopg.Connection[tuple[datetime]]:
        return psycopg.connect(self._url, application_name="mainspring:test-clock")

    async def advance(self, by: timedelta | float) -> None:
        """Move the time on (or back) by a duration or by seconds; every process sees it at once."""
        await asyncio.to_thread(self.advance_sync, by)

    def advance_sync(self, by: timedelta | float) -> None:
        """The same for code that is not async."""
        duration = by if isinstance(by, timedelta) else timedelta(seconds=by)
        with self._connect() as connection:
            [(is_installed,)] = connection.execute(_IS_INSTALLED).fetchall()
            if not is_installed:
                connection.execute(_INSTALL)
            connection.execute(_MOVE, (duration,))
            connection.execute(_TELL)

    async def now(self) -> datetime:
        """The engine's time."""
        return await asyncio.to_thread(self.now_sync)

    def now_sync(self) -> datetime:
        """The same for code that is not async."""
        with self._connect() as connection:
            [(now,)] = connection.execute("select mainspring.clock()").fetchall()
        return now
