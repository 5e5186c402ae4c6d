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
from mainspring.kernel import Chore

log = logging.getLogger("mainspring")
# Upkeep drops what is old: days of history, notes. Nobody waits for it (seconds, as all of these).
CHORE_EVERY = 600.0
# What lags behind is noticed so soon; seldom where a round has found nothing to look after.
GLANCE_EVERY = 2.0
GLANCE_SELDOM = 30.0
# Times as long as the glances took: long ones must not become a worker's main work.
GLANCE_REST = 50
# By such a part these times differ, so that workers do not come in step.
APART = (0.8, 1.2)


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
        await asyncio.sleep(CHORE_EVERY * random.uniform(*APART))


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
        seconds, least = 0.0, GLANCE_EVERY
        news.clear()
        try:
            began = clock.local()
            any_found = False
            for glance in glances:
                async with line.use() as connection:
                    any_found |= bool(await glance(database, connection, days=days))
            seconds = clock.local() - began
            if not any_found and not database.pooled:  # there nobody is told
                least = GLANCE_SELDOM
        except Exception as error:
            log.warning("glance.waiting", extra={"error": str(error)})
        with suppress(TimeoutError):
            rest = max(least, GLANCE_REST * seconds) * random.uniform(*APART)
            async with asyncio.timeout(rest):
                await news.wait()
