"""Every screen: it is served, it says nothing that a browser would obey, it carries its headers."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from urllib.parse import quote

from console_plant import HOSTILE, Visit

from mainspring import Mainspring, RetryPolicy
from mainspring.console.pages import NAV, PAGES
from mainspring.console.snapshot import Snapshot
from mainspring.testing import run_until_idle

LATER = quote(f"later {HOSTILE}")
ONE = {
    "/queues/one": "name=charge",
    "/tasks/one": f"queue=greet&key={LATER}",
    "/parked/group": "queue=charge&error_type=ValueError",
    "/entities/kind": "name=page",
    "/entities/one": "kind=page&id=p1",
    "/processes/one": "id=o-1",
    "/reactive/one": "task=mart",
    "/params/one": "name=raw.sales.loaded_to",
    "/jump": "q=greet",
}


class Reader(HTMLParser):
    """What a page would have a browser do."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        self.inline: list[str] = []
        self.unlabelled: list[str] = []
        self.headings = 0
        self._labelled: set[str | None] = set()
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inline += [name for name in given if name.startswith("on") or name == "style"]
        self.headings += tag == "h1"
        if tag == "script":
            self.scripts.append(given.get("src"))
        if tag == "label":
            self._labelled.add(given.get("for"))
            self._depth += 1
        is_asked = (
            tag in ("input", "select")
            and given.get("type") != "hidden"
            and "aria-label" not in given
        )
        if is_asked and not self._depth and given.get("id") not in self._labelled:
            self.unlabelled.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "label"


async def test_screens_are_served_and_obey_nobody(plant: Mainspring, visit: Visit) -> None:
    async with visit(plant) as client:
        for path in PAGES.keys() - {"/jump", "/operations/one"}:
            answer = await client.get(f"{path}?{ONE.get(path, '')}")
            assert answer.status_code == 200, (path, answer.text)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["cache-control"] == "no-store"
            read = Reader()
            read.feed(answer.text)
            assert read.headings == 1, path
            assert [name for name in read.scripts if name] == read.scripts
            assert len(read.scripts) == 1
            assert (read.inline, read.unlabelled) == ([], []), path
            for sign in ("<script>alert", "\x1b", "\u202e", 'href="http'):
                assert sign not in answer.text, path


async def test_hostile_names_lead_where_they_say(plant: Mainspring, visit: Visit) -> None:
    """A key of any characters has its page, and why stands first on it."""
    async with visit(plant) as client:
        listed = await client.get("/tasks?queue=greet")
        link = listed.text.partition('href="/tasks/one?')[2].partition('"')[0].replace("&amp;", "&")
        page = await client.get(f"/tasks/one?{link}")
    assert page.status_code == 200
    assert "scheduled" in page.text
    assert page.text.index("Because") < page.text.index("Facts")


async def test_every_place_of_the_rail_is_a_screen() -> None:
    to = [path for _, links in NAV for path, _, _ in links]
    assert set(to) <= PAGES.keys()
    keys = [key for _, links in NAV for _, _, key in links]
    assert len(keys) == len(set(keys))


async def test_live_tasks_are_found_by_a_field_of_their_payload(
    plant: Mainspring, visit: Visit
) -> None:
    async with visit(plant) as client:
        found = await client.get("/tasks", params={"queue": "greet", "field": "name=you"})
        other = await client.get("/tasks", params={"queue": "greet", "field": "name=me"})
        lost = await client.get("/tasks", params={"field": "name=you"})
    assert f"/tasks/one?queue=greet&amp;key={LATER.replace('%20', '+')[:8]}" in found.text
    assert "Looked through the next 10,000" in found.text
    assert "/tasks/one?" not in other.text
    assert (lost.status_code, "in a queue: name one" in lost.text) == (400, True)


async def test_rates_of_the_last_hour_are_drawn_and_listed(plant: Mainspring, visit: Visit) -> None:
    """Of all queues, and of one; what failed is apart."""
    async with visit(plant) as client:
        page = await client.get("/metrics?format=json")
        one = await client.get("/metrics?queue=charge")
    shown = page.json()
    assert {q["queue"]: (q["count"], q["failed"]) for q in shown["queues"]}["charge"] == (3, 3)
    assert shown["total"] == sum(minute["count"] for minute in shown["minutes"]) >= 4
    assert len(shown["chart"]["bars"]) == len(shown["minutes"]) == 60
    assert "<b>3</b> runs ended, <b>3</b> of them failed" in one.text


async def test_what_is_hidden_is_on_no_screen(mainspring_app: Mainspring, visit: Visit) -> None:
    """Payload, error, result and attributes, as pages and as JSON; nor is it told by a search."""
    app, secret = mainspring_app, "4111-1111"

    @app.task(retry=RetryPolicy(attempts=1), redact=["card"], redact_result=True)
    async def pay(card: str, order: int) -> str:
        if order == 1:
            raise ValueError(f"card {card} is refused")
        return card

    await app.migrate()
    for order in (1, 2):
        await pay.options(key=f"o{order}").enqueue(secret, order)
    await pay.options(key="o3", delay=3600).enqueue(secret, 3)
    await run_until_idle(app)
    async with visit(app) as client:
        paths = [f"/tasks/one?queue=pay&key=o{n}" for n in (1, 2, 3)]
        paths += ["/parked", "/parked/group?queue=pay", "/history?queue=pay", "/tasks?queue=pay"]
        paths += ["/", "/queues/one?name=pay", "/tasks?queue=pay&field=order=3"]
        for path in paths:
            for form in ("", "&format=json" if "?" in path else "?format=json"):
                answer = await client.get(path + form)
                assert (answer.status_code, secret in answer.text) == (200, False), path + form
        for path in ("/tasks", "/history"):
            told = await client.get(path, params={"queue": "pay", "field": f"card={secret}"})
            assert (told.status_code, "hides card" in told.text) == (400, True), told.text


MISTAKES = [
    ("/tasks/one?queue=greet&key=nobody", 404, "no visit"),
    ("/queues/one?name=greed", 404, "did you mean"),
    ("/queues/one", 400, "needs name"),
    ("/operations/one?id=7", 404, "7"),
    ("/operations/one?id=x", 400, "whole number"),
    ("/history?since=yesterday", 400, "a time with its zone"),
    ("/history?outcome=fine", 400, "one of"),
    ("/history?field=name%3D1", 400, "needs the queue"),
    ("/parked/group?error=refused", 400, "within a queue"),
    ("/processes/one?id=nobody", 404, "nobody"),
    ("/entities/kind?name=pag", 404, "did you mean"),
    ("/jump?q=nothing", 404, "nothing is named"),
    ("/nowhere/<b>", 404, "there is no page"),
    ("/static/../app.py", 404, ""),
    ("/static/%2e%2e/app.py", 404, ""),
    (f"/tasks?queue={'q' * 1001}", 400, "1001 characters"),
    (f"/tasks?queue={'q' * 5000}", 414, "at most 4096"),
]


async def test_what_cannot_be_is_said_in_plain_words(plant: Mainspring, visit: Visit) -> None:
    async with visit(plant) as client:
        for path, status, says in MISTAKES:
            answer = await client.get(path)
            assert (answer.status_code, says in answer.text) == (status, True), (path, answer.text)
            assert "Traceback" not in answer.text
            assert "content-security-policy" in answer.headers


async def test_it_is_served_below_a_prefix(plant: Mainspring, visit: Visit) -> None:
    async with visit(plant, prefix="/ops/mainspring") as client:
        answer = await client.get("/ops/mainspring/queues")
        assert answer.status_code == 200
        for name in ("console.css", "console.js"):
            path = answer.text.partition(f"/ops/mainspring/static/{name}")
            assert path[1]
            found = await client.get(path[1] + path[2].partition('"')[0])
            assert found.status_code == 200
            assert "immutable" in found.headers["cache-control"]
        moved = await client.get("/ops/mainspring/jump?q=greet")
        assert moved.headers["location"] == "/ops/mainspring/queues/one?name=greet"


async def test_many_pages_ask_what_one_asks(plant: Mainspring, visit: Visit) -> None:
    """What is drawn from the snapshot costs the database one look, however many look."""
    snapshot = Snapshot(plant)
    sights = await asyncio.gather(*(snapshot.look() for _ in range(20)))
    assert snapshot.looks == 1
    assert len({id(sight) for sight in sights}) == 1


async def test_what_a_page_shows_is_there_as_json(plant: Mainspring, visit: Visit) -> None:
    async with visit(plant) as client:
        for path in PAGES.keys() - {"/jump", "/operations/one"}:
            query = ONE.get(path, "")
            answer = await client.get(f"{path}?{query}{'&' if query else ''}format=json")
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
            assert answer.json(), path
        process = (await client.get("/processes/one?id=o-1&format=json")).json()["process"]
    assert process["key"] == "o-1"
