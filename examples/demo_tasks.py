"""The tasks of `make demo`; the database is the one that MAINSPRING_URL names."""

from __future__ import annotations

import asyncio

from mainspring import Context, Mainspring, RetryPolicy

app = Mainspring()


@app.task
async def send_email(to: str) -> None:
    """Fast and async: most tasks are like this."""
    await asyncio.sleep(0.05)


@app.task
def resize_image(name: str, width: int) -> int:
    """A plain function: it runs in a thread."""
    return sum(range(width)) % 97


@app.task
async def charge(ctx: Context, order: int, cents: int) -> None:
    """Its own SQL and its completion are one commit: exactly once, whatever dies."""
    async with ctx.transaction() as connection:
        await connection.execute("insert into ledger values (%s, %s)", (order, cents))


@app.task(retry=RetryPolicy(attempts=6, first=0.1, most=0.5))
async def call_flaky_service(ctx: Context, number: int) -> None:
    """Fails on its first attempts."""
    if ctx.attempt <= 1 + number % 2:
        raise ConnectionError(f"service is busy ({number})")


@app.task(retry=RetryPolicy(attempts=3, first=0.05, give_up_on=(ValueError,)))
async def import_row(number: int) -> None:
    """Some rows are broken for good: they are parked, not lost."""
    if number % 50 == 0:
        raise ValueError(f"row {number} has no date")


@app.task(group_concurrency=1)
async def sync_account(account: int, step: int) -> None:
    """One at a time per account."""
    await asyncio.sleep(0.01)


@app.task
async def build_report(number: int) -> None:
    """Longer than a second: a dead worker's report is run again by another."""
    await asyncio.sleep(1.5)


async def enqueue_all() -> int:
    """Everything the demo runs; answers how many tasks that is."""
    async with app:
        counts = [
            len(await send_email.enqueue_many([{"to": f"u{n}@example.org"} for n in range(3000)])),
            len(
                await resize_image.enqueue_many([{"name": f"{n}", "width": n} for n in range(400)])
            ),
            len(await charge.enqueue_many([{"order": n, "cents": 100 + n} for n in range(800)])),
            len(await call_flaky_service.enqueue_many([{"number": n} for n in range(200)])),
            len(await import_row.enqueue_many([{"number": n} for n in range(300)])),
            len(await build_report.enqueue_many([{"number": n} for n in range(12)])),
        ]
        accounts = [
            sync_account.options(group=f"account-{n % 20}").bind(account=n % 20, step=n // 20)
            for n in range(400)
        ]
        counts.append(len(await app.enqueue_many(accounts)))
        return sum(counts)
