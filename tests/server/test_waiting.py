"""Those who wait for an end, when the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mainspring.errors import DatabaseUnavailable
from mainspring.server.handlers.waiting import Lookout


async def test_who_looks_while_it_closes_is_let_go() -> None:
    """The look of a call hangs beyond the close: nothing would look for it any more."""
    looking, never = asyncio.Event(), asyncio.Event()

    async def look(_: Sequence[str]) -> dict[str, str]:
        looking.set()
        await never.wait()
        return {}

    lookout: Lookout[str, str] = Lookout(look)
    call = asyncio.create_task(lookout.wait("call", lambda state: state == "done", 3600.0))
    await looking.wait()

    await lookout.close()

    async with asyncio.timeout(20):
        with pytest.raises(DatabaseUnavailable, match="the server stops; ask again"):
            await call


async def test_who_comes_after_the_close_is_told_how_it_stands() -> None:
    async def look(wanted: Sequence[str]) -> dict[str, str]:
        return dict.fromkeys(wanted, "waiting")

    lookout: Lookout[str, str] = Lookout(look)
    await lookout.close()
    assert await lookout.wait("call", lambda state: state == "done", 3600.0) == "waiting"


async def test_a_burst_of_waiters_is_one_look() -> None:
    looks: list[int] = []

    async def look(wanted: Sequence[str]) -> dict[str, str]:
        looks.append(len(wanted))
        return dict.fromkeys(wanted, "done")

    lookout: Lookout[str, str] = Lookout(look)
    calls = [lookout.wait(f"call {n}", lambda state: state == "done", 60.0) for n in range(300)]
    assert set(await asyncio.gather(*calls)) == {"done"}
    assert looks == [300]
    await lookout.close()


async def test_a_database_that_is_away_at_the_first_look_is_told_at_once() -> None:
    """One that goes away later is waited for."""
    looks: list[str] = []

    async def look(wanted: Sequence[str]) -> dict[str, str]:
        looks.append("look")
        if len(looks) != 2:
            raise DatabaseUnavailable("away")
        return dict.fromkeys(wanted, "waiting")

    lookout: Lookout[str, str] = Lookout(look)
    with pytest.raises(DatabaseUnavailable, match="away"):
        await lookout.wait("call", lambda state: state == "done", 3600.0)
    with pytest.raises(DatabaseUnavailable, match="away"):
        await lookout.wait("call", lambda state: state == "done", 0.5)
    assert len(looks) > 3
    await lookout.close()
