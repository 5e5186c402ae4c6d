"""Those who wait for an end, when the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mainspring.server.handlers.waiting import Lookout


async def test_who_looked_while_it_closed_is_let_go() -> None:
    """The first look of a call ends after the close: nothing would look for it any more."""
    looking, closed = asyncio.Event(), asyncio.Event()

    async def look(wanted: Sequence[str]) -> dict[str, str]:
        looking.set()
        await closed.wait()
        return dict.fromkeys(wanted, "waiting")

    lookout: Lookout[str, str] = Lookout(look)
    call = asyncio.create_task(lookout.wait("call", lambda state: state == "done", 3600.0))
    await looking.wait()

    await lookout.close()
    closed.set()

    async with asyncio.timeout(20):
        assert await call == "waiting"
