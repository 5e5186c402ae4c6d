"""What users pass in and what they keep in variables is in no log, no history and no error's text; and
nothing that they named steers a terminal."""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg
import pytest

APP = """
    import asyncio, logging, threading
    from typing import Literal
    import msgspec
    from mainspring import Mainspring, RetryPolicy, Update
    app = Mainspring()
    once = RetryPolicy(attempts=1)
    log = logging.getLogger("shop")

    class Listing(msgspec.Struct):
        id: int
        note: str
        price: int

    @app.task(retry=once)
    async def logs(card: str) -> None:
        api_token = "CANARY-LOCAL"
        try:
            raise RuntimeError("declined")
        except RuntimeError:
            log.exception("it failed")

    @app.task(retry=once)
    def logs_in_thread(card: str) -> None:
        api_token = "CANARY-THREAD"
        try:
            raise RuntimeError("declined")
        except RuntimeError:
            log.exception("it failed")

    @app.task(retry=once)
    async def background(card: str) -> None:
        async def dies() -> None:
            bg_token = "CANARY-BACKGROUND"
            raise RuntimeError("died")
        await asyncio.wait({asyncio.get_running_loop().create_task(dies())})

    @app.task(retry=once)
    async def fails(card: str) -> None:
        local = "CANARY-FRAME"
        raise RuntimeError("declined")

    @app.task(retry=once)
    async def strict(number: int, size: Literal["s", "m"] = "s") -> None:
        pass

    listing = app.entities("listing", table="public.listing", key="id", model=Listing)

    @listing.stage(retry=once)
    def price(entity: Listing, state: object) -> Update:
        return Update(note="CANARY-SAVED", price=-1)
"""
ESC = "\x1b[2J\x1b]0;pwned\x07\x1b]52;c;cHduZWQ=\x07\u202egnp.exe\u2028x"


def sql(url: str, text: str, *values: Any) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(text.encode(), values)
        return cursor.fetchall() if cursor.description else []


def enqueue(url: str, task: str, arguments: dict[str, Any]) -> None:
    sql(url, "select mainspring.enqueue(%s, %s::jsonb)", task, json.dumps(arguments))


@pytest.fixture
def shop(module, spawn, cli, database_url, monkeypatch):
    sql(
        database_url,
        "create table listing (id int primary key, note text, price int check (price >= 0), "
        "version bigint not null default 1)",
    )
    module("shop_app", APP)
    monkeypatch.setenv("MAINSPRING_URL", database_url)
    assert cli("migrate", "shop_app:app").code == 0
    return database_url


def drained(spawn, *options: str) -> str:
    process = spawn("worker", "shop_app:app", "--drain", "--lease", "2", *options)
    _, err = process.communicate(timeout=120)
    return str(err)


@pytest.mark.parametrize("options", [(), ("--log-json",)])
def test_no_value_of_a_user_is_in_the_log_nor_in_history(shop, spawn, cli, options) -> None:
    """T12: a task that logs an exception, in a thread too, a background task that dies, arguments that do
    not fit, a save that the table refuses, and a task that parks."""
    for task in ("logs", "logs_in_thread", "background", "fails"):
        enqueue(shop, task, {"card": "CANARY-CARD-4111"})
    enqueue(shop, "fails", {"card": "CANARY-TWO", "unknown": "CANARY-UNKNOWN"})
    enqueue(shop, "strict", {"number": "CANARY-NUMBER"})
    enqueue(shop, "strict", {"number": 1, "size": "CANARY-SIZE"})
    sql(shop, "insert into listing (id, note, price) values (1, 'CANARY-ROW', 5)")

    log = drained(spawn, *options)

    assert "it failed" in log
    assert "RuntimeError: declined" in log
    assert "RuntimeError: died" in log
    assert "CANARY" not in log
    errors = sql(
        shop, "select queue, error, error_type from mainspring.history where error is not null"
    )
    parked = sql(shop, "select queue, error from mainspring.visit where parked_at is not null")
    told = {str(row[0]) for row in errors}
    assert told >= {"fails", "strict", "listing/price"}
    assert "CANARY" not in str(errors) + str(parked)
    for command in (("parked", "list"), ("parked", "groups"), ("history",)):
        assert "CANARY" not in re.sub(r'"card":"[^"]*"', "", cli(*command).out)
    assert any("number: str" in str(row[1]) for row in errors)
    assert any("(note: str, price: int)" in str(row[1]) for row in errors)


def test_nothing_that_a_user_named_steers_the_terminal(shop, spawn, cli) -> None:
    """Escapes, the clipboard's sequence, bells and turned text are shown as escapes by every command."""
    arguments = json.dumps({"card": ESC, "unknown": ESC})
    sql(shop, "select mainspring.enqueue('fails', %s::jsonb, key => %s)", arguments, ESC)

    log = drained(spawn)
    shown = {
        command: "".join(_texts(cli(*command)))
        for command in (
            ("parked", "list"),
            ("parked", "groups"),
            ("history",),
            ("history", "--key", ESC),
            ("why", "fails", ESC),
            ("status",),
            ("tasks", "list", "--queue", "fails"),
            ("doctor",),
            ("tasks", "show", ESC),
        )
    }

    for text in (log, *shown.values()):
        assert all(c.isprintable() or c == "\n" for c in text), text
    assert "\\x1b[2J" in shown["parked", "list"]
    assert "\\x1b]52;c" in shown["parked", "list"].replace("\n", "")
    assert "\\u202e" in log


def _texts(answer: Any) -> tuple[str, str]:
    return answer.out, answer.err
