"""T13: payloads that are encrypted before they leave the process."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest

from mainspring import Context, Mainspring, RetryAfter, RetryPolicy, Unique
from mainspring.cli import main
from mainspring.console import Console
from mainspring.console.viewer import Viewer
from mainspring.embedded.binaries import binaries
from mainspring.encryption import AesGcm
from mainspring.errors import InvalidSetting, TaskFailed, UnknownCipherKey
from mainspring.operate.history import HistoryFilter
from mainspring.tasks.declare.sealing import Sealing, opened
from mainspring.tasks.run.queue import payload_for
from mainspring.testing import (
    Clock,
    assert_enqueued,
    inline,
    parked_call,
    run_until_idle,
    wait_until,
)
from mainspring.testing.idle import FAST_SETTINGS

C = "CAN" + "ARY"
OLD, NEW = bytes(32), bytes(range(32))
BIN = Path(os.environ["MAINSPRING_TEST_BIN"]) if "MAINSPRING_TEST_BIN" in os.environ else None
ONCE = RetryPolicy(attempts=1)


class Card(msgspec.Struct):
    number: str


@pytest.fixture(autouse=True)
def own_levels() -> Iterator[None]:
    """Commands set the level of their process."""
    root, ours = logging.getLogger(), logging.getLogger("mainspring")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def app_with(url: str, **keys: bytes) -> Mainspring:
    """An application whose cipher has these keys, and uses the last of them."""
    return Mainspring(url, cipher=AesGcm(keys, use=list(keys)[-1]) if keys else None)


def declare(app: Mainspring) -> None:
    @app.task(retry=ONCE, searchable=["order"])
    async def charge(order: int, card: Card, name: str) -> str:
        if name.endswith("bad"):
            raise ValueError(f"{name} declined {card.number}")
        return f"charged {card.number}"

    @app.task(retry=RetryPolicy(attempts=2, first=0, most=0))
    def charge_in_thread(card: Card) -> Card:
        raise LookupError(card.number)

    @app.task
    async def charge_in_transaction(ctx: Context, card: Card) -> Card:
        ctx.progress(0.5, f"half of {card.number}")
        async with ctx.transaction():
            ctx.set_result(card)
        raise RuntimeError(f"after it: {card.number}")


async def test_what_is_encrypted_is_in_no_dump_no_log_no_command_and_on_no_page(
    mainspring_url: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """T13, T12: arguments, results and the texts of failures: waiting, done, retried and parked."""
    caplog.set_level(logging.DEBUG)
    app = app_with(mainspring_url, k1=NEW)
    declare(app)
    tasks = app.tasks
    card = Card(f"{C}-4242")
    async with app:
        done = await tasks["charge"].enqueue(700, card, f"{C}-ok")
        bad = await tasks["charge"].enqueue(8, card=card, name=f"{C}-bad")
        await tasks["charge"].enqueue_many(
            [{"order": n, "card": card, "name": C} for n in range(60)]
        )
        await tasks["charge"].options(key="plain-key", group="g").enqueue(9, card, C)
        thread = await tasks["charge_in_thread"].enqueue(card)
        inside = await tasks["charge_in_transaction"].enqueue(card)
        await run_until_idle(app)
        await tasks["charge"].options(delay=3600).enqueue(10, card, f"{C}-waits")

        assert await done.result(timeout=1) == f"charged {C}-4242"
        assert await inside.status() == "done"
        (end,) = [end async for end in app.results([thread])]
        assert (end.error or "").startswith(f"LookupError: {C}-4242")
        with pytest.raises(TaskFailed, match=f"ValueError: {C}-bad declined {C}-4242"):
            await bad.result(timeout=1)
        with pytest.raises(TaskFailed, match=f"LookupError: {C}-4242"):
            await thread.result(timeout=1)

        shown, one = [], f"/tasks/one?queue=charge&key={bad.key}"
        console = Console(app, authenticate=everybody)
        transport = httpx.ASGITransport(console)
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as browser:
            for page in ("/", "/tasks", one, "/history", "/queues", "/parked", "/needs"):
                answer = await browser.get(page, follow_redirects=True)
                shown.append(answer.text)
    program = binaries(BIN) / "pg_dump"
    dump = await asyncio.to_thread(subprocess.check_output, [program, mainspring_url], text=True)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    for command in (
        ["parked", "list"],
        ["parked", "groups"],
        ["history"],
        ["history", "--limit", "200", "--json"],
        ["tasks", "show", bad.id],
        ["tasks", "show", bad.id, "--json"],
        ["tasks", "list"],
        ["why", "charge", bad.key],
        ["status"],
    ):
        monkeypatch.setattr(sys, "argv", ["mainspring", *command, "--url", mainspring_url])
        with pytest.raises(SystemExit):
            await asyncio.to_thread(main.run)
    out, err = capsys.readouterr()

    assert bad.id in dump
    assert '"$"' in dump
    assert "encrypted with key" in out
    everywhere = {"dump": dump, "out": out, "err": err, "log": caplog.text, "pages": "".join(shown)}
    hidden = [C, base64.b64encode(card.number.encode()).decode()[:12]]
    for place, text in everywhere.items():
        assert not [word for word in hidden if word in text], place
    with psycopg.connect(mainspring_url) as connection:
        found = connection.execute(
            "select count(*) from mainspring.history where payload->>'order' = '7'"
        ).fetchone()
    assert found == (1,), "what is searchable stays in the clear"


async def test_a_note_of_progress_is_read_with_the_key_alone(mainspring_url: str) -> None:
    """T13: it is stored as ciphertext."""
    go_on = asyncio.Event()
    async with app_with(mainspring_url, k1=NEW) as app:

        @app.task
        async def copy(ctx: Context) -> None:
            ctx.progress(0.5, f"half of {C}")
            await go_on.wait()

        handle = await copy.enqueue()
        async with app.worker(**FAST_SETTINGS):
            async for said in handle.progress(timeout=30):
                assert (said.done, said.note) == (0.5, f"half of {C}")
                break
            words = await app.operator.progress([handle.id])
            assert (words[handle.id].note or "").startswith("$sealed:k1:")
            go_on.set()
            await handle.result(timeout=30)


def in_helper(ctx: Context, card: Card) -> Card:
    if card.number == C:
        raise LookupError(card.number)
    return card


async def test_a_process_executor_is_given_what_was_encrypted(mainspring_url: str) -> None:
    """T13: its worker decrypts, and encrypts what comes back."""
    async with app_with(mainspring_url, k1=NEW) as app:
        task = app.task(executor="process", retry=ONCE)(in_helper)
        good, bad = await task.enqueue(Card("42")), await task.enqueue(Card(C))  # type: ignore[call-arg, arg-type]
        await run_until_idle(app)
        assert await good.result(timeout=1) == Card("42")
        with pytest.raises(TaskFailed, match=f"LookupError: {C}"):
            await bad.result(timeout=1)
        for past in await app.operator.history(HistoryFilter(), limit=10):
            assert C not in str(past)
            assert "42" not in str(past.result)


async def everybody(_: object) -> Viewer | None:
    return Viewer("ann", frozenset({"*"}))


async def test_keys_are_rotated_while_calls_wait(mainspring_url: str) -> None:
    """T13: in the clear, under the old key and under the new one: each is read; nothing is lost."""
    seen: list[str] = []

    def declared(app: Mainspring) -> Any:
        @app.task
        async def keep(text: str) -> str:
            seen.append(text)
            return text

        return keep

    handles = []
    for keys in ({}, {"old": OLD}, {"old": OLD, "new": NEW}):
        async with app_with(mainspring_url, **keys) as app:
            handles.append(await declared(app).enqueue(f"under {','.join(keys)}"))
    async with app_with(mainspring_url, old=OLD, new=NEW) as app:
        keep = declared(app)
        await run_until_idle(app)
        assert sorted(seen) == ["under ", "under old", "under old,new"]
        found = [app.task_handle("keep", handle.id) for handle in handles]
        assert [await handle.result(timeout=1) for handle in found] == seen
        assert keep.name == "keep"


@pytest.mark.parametrize("keys", [{}, {"other": OLD}, {"k1": OLD}], ids=["none", "other", "wrong"])
async def test_a_call_whose_key_is_not_there_parks_and_runs_when_it_is(
    mainspring_url: str, keys: dict[str, bytes]
) -> None:
    """T13: it parks at once, with a text that says what to do, and keeps its arguments."""
    seen: list[str] = []

    def declared(app: Mainspring) -> Any:
        @app.task
        async def keep(text: str) -> None:
            seen.append(text)

        return keep

    async with app_with(mainspring_url, k1=NEW) as app:
        handle = await declared(app).enqueue("kept")
    async with app_with(mainspring_url, **keys) as app:
        declared(app)
        await run_until_idle(app)
        assert await app.task_handle("keep", handle.id).status() == "parked"
        with pytest.raises(TaskFailed) as failed:
            await app.task_handle("keep", handle.id).result(timeout=1)
        assert "the payload of task 'keep' " in (failed.value.error or "")
        assert "key 'k1'" in (failed.value.error or "")
        assert "then restart what is parked" in (failed.value.error or "")
    async with app_with(mainspring_url, k1=NEW) as app:
        declared(app)
        await app.operator.restart("keep", handle.key)
        await run_until_idle(app)
    assert seen == ["kept"]


async def test_a_sealed_payload_that_was_changed_is_refused(mainspring_url: str) -> None:
    async with app_with(mainspring_url, k1=NEW) as app:

        @app.task
        async def keep(text: str) -> None: ...

        call = keep.bind("x")
        fields = msgspec.json.decode(call.payload)
        raw = bytearray(base64.b64decode(fields["$"]["sealed"]))
        raw[-1] ^= 1
        fields["$"]["sealed"] = base64.b64encode(raw).decode()
        with pytest.raises(
            UnknownCipherKey, match="cannot be decrypted with key 'k1': it was changed"
        ):
            keep.signature.decode(msgspec.json.encode(fields).decode())


async def test_schedules_and_unique_arguments_go_with_a_cipher(mainspring_url: str) -> None:
    """T13: a tick's time is put beside what is sealed; what calls are unique by stays in the clear."""
    seen: list[tuple[datetime, str]] = []
    async with app_with(mainspring_url, k1=NEW) as app:

        @app.task(cron="* * * * *", cron_args={"text": C}, tick_argument="at", catch_up="one")
        async def tick(at: datetime, text: str) -> None:
            seen.append((at, text))

        @app.task(unique=Unique("existing", by=["order"]))
        async def keep(order: int, text: str) -> None: ...

        one, two = await keep.enqueue(1, "a"), await keep.enqueue(1, "b")
        three = await keep.enqueue(2, "a")
        assert (one.id == two.id, one.id == three.id) == (True, False)
        payload = tick.payload_of(
            (), {"at": datetime.now().astimezone(), "text": C}, tick.call_options
        )
        assert C not in payload.decode()
        stored = msgspec.json.decode(payload_for(tick.signature, {"text": C}, "at"))
        assert C not in str(stored)
        stored["at"] = "2026-01-01T00:00:00Z"
        read = tick.signature.decode(msgspec.json.encode(stored).decode())
        assert read["text"] == C
        assert read["at"] == datetime.fromisoformat("2026-01-01T00:00:00+00:00")


async def test_a_pause_that_a_service_asks_for_is_kept_and_its_text_is_not_told(
    mainspring_url: str,
) -> None:
    """T13: though no queue of the worker has a breaker; of the error the type alone is in the clear."""
    async with app_with(mainspring_url, k1=NEW) as app:

        @app.task
        async def pay(card: str) -> None:
            raise RetryAfter(3600, f"the bank throttles {card}", pauses="queue")

        await pay.enqueue(C)
        async with app.worker(**FAST_SETTINGS):
            await wait_until(lambda: app.operator.breakers(), 30)
        [breaker] = await app.operator.breakers()
        assert (breaker.queue, breaker.reason) == ("pay", "mainspring.errors.RetryAfter")
        assert C not in str(await app.operator.doctor())
        with psycopg.connect(mainspring_url) as connection:
            found = connection.execute("select b::text from mainspring.breaker b").fetchall()
        assert found
        assert C not in str(found)


def tick_app(url: str, ran: list[tuple[datetime, int]], x: int = 1, key: str = "k1") -> Mainspring:
    app = app_with(url, **{"k1": NEW, key: NEW if key == "k1" else OLD})

    @app.task
    async def tick(at: datetime, x: int) -> None:
        ran.append((at, x))

    app.schedule(tick.bind(at=LONG_AGO, x=x), cron="0 * * * *", tick_argument="at")
    return app


LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


async def at_the_next_tick(app: Mainspring, clock: Clock) -> datetime:
    at = (await app.schedules.get("tick")).next_at
    assert at is not None
    await clock.advance(at - await clock.now() + timedelta(milliseconds=10))
    await run_until_idle(app)
    return at


async def test_the_time_of_a_tick_wins_over_what_is_encrypted(
    mainspring_url: str, mainspring_clock: Clock
) -> None:
    """T13: of a schedule that is declared with a call, that is given another, or another argument."""
    ran: list[tuple[datetime, int]] = []
    async with tick_app(mainspring_url, ran) as app:
        await run_until_idle(app)
        expected = [(await at_the_next_tick(app, mainspring_clock), 1)]
        call = app.tasks["tick"].bind(at=LONG_AGO, x=2)
        await app.schedules.change("tick", call)
        expected.append((await at_the_next_tick(app, mainspring_clock), 2))
        await app.schedules.add("late", call, cron="0 * * * *")
        await app.schedules.change("late", tick_argument="at")
        await app.schedules.remove("tick")
        at = (await app.schedules.get("late")).next_at
        await mainspring_clock.advance(timedelta(hours=1))
        async with app.worker(**FAST_SETTINGS):
            await wait_until(lambda: (at, 2) in ran, 30)
    assert ran[:2] == expected
    assert LONG_AGO not in [at for at, _ in ran]


async def test_a_start_of_a_worker_leaves_encrypted_schedules_as_they_stand(
    mainspring_url: str,
) -> None:
    """T13: the same arguments are encrypted anew, under a new key too; others are declared."""
    ran: list[tuple[datetime, int]] = []
    async with tick_app(mainspring_url, ran) as app:
        await run_until_idle(app)
        before = await app.schedules.get("tick")
    async with tick_app(mainspring_url, ran) as app:
        await run_until_idle(app)
        assert await app.schedules.get("tick") == before
        await app.schedules.change("tick", cron="5 * * * *", source="ann")
    async with tick_app(mainspring_url, ran, key="k2") as app:
        await run_until_idle(app)
        kept = await app.schedules.get("tick")
        assert (kept.cron, kept.changed_by) == ("5 * * * *", "ann")
    async with tick_app(mainspring_url, ran, x=2) as app:
        await run_until_idle(app)
        declared = await app.schedules.get("tick")
        assert (declared.cron, declared.changed_by) == ("0 * * * *", None)


async def test_a_schedule_in_the_clear_is_encrypted_by_the_first_worker_with_a_cipher(
    mainspring_url: str,
) -> None:
    """T13: so is one whose key is gone."""
    for keys in ({}, {"k1": NEW}, {"k2": OLD}):
        async with app_with(mainspring_url, **keys) as app:

            @app.task(cron="0 * * * *", cron_args={"text": C})
            async def tick(text: str) -> None: ...

            await run_until_idle(app)
            stored = str((await app.schedules.get("tick")).payload)
            assert (C in stored) is not bool(keys)
            assert all(key in stored for key in keys)


def test_what_a_key_is_rotated_in_the_middle_of_is_labelled_with_its_own() -> None:
    class Rotates(AesGcm):
        def encrypt(self, value: bytes) -> bytes:
            sealed = super().encrypt(value)
            self.key_id = "new"
            return sealed

    cipher = Rotates({"old": OLD, "new": NEW}, use="old")
    sealing = Sealing(cipher)
    stored = sealing.payload(b'{"x":1}', ())
    assert b'"key":"new"' in stored
    assert opened(sealing, stored.decode(), "it") == '{"x":1}'


async def test_the_test_kit_reads_and_writes_what_is_encrypted(mainspring_url: str) -> None:
    async with app_with(mainspring_url, k1=NEW) as app:

        @app.task(searchable=["order"])
        async def charge(order: int, name: str) -> str:
            return name

        await charge.enqueue(7, "ann")
        [found] = await asyncio.to_thread(assert_enqueued, app, charge, {"name": "ann"})
        assert found.arguments == {"order": 7, "name": "ann"}
        parked = await asyncio.to_thread(
            parked_call, app, charge, {"order": 8, "name": C}, error=ValueError(C)
        )
        [stored] = await app.operator.parked()
        assert C not in str(stored)
        with pytest.raises(TaskFailed, match=f"ValueError: {C}"):
            await parked.result(timeout=1)
        with inline(app):
            assert await (await charge.enqueue(9, "eve")).result() == "eve"


async def test_check_names_calls_whose_key_is_unknown(
    mainspring_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """T13: before the workers without the key park them."""
    (tmp_path / "rotated.py").write_text(
        "from mainspring import Mainspring\n"
        "from mainspring.encryption import AesGcm\n"
        "app = Mainspring(cipher=AesGcm({'k2': bytes(32)}, use='k2'))\n"
    )
    async with app_with(mainspring_url, k1=NEW) as app:
        declare(app)
        for order in (1, 2):
            await app.tasks["charge"].enqueue(order, Card("1"), "ann")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        sys, "argv", ["mainspring", "check", "rotated:app", "--url", mainspring_url]
    )
    with pytest.raises(SystemExit) as ended:
        await asyncio.to_thread(main.run)
    assert ended.value.code == 1
    assert (
        "MS202 charge: 2 calls encrypted with key 'k1', which the cipher lacks"
        in capsys.readouterr().out
    )


def test_what_cannot_be_a_cipher_or_a_key_is_refused() -> None:
    with pytest.raises(
        InvalidSetting, match="cipher must have key_id, key_ids, encrypt and decrypt"
    ):
        Mainspring(cipher=object())  # type: ignore[arg-type]
    with pytest.raises(
        InvalidSetting, match="key 'a' must be 16, 24 or 32 random bytes, got 5 bytes"
    ):
        AesGcm({"a": b"short"}, use="a")
    with pytest.raises(InvalidSetting, match="use='b' is none of the keys"):
        AesGcm({"a": os.urandom(32)}, use="b")
    with pytest.raises(InvalidSetting, match="a key's id must be 1 to 100 printable bytes"):
        AesGcm({"a:b": os.urandom(32)}, use="a:b")


def test_the_texts_of_keys_are_in_no_repr() -> None:
    assert repr(AesGcm({"a": NEW, "b": OLD}, use="a")) == "<AesGcm with a, b, uses a>"


async def test_the_doctor_names_calls_whose_key_no_worker_has(mainspring_url: str) -> None:
    """T13: it has the database alone; a worker says which keys it can open."""

    def declared(app: Mainspring) -> Any:
        @app.task
        async def keep(text: str) -> None: ...

        return keep

    async def named(app: Mainspring) -> list[str]:
        return [f.text for f in await app.operator.doctor() if f.name == "cipher_key"]

    async with app_with(mainspring_url, lost=OLD) as app:
        later = declared(app).options(delay=3600)
        await later.enqueue_many([{"text": "a"}, {"text": "b"}])
    async with app_with(mainspring_url, k1=NEW) as app:
        await declared(app).options(delay=3600).enqueue("c")
        assert await named(app) == [], "nobody runs: that is another finding"
        async with Mainspring(mainspring_url) as stranger, app.worker(**FAST_SETTINGS):
            with psycopg.connect(mainspring_url, autocommit=True) as connection:
                told = "select count(*) from mainspring.worker_cipher"
                await wait_until(lambda: connection.execute(told).fetchone() == (1,), 30)
            assert await named(stranger) == [
                "2 calls of 'keep' encrypted with key 'lost', which no worker that runs can open"
            ]
    with psycopg.connect(mainspring_url) as connection:
        assert connection.execute("select * from mainspring.worker_cipher").fetchall() == []
