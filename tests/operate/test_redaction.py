"""T13, T12: named fields that no log, command, page or text of an error shows."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mainspring import Context, Mainspring, Promise, RetryPolicy
from mainspring.blueprint import Blueprint
from mainspring.cli import main
from mainspring.console import Console
from mainspring.console.viewer import Viewer
from mainspring.db.database import Connection
from mainspring.errors import InvalidSetting, InvalidTask, TaskFailed
from mainspring.operate.calls import CallFilter
from mainspring.operate.history import HistoryFilter
from mainspring.operate.parked import ParkedFilter
from mainspring.processes.operate.search import ProcessFilter
from mainspring.telemetry import instrument
from mainspring.testing import run_until_idle

C = "CAN" + "ARY"
ONCE = RetryPolicy(attempts=1)


class Card(msgspec.Struct):
    number: str
    holder: str


@pytest.fixture(autouse=True)
def own_levels() -> Iterator[None]:
    """Commands set the level of their process."""
    root, ours = logging.getLogger(), logging.getLogger("mainspring")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


async def everybody(_: object) -> Viewer | None:
    return Viewer("ann", frozenset({"*"}))


def declare(app: Mainspring, **hiding: Any) -> None:
    @app.task(retry=ONCE, **hiding)
    async def charge(ctx: Context, order: int, card: Card, password: str) -> dict[str, str]:
        ctx.progress(0.5, f"half of {card.number}")
        try:
            if order > 100:
                raise LookupError(f"no {password!r}")
        except LookupError as error:
            error.add_note(f"asked with {card.number}")
            raise ValueError(f"{card.holder} declined {card}") from error
        return {"password": password, "order": f"{order} paid"}

    @app.task(retry=ONCE, **hiding)
    def charge_in_thread(card: Card, password: str) -> str:
        raise ValueError(f"no {password} of {card.number}")

    if hiding:
        return

    @app.batch_task(size=10, retry=ONCE)
    async def charge_all(items: list[Card]) -> list[str | ValueError]:
        if len(items) > 1:
            raise RuntimeError(f"one of {items}")
        return [ValueError(items[0].number)]


class Screens:
    """What an operator sees: commands with an address alone, and pages."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = url
        self._capsys = capsys

    async def command(self, *words: str) -> str:
        def call() -> None:
            sys.argv = ["mainspring", *words, "--url", self._url]
            with pytest.raises(SystemExit):
                main.run()

        before = sys.argv
        try:
            await asyncio.to_thread(call)
        finally:
            sys.argv = before
        out, err = self._capsys.readouterr()
        return out + err

    async def page(self, app: Mainspring, path: str) -> str:
        transport = httpx.ASGITransport(Console(app, authenticate=everybody))
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as browser:
            return (await browser.get(path, follow_redirects=True)).text


@pytest.fixture
def screens(
    mainspring_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Screens:
    monkeypatch.chdir(tmp_path)
    return Screens(mainspring_url, capsys)


async def everything(screens: Screens, url: str, bad: Any) -> dict[str, str]:
    found = {}
    for words in (
        ["parked", "list"],
        ["parked", "list", "--json"],
        ["parked", "groups"],
        ["parked", "groups", "--json"],
        ["history"],
        ["history", "--limit", "200", "--json"],
        ["tasks", "show", bad.id],
        ["tasks", "show", bad.id, "--json"],
        ["tasks", "list", "--json"],
        ["why", "charge", bad.key],
        ["why", "charge", bad.key, "--json"],
        ["recurring", "list", "--json"],
        ["recurring", "show", "charge"],
        ["status", "--json"],
        ["audit", "--json"],
    ):
        found[" ".join(words)] = await screens.command(*words)
    async with Mainspring(url) as stranger:
        one = f"/tasks/one?queue=charge&key={bad.key}"
        for page in ("/", "/tasks", one, "/history", "/parked", "/needs", "/recurring"):
            found[page] = await screens.page(stranger, page)
    return found


async def test_hidden_fields_are_in_no_log_no_command_no_page_and_no_span(
    mainspring_url: str, screens: Screens, caplog: pytest.LogCaptureFixture
) -> None:
    """T13, T12: of calls that wait, are done or parked; by whoever has no more than the address."""
    caplog.set_level(logging.DEBUG)
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    app = Mainspring(mainspring_url, redact=["password", "number"])
    instrument(app, tracer_provider=provider)
    declare(app)
    card, tasks = Card(f"{C}-4242", "ann"), app.tasks
    given = {"card": card, "password": f"{C}'s word"}
    app.schedule(tasks["charge"].bind(order=5, **given), name="charge", cron="0 0 1 1 *")
    async with app:
        good = await tasks["charge"].enqueue(7, **given)
        bad = await tasks["charge"].enqueue(700, **given)
        others = [
            await tasks["charge_in_thread"].enqueue(**given),
            *await tasks["charge_all"].enqueue_many([{"item": card}, {"item": card}]),
        ]
        await run_until_idle(app)
        await tasks["charge"].options(delay=3600).enqueue(8, **given)
        assert await good.result(timeout=1) == {"password": f"{C}'s word", "order": "7 paid"}
        for handle in (bad, *others):
            with pytest.raises(TaskFailed) as failed:
                await handle.result(timeout=1)
            assert C not in str(failed.value)
            assert "[redacted]" in str(failed.value)
    shown = await everything(screens, mainspring_url, bad)
    shown["log"] = caplog.text
    shown["spans"] = "".join(span.to_json() for span in spans.get_finished_spans())
    assert [place for place, text in shown.items() if C in text] == []
    assert "ann declined Card(number='[redacted]', holder='ann')" in shown["log"]
    assert "ann declined" in shown["spans"]
    assert "note: asked with [redacted]" in shown[f"tasks show {bad.id}"]
    assert '"holder": "ann"' in shown["parked list --json"]
    assert '"order": "7 paid"' in shown["history --limit 200 --json"]
    with psycopg.connect(mainspring_url) as connection:
        told = connection.execute(
            "select string_agg(error, '') from mainspring.visit where error is not null"
        ).fetchone()
        assert told is not None
        assert C not in told[0], "workers take it out before it is stored"
        kept = "select count(*) from mainspring.history where payload::text like %s"
        assert connection.execute(kept, [f"%{C}%"]).fetchone() != (0,), "payloads stay as they are"


async def test_rows_of_before_are_hidden_when_they_are_shown(
    mainspring_url: str, screens: Screens
) -> None:
    """T13: what was stored when nothing was hidden, texts of failures too; and nothing shows it again."""
    async with Mainspring(mainspring_url) as app:
        declare(app)
        bad = await app.tasks["charge"].enqueue(700, Card(C, "ann"), f"{C}-word")
        good = await app.tasks["charge"].enqueue(7, Card(C, "ann"), f"{C}-word")
        await run_until_idle(app)
        assert C in await screens.command("parked", "list")
        [parked] = await app.operator.parked()
        assert C in (parked.error or "")
    async with Mainspring(mainspring_url) as new:
        declare(new, redact=["card.number", "password"], redact_result=True)
        await new.migrate()
        await run_until_idle(new)
    async with Mainspring(mainspring_url) as old:  # comes back while the new one is rolled out
        declare(old)
        await run_until_idle(old)
    shown = await everything(screens, mainspring_url, bad)
    assert [place for place, text in shown.items() if C in text] == []
    assert "ann declined" in shown["parked groups"]
    assert "7 paid" not in await screens.command("tasks", "show", good.id, "--json")


async def test_groups_of_what_is_parked_are_shown_without_a_question_each(
    mainspring_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T13: the text of each goes through its own payload, whatever release or death has parked it."""
    queues, asked = 12, []
    real = Connection.rows

    async def counting(self: Connection, statement: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(statement)
        return await real(self, statement, *args, **kwargs)

    async with Mainspring(mainspring_url, redact=["secret"]) as app:

        def fail(secret: str) -> None:
            raise ValueError("x" * 490 + secret)  # an example is cut in its middle

        for n in range(queues):
            app.task(retry=ONCE, name=f"fail_{n}")(fail)
            await app.tasks[f"fail_{n}"].enqueue(f"{C}-{n}")
        await run_until_idle(app)
        with psycopg.connect(mainspring_url, autocommit=True) as connection:
            connection.execute(
                """update mainspring.visit
                set error = 'ValueError: ' || repeat('x', 480) || (payload ->> 'secret'),
                  error_type = case when queue = 'fail_0' then null else error_type end,
                  fingerprint = case when queue = 'fail_0' then null else fingerprint end"""
            )
        monkeypatch.setattr(Connection, "rows", counting)
        for wanted in (ParkedFilter(), ParkedFilter(error="valueerror")):
            asked.clear()
            groups = await app.operator.parked_groups(wanted)
            assert (len(groups), len(asked)) == (queues, 3)
            for group in groups:
                assert group.example is not None
                assert group.example.startswith("ValueError: xxx")
                assert C[:3] not in group.example, group


async def test_a_search_does_not_tell_what_is_hidden(mainspring_url: str, screens: Screens) -> None:
    """T13: neither of past runs nor of live calls; nor does an order about those that fit."""
    async with Mainspring(mainspring_url) as app:
        declare(app, redact=["card.number", "password"])
        await app.tasks["charge"].enqueue(7, Card(C, "ann"), "open")
        await run_until_idle(app)
        for fields in ({"password": "open"}, {"card": '{"number": "4242"}'}, {"order": {"a": 1}}):
            past = HistoryFilter(queue="charge", since=await app.operator.now(), fields=fields)
            with pytest.raises(InvalidSetting, match="the answer would tell what is hidden"):
                await app.operator.history(past)
            with pytest.raises(InvalidSetting, match=r"hides card\.number, password, so it is not"):
                await app.operator.put_back(past, source="ann", dry_run=True)
            for queue in ("charge", None):
                with pytest.raises(InvalidSetting, match="is not searched by"):
                    await app.operator.tasks.cancel_all(
                        CallFilter(queue=queue, fields=fields), source="ann", dry_run=True
                    )
        told = await screens.command(
            "history", "--queue", "charge", "--field", "password=open", "--since", "1h"
        )
        assert "is not searched by 'password'" in told
        past = HistoryFilter(queue="charge", since=await app.operator.now(), fields={"order": 7})
        assert await app.operator.history(past) == []


def in_helper(ctx: Context, card: Card) -> None:
    ctx.progress(0.5, f"half of {card.number}")
    raise LookupError("x" * 15_990 + card.number)  # its end is cut


async def test_a_process_executor_and_a_blueprint_hide_as_well(
    mainspring_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """T13: the helper takes it out itself, before a long text is cut."""
    blueprint = Blueprint("billing.")
    blueprint.task(executor="process", retry=ONCE, redact=["number"])(in_helper)

    @blueprint.task(retry=ONCE)
    async def look(secret: str) -> None:
        raise LookupError(secret)

    async with Mainspring(mainspring_url, redact=["secret"]) as app:
        app.include(blueprint)
        handles = [
            await app.tasks["billing.in_helper"].enqueue(Card(f"{C}-4242-4242", "ann")),
            await look.enqueue(C),
        ]
        await run_until_idle(app)
        assert [handle.id for handle in handles if C[:3] in str(await _error(handle))] == []
        with psycopg.connect(mainspring_url) as connection:
            said = connection.execute("select note from mainspring.progress").fetchall()
        assert said == [("half of [redacted]",)]
    assert C[:3] not in caplog.text


async def _error(handle: Any) -> str:
    with pytest.raises(TaskFailed) as failed:
        await handle.result(timeout=1)
    return str(failed.value)


@pytest.mark.parametrize(
    ("hiding", "text"),
    [
        ({"redact": "password"}, "redact must be a list of names of fields, got 'password'; write"),
        ({"redact": ["card..x"]}, "such as 'password' or 'card.number', got 'card..x'"),
        (
            {"redact": ["pasword"]},
            "and no argument, and no field of its arguments or result, is called",
        ),
        (
            {"redact": ["card.nr"]},
            "is called 'nr' \\(there are card, holder, number, order, password",
        ),
        ({"redact": ["order"], "searchable": ["order"]}, "'order' is searchable, and redact hides"),
        ({"redact_result": 1}, "redact_result must be True or False, got 1"),
    ],
)
def test_a_declaration_that_would_hide_nothing_is_refused(
    hiding: dict[str, Any], text: str
) -> None:
    app = Mainspring()
    with pytest.raises((InvalidTask, InvalidSetting), match=text):

        @app.task(**hiding)
        async def charge(order: int, card: Card, password: str) -> None: ...


async def test_processes_hide_what_they_and_their_steps_declare(
    mainspring_url: str, screens: Screens, caplog: pytest.LogCaptureFixture
) -> None:
    """T13: attributes, and texts of steps that failed: delivered, parked and retried, of before too."""
    caplog.set_level(logging.DEBUG)

    async def round_of(id: str, **hiding: Any) -> dict[str, str]:
        async with Mainspring(mainspring_url) as app:

            @app.task(retry=ONCE, **hiding)
            async def pay(ctx: Context, card: Card) -> str:
                raise ValueError(f"{card.number} declined")

            @app.task(retry=RetryPolicy(attempts=9, first=1000, most=1000), **hiding)
            def pay_later(card: Card) -> str:
                raise ValueError(f"{card.number} declined")

            @app.process(**hiding)
            def order(card: Card) -> Promise[str]:
                pay_later(card)
                return pay(card)

            handle = await order.options(id=id, attrs={"number": C, "city": "Rome"}).start(
                Card(C, "ann")
            )
            await run_until_idle(app)
            assert await handle.status() == "open"
            view = await handle.view()
            assert view.attrs["number"] == C, "who has the code reads all of it"
        found = {}
        for words in (
            ["processes", "search", "--json"],
            ["processes", "show", "old"],
            ["processes", "show", id, "--json"],
            ["processes", "why", "old", "--json"],
            ["processes", "why", id],
            ["processes", "parked"],
            ["processes", "parked", "--json"],
            ["tasks", "list", "--json"],
            ["history", "--json"],
        ):
            found[" ".join(words)] = await screens.command(*words)
        async with Mainspring(mainspring_url) as stranger:
            for page in ("/processes", f"/processes/{id}", "/processes/old"):
                found[page] = await screens.page(stranger, page)
        return found

    before = await round_of("old")
    assert C in before["processes why old --json"]
    caplog.clear()
    shown = await round_of("new", redact=["number"])
    assert [place for place, text in shown.items() if C in text] == []
    assert C not in caplog.text
    assert "'pay' is parked: ValueError: [redacted] declined" in shown["processes why new"]
    assert "Rome" in shown["processes search --json"]
    async with Mainspring(mainspring_url) as app:
        for wanted in (
            ProcessFilter(attrs={"number": "x"}),
            ProcessFilter(type="order", attrs={"number": C}),
        ):
            with pytest.raises(InvalidSetting, match="is not searched by 'number'"):
                await app.operator.processes.search(wanted)
            with pytest.raises(InvalidSetting, match="is not searched by 'number'"):
                await app.operator.processes.cancel_all(wanted, dry_run=True)
            with pytest.raises(InvalidSetting, match="is not searched by 'number'"):
                await app.operator.processes.save_template("x", wanted)
