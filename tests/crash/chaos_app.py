"""The application of the chaos run: actors that lose tasks, answer late, answer twice, fail and hang.

What an attempt does is drawn anew each time; what a process comes to depends on its argument alone.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

from mainspring import Mainspring, Outcome, Promise, RetryPolicy

app = Mainspring()
RETRY = RetryPolicy(attempts=1000, first=0.02, most=0.1)
TIMEOUT = 0.6  # of a run: hanging ones are stopped and tried again
WILD = float(os.environ.get("CHAOS_WILD", "0.02"))
# A worker that dies takes innocents with it: here they are not to be parked for it.
HOW: dict[str, Any] = {"retry": RETRY, "timeout": TIMEOUT, "crash_limit": 1000}
# These are not stopped but overtaken: the late result may count, or be the second one.
OVERTAKEN: dict[str, Any] = {"retry": RETRY, "work_timeout": 1.0, "crash_limit": 1000}


async def misbehave() -> None:
    """Lose, delay or break this attempt, sometimes."""
    draw = random.random() / WILD
    if draw < 1:
        raise ConnectionError("the far end is away")
    if draw < 2:
        await asyncio.sleep(TIMEOUT * 6)  # took the task and brings no result, or one far too late
    if draw < 3:
        await asyncio.sleep(TIMEOUT * random.uniform(0.5, 3))  # late


@app.task(**OVERTAKEN)
async def square(n: int) -> int:
    await misbehave()
    return n * n


@app.task(**HOW)
async def add(numbers: list[int]) -> int:
    await misbehave()
    return sum(numbers)


class Refused(Exception):
    """What a task fails with by plan."""


@app.task(retry=RetryPolicy(attempts=1), timeout=60.0, crash_limit=1000)
async def refuse(n: int) -> int:
    raise Refused(f"{n} is refused")


@app.task(**OVERTAKEN)
async def or_zero(outcome: Outcome[int]) -> int:
    await misbehave()
    return 0 if outcome.failed else outcome.value


@app.process(retry=RETRY, timeout=TIMEOUT)
async def count_down(n: int, total: int) -> int | Promise[int]:
    await misbehave()
    return total if n == 0 else count_down(n - 1, total + n)


@app.process(retry=RETRY, timeout=TIMEOUT)
async def mixed(n: int) -> Promise[int]:
    """A fan-out and its join, a loop of tail calls, and an error that is caught."""
    squares = add([square(i) for i in range(n % 4 + 1)])
    loop = count_down(n % 3, 0)
    caught = or_zero(refuse(n))
    await misbehave()
    return add([squares, loop, caught, square(n)])


def right(n: int) -> int:
    """What a process of this argument comes to."""
    k = n % 3
    return sum(i * i for i in range(n % 4 + 1)) + k * (k + 1) // 2 + n * n
