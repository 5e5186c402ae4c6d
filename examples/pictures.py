"""The pictures of the console in README and docs, made anew: `python examples/pictures.py [DIRECTORY]`.

A small shop works for a moment on a database of its own; then a browser (Debian's Chromium, driven by
Playwright) looks at the pages. Needs what the tests need, and nothing else does.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from playwright.async_api import async_playwright

from mainspring import Mainspring, Promise, RetryPolicy
from mainspring.reactive import ChunkDelta, all_of

PLACE = Path(__file__).parents[1] / "docs" / "pictures"
SHOTS: dict[str, tuple[str, Literal["light", "dark"]]] = {
    "overview-light": ("/", "light"),
    "parked-light": ("/parked/group?queue=charge_card&error_type=ConnectionError", "light"),
    "process-dark": ("/processes/one?id=order-17", "dark"),
    "reactive-light": ("/reactive/one?task=daily_revenue", "light"),
}


def shop(folder: str) -> Mainspring:
    """An application with something to see on each page, on a private database."""
    app = Mainspring(directory=f"{folder}/.mainspring")
    once = RetryPolicy(attempts=1)
    approved = app.signal("approved", bool)
    orders = app.data("raw.orders").param("loaded_to", external=True)
    rates = app.data("ref.rates").param("loaded_to", external=True)

    @app.task
    async def send_receipt(order: int) -> str:
        return f"sent {order}"

    @app.task(retry=once)
    async def charge_card(order: int) -> int:
        if order % 7 == 3:
            raise ConnectionError("the bank does not answer")
        return order

    @app.task
    def reserve(item: str) -> str:
        return f"{item} reserved"

    @app.task
    def ship(paid: int, reserved: list[str], is_approved: bool) -> str:
        return "shipped"

    @app.process
    def order(number: int) -> Promise[str]:
        items = [reserve(item) for item in ("lamp", "chair", "rug")]
        return ship(charge_card(number), items, approved.wait())

    @app.task(when=all_of(ChunkDelta(orders, "day"), ChunkDelta(rates, "day")))
    async def daily_revenue() -> None: ...

    return app


@asynccontextmanager
async def at_work(app: Mainspring) -> AsyncIterator[None]:
    """A moment of the shop's life, with a worker."""
    async with app:
        await app.migrate()
        async with app.worker():
            await app.tasks["send_receipt"].enqueue_many({"order": n} for n in range(400))
            charges = await app.tasks["charge_card"].enqueue_many({"order": n} for n in range(60))
            await app.tasks["send_receipt"].options(delay=3600).enqueue(401)
            for number in (16, 17, 18):
                attrs = {"city": "Bern", "total": 120 * number}
                order = app.processes["order"].options(id=f"order-{number}", attrs=attrs)
                await order.start(number)
            today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            yesterday = today - timedelta(days=1)
            await app.advance("raw.orders.loaded_to", yesterday, by="load_orders")
            await app.advance("ref.rates.loaded_to", yesterday, by="load_rates")
            await charges[58].result(timeout=60)
            await app.advance("raw.orders.loaded_to", today, by="load_orders")
            yield


async def look(link: str, root: str, place: Path) -> None:
    """The pages, as a browser draws them."""
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        context = await browser.new_context(viewport={"width": 1280, "height": 800})
        page = await context.new_page()
        await page.goto(link)
        for name, (path, scheme) in SHOTS.items():
            await page.emulate_media(color_scheme=scheme)
            await page.goto(root + path)
            await page.screenshot(path=place / f"{name}.png")
        await browser.close()


def picture(folder: str, place: Path) -> None:
    """The console as the command line serves it, looked at."""
    with subprocess.Popen(
        [sys.executable, "-m", "mainspring.cli.main", "serve", "--http", "127.0.0.1:0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        root = f"http://{server.stdout.readline().split()[3]}/console"
        link = server.stdout.readline().split()[1]
        try:
            asyncio.run(look(link, root, place))
        finally:
            server.terminate()


async def main() -> None:
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE
    with tempfile.TemporaryDirectory() as folder:
        async with at_work(shop(folder)):
            await asyncio.to_thread(picture, folder, place)
    print(f"{len(SHOTS)} pictures in {place}")


if __name__ == "__main__":
    asyncio.run(main())
