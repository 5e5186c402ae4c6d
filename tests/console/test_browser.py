"""The console in a real browser, served as the README starts it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from browser import PHONE, WIDE, browsing
from console_server import ConsoleServer
from test_screens import ONE

from mainspring import Mainspring
from mainspring.console.pages import PAGES
from mainspring.testing import run_until_idle

COLOURS = '{runOnly: ["color-contrast"]}'  # nothing else of a page is another in the dark
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()


@pytest.fixture
def server(plant: Mainspring, mainspring_url: str, tmp_path: Path) -> Iterator[ConsoleServer]:
    """`mainspring serve` beside the plant."""
    with ConsoleServer(mainspring_url, tmp_path) as server:
        yield server


async def test_a_group_of_parked_tasks_is_found_and_restarted(
    plant: Mainspring, server: ConsoleServer
) -> None:
    """From the overview to the end of the operation, by clicks alone."""
    async with browsing() as page:
        await page.goto(server.link)
        await page.get_by_role("link", name="Look at 3").click()
        await page.get_by_role("link", name="Restart 3…").click()
        await page.get_by_text("Nothing is written yet").wait_for()
        await page.get_by_label("Reason").fill("the bank is back")
        await page.get_by_role("button", name="Restart 3", exact=True).click()
        await page.get_by_text("The operation has begun.").wait_for()
        await run_until_idle(plant)
        await page.get_by_text("of about 3 done").wait_for()
        await page.get_by_text("done", exact=True).first.wait_for()
        await page.get_by_role("link", name="Audit").click()
        await page.get_by_text("the bank is back").wait_for()
    (order,) = await plant.operator.orders()
    assert (order.actor, order.via, order.reason) == ("local", "console", "the bank is back")


async def test_the_link_of_the_start_logs_in_once_and_a_token_for_ever(
    server: ConsoleServer,
) -> None:
    async with browsing() as page:
        await page.goto(server.link)
        await page.get_by_role("heading", name="Overview").wait_for()
        (cookie,) = await page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        await page.get_by_role("button", name="Log out").click()
        await page.get_by_label("Token").fill(server.token)
        await page.get_by_role("button", name="Log in").click()
        await page.get_by_role("heading", name="Overview").wait_for()
    async with browsing(script=False, expected="401") as page:  # it may name the refused page
        answer = await page.goto(server.link)
        assert answer is not None
        assert answer.status == 401
        await page.get_by_text("A link works once").wait_for()


async def test_keys_move_about(server: ConsoleServer) -> None:
    async with browsing() as page:
        await page.goto(server.link)
        await page.get_by_role("heading", name="Overview").wait_for()
        await page.keyboard.press("g")
        await page.keyboard.press("q")
        await page.get_by_role("heading", name="Queues", exact=True).wait_for()
        await page.keyboard.press("j")
        name = await page.locator("tr[data-here] a").first.inner_text()
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name=name, exact=True).wait_for()
        await page.keyboard.press("/")
        await page.keyboard.type("o-1")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="order o-1").wait_for()
        await page.keyboard.press("?")
        await page.get_by_role("heading", name="Keys").wait_for()
        await page.keyboard.press("Escape")
        told = page.locator("dd time").first
        assert re.search("ago|now", await told.inner_text())
        await page.keyboard.press("t")
        await page.keyboard.press("t")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", await told.inner_text())


async def test_the_overview_follows_what_happens(plant: Mainspring, server: ConsoleServer) -> None:
    """Nobody loads the page again, nor after the database had gone."""
    async with browsing() as page:
        await page.goto(server.link)
        await page.get_by_role("heading", name="Overview").wait_for()
        for n in range(5):
            await plant.tasks["charge"].enqueue(str(n))
        await run_until_idle(plant)
        await page.get_by_role("link", name="Look at 8").wait_for()
        server.cut()
        await plant.tasks["charge"].enqueue("again")
        await run_until_idle(plant)
        await page.get_by_role("link", name="Look at 9").wait_for()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_every_screen_is_for_everybody(server: ConsoleServer, dark: bool) -> None:
    """axe finds nothing serious, and no page scrolls sideways, wide or on a phone."""
    async with browsing(dark=dark) as page:
        await page.goto(server.link)
        for path in PAGES.keys() - {"/jump", "/operations/one"}:
            await page.set_viewport_size(WIDE)
            await page.goto(f"{server.root}{path}?{ONE.get(path, '')}")
            await page.evaluate(AXE)
            found = await page.evaluate(f"axe.run({COLOURS if dark else ''})")
            serious = [
                (path, each["id"], each["nodes"][0]["html"], each["nodes"][0]["failureSummary"])
                for each in found["violations"]
                if each["impact"] in ("serious", "critical")
            ]
            assert serious == []
            if not dark:
                await page.set_viewport_size(PHONE)
                wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, path


async def test_it_can_be_read_and_used_without_a_script(server: ConsoleServer) -> None:
    async with browsing(script=False) as page:
        await page.goto(server.link)
        await page.get_by_role("link", name="Queues", exact=True).click()
        await page.get_by_role("link", name="charge").click()
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_text("Paused. What runs goes on.").wait_for()
        await page.get_by_role("button", name="Resume").click()
        await page.get_by_text("Resumed.").wait_for()
