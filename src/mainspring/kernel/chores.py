"""Chores and glances: what layers do to their tables now and then, for as long as a worker works."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from contextlib import suppress

from mainspring import clock
from mainspring.db.database import Database
from mainspring.db.shared import SharedLine
from mainspring.kernel.layer import Chore
from mainspring.kernel.tuning import DEFAULT

log = logging.getLogger("mainspring")
_APART = (1 - DEFAULT.apart, 1 + DEFAULT.apart)


async def run_chores(
    database: Database, line: SharedLine, chores: Sequence[Chore], *, days: int
) -> None:
    """Do all chores for ever."""
    while True:
        for chore in chores:  # each by itself: where one fails, the others are done
            try:
                async with line.use() as connection:
                    await chore(database, connection, days=days)
            except Exception as error:
                log.warning("upkeep.waiting", extra={"error": str(error)})
        await asyncio.sleep(DEFAULT.chore_every * random.uniform(*_APART))


async def run_glances(
    database: Database,
    line: SharedLine,
    glances: Sequence[Chore],
    news: asyncio.Event,
    *,
    days: int,
) -> None:
    """Take all glances for ever; seldom while there is nothing to look after, until `news`."""
    while True:
        seconds, least = 0.0, DEFAULT.glance_every
        news.clear()
        try:
            began = clock.local()
            any_found = False
            for glance in glances:
                async with line.use() as connection:
                    any_found |= bool(await glance(database, connection, days=days))
            seconds = clock.local() - began
            if not any_found and not database.pooled:  # there nobody is told
                least = DEFAULT.glance_seldom
        except Exception as error:
            log.warning("glance.waiting", extra={"error": str(error)})
        with suppress(TimeoutError):
            rest = max(least, DEFAULT.glance_rest * seconds) * random.uniform(*_APART)
            async with asyncio.timeout(rest):
                await news.wait()
