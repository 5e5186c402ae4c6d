"""Chores and glances: what layers do to their tables now and then, for as long as a worker works."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from contextlib import suppress

from mainspring.db.database import Database
from mainspring.db.shared import SharedLine
from mainspring.kernel import clock
from mainspring.kernel.layer import Chore

log = logging.getLogger("mainspring")
CHORE_SECONDS = 600.0
GLANCE_SECONDS = 2.0
SELDOM_SECONDS = 30.0  # where a round of glances has found nothing to look after
REST = 50  # times as long as the glances took: long ones must not become a worker's main work


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
        await asyncio.sleep(CHORE_SECONDS * random.uniform(0.8, 1.2))


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
        seconds, least = 0.0, GLANCE_SECONDS
        news.clear()
        try:
            began = clock.local()
            any_found = False
            for glance in glances:
                async with line.use() as connection:
                    any_found |= bool(await glance(database, connection, days=days))
            seconds = clock.local() - began
            if not any_found and not database.pooled:  # there nobody is told
                least = SELDOM_SECONDS
        except Exception as error:
            log.warning("glance.waiting", extra={"error": str(error)})
        with suppress(TimeoutError):
            async with asyncio.timeout(max(least, REST * seconds) * random.uniform(0.8, 1.2)):
                await news.wait()
