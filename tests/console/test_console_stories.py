"""What an operator comes for, from the first page to the end, by clicks in a real browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
import uvicorn
from browser import browsing
from console_server import ConsoleServer
from fastapi import FastAPI
from starlette.requests import HTTPConnection

from mainspring import Mainspring
from mainspring.console import Console, Viewer
from mainspring.operate.parked import ParkedFilter
from mainspring.testing import run_until_idle, wait_until


@pytest.fixture
def server(plant: Mainspring, mainspring_url: str, tmp_path: Path) -> Iterator[ConsoleServer]:
    """`mainspring serve` beside the plant."""
    with ConsoleServer(mainspring_url, tmp_path) as server:
        yield server


@asynccontextmanager
async def serving(web: FastAPI) -> AsyncIterator[str]:
    """An application in this process, at a port of its own."""
    config = uvicorn.Config(web, port=0, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())

    async def started() -> bool:
        return server.started

    await wait_until(started)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await task


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
        await page.get_by_role("link", name=re.compile("^later")).click()
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
        await steps.get_by_role("link", name="Restart from here…").click()
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


async def test_five_thousand_are_restarted_by_their_error_and_paused_on_the_way(
    plant: Mainspring, mainspring_url: str, server: ConsoleServer
) -> None:
    """P10, T13: counted first, ordered by typing the queue's name, then followed to its end."""
    await plant.operator.pause("greet")
    await plant.tasks["greet"].enqueue_many({"name": str(n)} for n in range(5000))
    with psycopg.connect(mainspring_url, autocommit=True) as connection:
        connection.execute(
            "update mainspring.visit set parked_at = mainspring.now(), error = 'OSError: no bank'"
            " where queue = 'greet' and due_at <= mainspring.now()"
        )
    await plant.operator.resume("greet")
    async with browsing(expected="400") as page:  # of the name that was mistyped
        await page.goto(server.link)
        await page.get_by_role("link", name="Look at 5,000").click()
        await page.get_by_role("link", name="Restart 5,000…").click()
        await page.get_by_text("Nothing is written yet").wait_for()
        await page.get_by_label("This touches much").fill("great")
        await page.get_by_role("button", name="Restart 5,000").click()
        await page.get_by_text("type 'greet' to order this").wait_for()
        await page.go_back()
        await page.get_by_label("This touches much").fill("greet")
        await page.get_by_role("button", name="Restart 5,000").click()
        await page.get_by_text("The operation has begun.").wait_for()
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_text("Paused.").wait_for()
        await run_until_idle(plant)
        assert await plant.operator.count_parked(ParkedFilter(queue="greet")) == 5000
        await page.get_by_role("button", name="Resume").click()
        await page.get_by_text("Resumed.").wait_for()
        await run_until_idle(plant)
        await page.reload()
        await page.get_by_text("5,000 of about 5,000 done").wait_for()
    assert await plant.operator.count_parked(ParkedFilter(queue="greet")) == 0


async def test_it_is_mounted_in_an_application_of_fastapi(plant: Mainspring) -> None:
    """Behind a prefix, with that application's own idea of who looks; who may not act cannot."""
    web = FastAPI()

    async def who(request: HTTPConnection) -> Viewer | None:
        return Viewer("eve") if request.headers.get("x-user") == "eve" else None

    web.mount("/ops", Console(plant, authenticate=who))
    async with serving(web) as root, browsing(expected="401") as page:
        await page.goto(f"{root}/ops/")
        await page.get_by_text("does not know you").wait_for()
        await page.set_extra_http_headers({"x-user": "eve"})
        await page.goto(f"{root}/ops/")
        await page.get_by_text("eve, only looks").wait_for()
        await page.get_by_role("link", name="Look at 3").click()
        button = page.get_by_role("button", name="Restart 3…")
        assert await button.is_disabled()
        assert "console.act:operations.restart_parked" in str(await button.get_attribute("title"))
