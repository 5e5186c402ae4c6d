"""What an operator comes for, from the first page to the end, by clicks in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import browsing
from console_server import ConsoleServer

from mainspring import Mainspring
from mainspring.testing import run_until_idle


@pytest.fixture
def server(plant: Mainspring, mainspring_url: str, tmp_path: Path) -> Iterator[ConsoleServer]:
    """`mainspring serve` beside the plant."""
    with ConsoleServer(mainspring_url, tmp_path) as server:
        yield server


async def test_why_a_task_waits_is_found_and_it_is_released(
    plant: Mainspring, server: ConsoleServer
) -> None:
    """A task that is for later, in a queue that somebody paused for a reason."""
    async with browsing() as page:
        await page.goto(server.link)
        await page.get_by_role("link", name="Queues", exact=True).click()
        await page.get_by_role("link", name="greet").click()
        await page.get_by_label("Reason").first.fill("the bank is away")
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_text("Paused. What runs goes on.").wait_for()
        await page.get_by_role("link", name=re.compile("later")).click()
        await page.locator(".why .name", has_text="scheduled").wait_for()
        await page.locator(".why").get_by_role("button", name="Run now").click()
        await page.get_by_text("It is due now.").wait_for()
        await page.locator(".why .name", has_text="paused").wait_for()
        await page.get_by_role("button", name="Resume greet").click()
        await page.get_by_text("Resumed.").wait_for()
        await run_until_idle(plant)
        await page.reload()
        await page.get_by_text("its runs are in its history").wait_for()
        await page.get_by_role("link", name="Audit").click()
        await page.get_by_text("the bank is away").wait_for()


async def test_a_person_answers_a_process_and_has_a_step_done_again(
    plant: Mainspring, server: ConsoleServer
) -> None:
    """The page follows the process; what a restart would redo is shown before it is ordered."""
    async with browsing(expected="400") as page:  # of the payload that is no JSON
        await page.goto(server.link)
        await page.get_by_role("link", name="Processes", exact=True).click()
        await page.get_by_role("link", name="o-1").click()
        await page.locator(".why .name", has_text="waiting_for_signal").wait_for()
        await page.get_by_label("payload as JSON").fill("{true")
        await page.get_by_role("button", name="Send approved").click()
        await page.get_by_text("payload must be JSON").wait_for()
        await page.go_back()
        await page.get_by_label("payload as JSON").fill("true")
        await page.get_by_role("button", name="Send approved").click()
        await page.get_by_text("The signal is sent.").wait_for()
        await run_until_idle(plant)
        await page.locator(".why .name", has_text="finished").wait_for()
        steps = page.locator("[data-part=tasks] tr[data-row]", has_text="@signal")
        await steps.get_by_role("button", name="Restart from here…").click()
        await page.get_by_text("Nothing is written yet").wait_for()
        assert "1: @signal" in await page.locator(".plan .facts").inner_text()
        await page.get_by_label("Reason").fill("the wrong order")
        await page.get_by_role("button", name="Redo").click()
        await page.get_by_text("Restarted.").wait_for()
    orders = await plant.operator.orders()
    assert [(o.action, o.reason) for o in orders] == [
        ("processes.restart", "the wrong order"),
        ("processes.signal", None),
    ]


async def test_a_param_is_moved_back_and_what_it_affects_is_repaired(
    plant: Mainspring, server: ConsoleServer
) -> None:
    """R13: the affected tasks are listed before, and each has its repair after."""
    async with browsing() as page:
        await page.goto(server.link)
        await page.get_by_role("link", name="Params", exact=True).click()
        await page.get_by_role("link", name="raw.sales.loaded_to").click()
        await page.get_by_label("rewind to").fill("2025-12-01T00:00:00+00:00")
        await page.get_by_role("button", name="Rewind…").click()
        await page.get_by_text("Nothing is written yet").wait_for()
        assert "mart" in await page.locator(".plan .facts").inner_text()
        (param,) = await plant.reactive.params(name="raw.sales.loaded_to")
        assert param.rewinds == 0
        await page.get_by_label("Reason").fill("restated")
        await page.get_by_role("button", name="Rewind").click()
        await page.get_by_text("The param is moved back.").wait_for()
        await page.get_by_role("button", name=re.compile("Have it seen 2025")).click()
        await page.get_by_text("What the task has seen is changed.").wait_for()
        assert await page.locator(".why").count() == 0
        await page.get_by_role("link", name="mart").click()
        await page.locator(".why strong", has_text="the trigger is false").wait_for()
        await page.get_by_role("heading", name="Next fact").wait_for()
    orders = await plant.operator.orders()
    assert [o.action for o in orders] == ["reactive.seen_move", "params.rewind"]


async def test_an_entity_is_followed_through_its_stages(server: ConsoleServer) -> None:
    async with browsing() as page:
        await page.goto(server.link)
        await page.get_by_role("link", name="Entities", exact=True).click()
        await page.get_by_role("link", name="page", exact=True).click()
        await page.get_by_label("id", exact=True).fill("p1")
        await page.get_by_role("button", name="Open", exact=True).click()
        await page.get_by_text("It is at rest: in no queue.").wait_for()
        story = page.locator("section", has=page.get_by_role("heading", name="Who changed what"))
        assert "title" in await story.inner_text()
