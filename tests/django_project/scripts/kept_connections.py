"""Two tasks in one thread, whose connection is ended by the server before the third."""

import asyncio

import django

django.setup()

from django.db import connection  # noqa: E402
from shop import tasks  # noqa: E402

from mainspring_django import app  # noqa: E402


async def ran() -> list[int]:
    """The server's process and the thread of a task that has run."""
    result = await tasks.backend.aenqueue()
    while not result.is_finished:
        await asyncio.sleep(0.005)
        await result.arefresh()
    assert result.attempts == 1
    return result.return_value


def end(pid: int) -> None:
    connection.cursor().execute("select pg_terminate_backend(%s, 10000)", [pid])


async def main() -> None:
    async with app, app.worker(concurrency=1, poll=0.05):
        first, second = await ran(), await ran()
        assert first == second, (first, second)
        await asyncio.to_thread(end, second[0])
        third = await ran()
        assert third[0] != second[0]
        assert third[1] == second[1], "the same thread"
        print("kept, then another at the first attempt")


asyncio.run(main())
