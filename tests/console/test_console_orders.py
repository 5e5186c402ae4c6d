"""Orders at the console: who may, from which page, what is noted."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import httpx
from console_plant import SAME_SITE, Visit

from mainspring import Context, Mainspring
from mainspring.console import Viewer
from mainspring.console.orders import ORDERS, PLANNED
from mainspring.operate.queues import QueueLoad
from mainspring.testing import run_until_idle


async def give(client: httpx.AsyncClient, order: str, **form: str) -> httpx.Response:
    return await client.post(f"/orders/{order}", data=form, headers=SAME_SITE)


async def test_whoever_only_looks_cannot_act(plant: Mainspring, visit: Visit) -> None:
    """The server refuses: a hidden button is no permission."""
    form = {"queue": "greet", "key": "c0", "id": "o-1", "name": "nightly", "task": "mart"}
    for viewer, read_only in ((Viewer("eve"), False), (Viewer("ann", frozenset({"*"})), True)):
        async with visit(plant, viewer, read_only=read_only) as client:
            for order in ORDERS:
                answer = await give(client, order, **form)
                assert answer.status_code == 403
                assert f"console.act:{order}" in answer.text
            for order in PLANNED:
                assert (await client.get(f"/plans/{order}", params=form)).status_code == 403
    assert await plant.operator.orders() == []


async def test_a_scope_of_one_group_is_for_that_group(plant: Mainspring, visit: Visit) -> None:
    async with visit(plant, Viewer("eve", frozenset({"queues"}))) as client:
        assert (await give(client, "queues.pause", queue="greet")).status_code == 303
        assert (await give(client, "parked.restart", queue="charge", key="c0")).status_code == 403


FOREIGN: list[dict[str, str]] = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {},
]


async def test_forms_of_other_sites_are_refused(plant: Mainspring, visit: Visit) -> None:
    form = {"queue": "greet"}
    async with visit(plant) as client:
        for headers in FOREIGN:
            answer = await client.post("/orders/queues.pause", data=form, headers=headers)
            assert answer.status_code == 403
    (queue,) = await plant.operator.queues(name="greet")
    assert queue.paused_at is None


async def test_an_origin_of_its_own_is_enough_where_nothing_else_is_said(
    plant: Mainspring, visit: Visit
) -> None:
    """Browsers leave Sec-Fetch-Site out on plain HTTP to other hosts."""
    async with visit(plant) as client:
        headers = {"origin": "http://console"}
        answer = await client.post("/orders/queues.pause", data={"queue": "greet"}, headers=headers)
    assert answer.status_code == 303


async def test_another_name_of_the_host_is_refused(plant: Mainspring, visit: Visit) -> None:
    async with visit(plant, hosts=["localhost"]) as client:
        assert (await client.get("/")).status_code == 403
        assert (await client.get("/", headers={"host": "LOCALHOST:7410"})).status_code == 200


async def test_a_stranger_sees_nothing(plant: Mainspring, visit: Visit) -> None:
    async with visit(plant, None) as client:
        for path in ("/", "/queues", "/audit", "/jump?q=greet"):
            answer = await client.get(path)
            assert answer.status_code == 401
            assert "greet" not in answer.text
        answer = await client.get("/live")
        assert (answer.status_code, answer.text) == (204, "")


async def test_each_order_is_noted_in_the_viewers_name(plant: Mainspring, visit: Visit) -> None:
    async with visit(plant) as client:
        for order, form in (
            ("queues.pause", {"queue": "greet", "reason": "the bank is away"}),
            ("queues.resume", {"queue": "greet"}),
            ("queues.limit", {"queue": "greet", "set_concurrency": "1", "concurrency": "3"}),
            ("parked.restart", {"queue": "charge", "key": "c0"}),
            ("parked.delete", {"queue": "charge", "key": "c1"}),
            ("recurring.pause", {"name": "nightly"}),
            ("recurring.resume", {"name": "nightly"}),
            ("reactive.pause", {"task": "mart"}),
            ("reactive.resume", {"task": "mart"}),
            ("processes.cancel", {"id": "o-1"}),
        ):
            answer = await give(client, order, back="/queues?own=1", **form)
            assert answer.status_code == 303, (order, re.findall("<strong>.*", answer.text))
            assert answer.headers["location"].startswith("/queues?own=1&said=")
    noted = await plant.operator.orders()
    assert [o.action for o in noted[::-1]] == [
        *("queues.pause", "queues.resume", "queues.limit", "parked.restart", "parked.delete"),
        *("recurring.pause", "recurring.resume", "reactive.pause", "reactive.resume"),
        "processes.cancel",
    ]
    assert {(o.actor, o.via) for o in noted} == {("ann", "console")}
    assert noted[-1].reason == "the bank is away"
    (queue,) = await plant.operator.queues(name="greet")
    assert queue.concurrency == 3


# What each order is about: the form that it is given with. Some are given in a state that others made.
FORMS: dict[str, dict[str, str]] = {
    "queues.pause": {"queue": "greet"},
    "queues.resume": {"queue": "greet"},
    "queues.limit": {"queue": "greet", "set_rate": "1", "rate": "5"},
    "breakers.close": {"queue": "charge"},
    "tasks.run_now": {"queue": "greet", "key": "later"},
    "tasks.cancel": {"queue": "greet", "key": "later"},
    "parked.restart": {"queue": "charge", "key": "c0"},
    "parked.delete": {"queue": "charge", "key": "c1"},
    "recurring.pause": {"name": "nightly"},
    "recurring.resume": {"name": "nightly"},
    "entities.offer": {"kind": "page", "id": "p1"},
    "reactive.pause": {"task": "mart"},
    "reactive.resume": {"task": "mart"},
    "reactive.run": {"task": "mart"},
    "reactive.set_cap": {"pool": "default", "cap": "3"},
    "reactive.seen_move": {
        "task": "mart",
        "param": "raw.sales.loaded_to",
        "value": "2025-12-01T00:00:00+00:00",
    },
    "reactive.seen_delete": {"task": "mart", "param": "raw.sales.loaded_to"},
    "params.rewind": {"name": "raw.sales.loaded_to", "to": "2025-01-01T00:00:00+00:00"},
    "processes.signal": {"id": "o-1", "name": "approved", "payload": "true"},
    "operations.restart_processes": {"type": "order"},
    "operations.cancel_processes": {"type": "order"},
    "processes.restart": {"id": "o-1"},
    "processes.cancel": {"id": "o-1"},
    "operations.crawl": {"kind": "page"},
    "operations.pause": {"id": "1"},
    "operations.resume": {"id": "1"},
    "operations.cancel": {"id": "1"},
    "operations.cancel_tasks": {"queue": "greet"},
    "operations.run_tasks_now": {"queue": "greet"},
    "operations.restart_parked": {"queue": "charge"},
    "operations.delete_parked": {"queue": "charge"},
    "operations.put_back": {"since": "2026-01-01T00:00Z"},
}
# They need a broker, a sink with an event that waits, or a step that is parked: tested with those.
ELSEWHERE = {
    *("sources.pause", "sources.resume", "entities.skip", "operations.resend"),
    *("processes.resolve", "processes.fail", "operations.restart_tasks"),
}


async def test_every_order_leaves_its_row_in_the_audit(plant: Mainspring, visit: Visit) -> None:
    """With who gave it, by which door, from where, and why."""
    assert FORMS.keys() | ELSEWHERE == ORDERS.keys()
    await plant.tasks["greet"].options(key="later", delay=3600).enqueue("you")
    until = await plant.operator.now() + timedelta(hours=1)
    await plant.operator.open_breaker("charge", until=until, reason="the bank is away")
    before = await plant.operator.orders(limit=1)
    unnoted = {}
    async with visit(plant) as client:
        for order, form in FORMS.items():
            answer = await give(client, order, reason="an exercise", **form)
            assert answer.status_code == 303, (order, re.findall("<strong>.*", answer.text))
            after = await plant.operator.orders(limit=1)
            noted = after[0]
            if after == before or noted.action != order:
                unnoted[order] = noted.action
            assert (noted.actor, noted.via, noted.reason) == ("ann", "console", "an exercise")
            before = after
    assert unnoted == {}


async def test_a_pause_from_the_console_has_its_reason_and_its_end(
    plant: Mainspring, visit: Visit
) -> None:
    """T13."""
    async with visit(plant) as client:
        wrong = await give(client, "queues.pause", queue="greet", minutes="soon")
        assert "minutes must be 1 to 10080, got" in wrong.text
        await give(client, "queues.pause", queue="greet", reason="the bank is away", minutes="30")
        page = await client.get("/queues/one?name=greet")
        assert re.search(r"Paused since .*Z until .*Z: the bank is away", page.text)
    (queue,) = await plant.operator.queues(name="greet")
    assert queue.pause_reason == "the bank is away"
    assert queue.paused_until


async def test_an_order_is_taken_back_by_the_button_beside_its_word(
    plant: Mainspring, visit: Visit
) -> None:
    """A pause by a resume, a resume by a pause with its reason, limits by what they were."""
    limits = {"queue": "greet", "set_concurrency": "1", "set_rate": "1"}
    async with visit(plant) as client:

        async def undo(answer: httpx.Response) -> None:
            page = await client.get(answer.headers["location"])
            form = re.search(r'action="(/orders/[^"]*)"><button[^>]*>Undo', page.text)
            assert form, page.text
            taken = await client.post(html.unescape(form[1]), headers=SAME_SITE)
            assert (taken.status_code, taken.headers["location"].count("said")) == (303, 1)

        await undo(await give(client, "queues.pause", queue="greet", back="/queues/one?name=greet"))
        assert (await _queue(plant)).paused_at is None
        await give(client, "queues.pause", queue="greet", reason="the bank is away")
        await undo(await give(client, "queues.resume", queue="greet"))
        assert (await _queue(plant)).pause_reason == "the bank is away"
        await undo(await give(client, "queues.pause", queue="greet", reason="for another cause"))
        again = await _queue(plant)
        assert again.paused_at is not None, "it was paused before"
        assert (again.pause_reason, again.paused_until) == ("the bank is away", None)
        await give(client, "queues.pause", queue="greet", reason="an hour", minutes="60")
        await undo(await give(client, "queues.resume", queue="greet"))
        assert (await _queue(plant)).paused_until is not None, "it ends as it would have ended"
        await give(client, "queues.limit", concurrency="3", **limits)
        await undo(await give(client, "queues.limit", concurrency="7", rate="2", **limits))
        greet = await _queue(plant)
        assert (greet.concurrency, greet.rate) == (3, None)
        for forged in ("order=parked.delete&queue=charge&key=c0", "order=", "x" * 3000):
            page = await client.get("/queues", params={"said": "paused", "undo": forged})
            assert ">Undo<" not in page.text


async def _queue(app: Mainspring) -> QueueLoad:
    (queue,) = await app.operator.queues(name="greet")
    return queue


async def test_a_mass_order_is_counted_before_it_is_given(plant: Mainspring, visit: Visit) -> None:
    wanted = {"queue": "charge", "error_type": "ValueError"}
    async with visit(plant) as client:
        plan = await client.get("/plans/operations.restart_parked", params=wanted)
        assert plan.status_code == 200
        assert "Restart 3" in plan.text
        assert await plant.operator.operations() == []
        begun = await give(client, "operations.restart_parked", reason="mended", **wanted)
        assert begun.status_code == 303
        await run_until_idle(plant)
        shown = await client.get(begun.headers["location"])
        assert "The operation has begun." in shown.text
        assert "of about 3 done" in shown.text
    (order,) = await plant.operator.orders()
    assert (order.action, order.actor, order.reason) == (
        "operations.restart_parked",
        "ann",
        "mended",
    )


async def test_progress_and_open_breakers_are_shown(plant: Mainspring, visit: Visit) -> None:
    """T13: how far a run is, and a queue that has been stopped, with the button that lets it go on."""

    @plant.task
    async def count(ctx: Context) -> None:
        ctx.progress(0.4, "rows")

    call = await count.enqueue()
    await run_until_idle(plant)
    until = await plant.operator.now() + timedelta(hours=1)
    await plant.operator.open_breaker("count", until=until, reason="the bank is away")
    async with visit(plant) as client:
        page = await client.get("/tasks/one", params={"queue": "count", "key": call.key})
        assert 'value="0.4"' in page.text
        page = await client.get("/queues/one", params={"name": "count"})
        assert "the bank is away" in page.text
        answer = await give(client, "breakers.close", queue="count")
        assert answer.status_code == 303
    assert await plant.operator.breakers(queue="count") == []


async def test_a_plan_writes_nothing(plant: Mainspring, visit: Visit) -> None:
    """It is asked for like a page, so whoever is led to one has done nothing."""
    fields = {
        "params.rewind": {"name": "raw.sales.loaded_to", "to": "2025-01-01T00:00:00+00:00"},
        "processes.restart": {"id": "o-1"},
        "operations.crawl": {"kind": "page"},
        "operations.put_back": {"since": "2026-01-01T00:00Z"},
    }
    async with visit(plant) as client:
        for order in PLANNED.keys() - {"operations.resend"}:
            answer = await client.get(f"/plans/{order}", params=fields.get(order, {}))
            assert answer.status_code == 200, (order, answer.text)
        assert (await client.get("/plans/queues.pause?queue=greet")).status_code == 404
    assert await plant.operator.orders() == []
    assert await plant.operator.operations() == []


async def test_a_way_back_leads_nowhere_else(plant: Mainspring, visit: Visit) -> None:
    async with visit(plant) as client:
        for back in (
            "https://evil.example",
            "//evil.example",
            "/\t/evil.example",
            "/\n/evil.example",
            "/\\evil.example",
            "javascript:alert(1)",
        ):
            answer = await give(client, "queues.pause", queue="greet", back=back)
            assert answer.headers["location"].startswith("/?said=")
            plan = await client.get("/plans/operations.restart_parked", params={"back": back})
            assert '<a class="btn" href="/">Back</a>' in plan.text


async def test_a_form_that_is_no_form_is_refused(plant: Mainspring, visit: Visit) -> None:
    async with visit(plant) as client:
        answer = await client.post("/orders/queues.pause", content=b"\xff=1", headers=SAME_SITE)
        assert answer.status_code == 400
        answer = await client.post("/orders/queues.pause", content=b"q" * 70_000, headers=SAME_SITE)
        assert answer.status_code == 400
        assert (await give(client, "queues.explode")).status_code == 404
        assert (await client.get("/orders/queues.pause")).status_code == 405
