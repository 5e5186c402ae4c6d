"""T13: the values of processes are encrypted before they leave the process, whatever way they take."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import msgspec
import psycopg
import pytest

from mainspring import (
    Context,
    Failure,
    First,
    Mainspring,
    Outcome,
    Promise,
    RetryPolicy,
    choose,
    every,
    first_of,
    first_success,
    for_each,
    gather,
    repeat_until,
    scope,
    set_attrs,
    sleep,
)
from mainspring.cli import main
from mainspring.console import Console
from mainspring.console.viewer import Viewer
from mainspring.embedded.binaries import binaries
from mainspring.encryption import AesGcm
from mainspring.errors import (
    IdInUse,
    InvalidArguments,
    InvalidDecision,
    InvalidSetting,
    Refused,
    TaskFailed,
)
from mainspring.host import DatabaseHost
from mainspring.processes.operate.bulk import TaskFilter
from mainspring.processes.operate.keys import unreadable_steps
from mainspring.processes.record.decision import Decision
from mainspring.processes.remote.answers import GivenBack
from mainspring.processes.remote.settling import Settling
from mainspring.reactive import new_day
from mainspring.tasks.declare.sealing import Sealing
from mainspring.testing import run_until_idle, wait_until
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
    return Mainspring(url, cipher=AesGcm(keys, use=list(keys)[-1]) if keys else None)


def declare(app: Mainspring) -> dict[str, Any]:
    """Every way that a value takes through a process."""
    word = app.signal("word", str)
    raised = app.question("raised", Card, str)

    @app.task
    def pay(card: Card) -> Card:
        return card

    @app.task(retry=ONCE)
    def refuse(card: Card) -> Card:
        raise ValueError(f"declined {card.number}")

    @app.task(retry=RetryPolicy(attempts=2, first=0, most=0))
    async def refuse_twice(ctx: Context, card: Card) -> str:
        ctx.progress(0.5, f"half of {card.number}")
        raise LookupError(card.number)

    @app.task
    async def pay_inside(ctx: Context, card: Card) -> str:
        async with ctx.transaction():
            ctx.set_result(f"inside {card.number}")
        return ""

    @app.task
    def undo(card: str, done: Outcome[Card]) -> str:
        assert card.startswith(C)
        return f"{card} undone {done.value.number}"

    @app.task
    def explain(failure: Failure, card: str) -> str:
        assert failure.message == f"declined {C}-9"
        return f"{failure.type} {failure.message} {card}"

    @app.task
    def tell(outcome: Outcome[str]) -> str:
        return str(outcome.failure) if outcome.failed else outcome.value

    @app.task
    def arrived(card: Card) -> bool:
        return card.number.startswith(C)

    @app.task(remote=True)
    def elsewhere(card: Card) -> Card: ...  # type: ignore[empty-body]

    @app.process(searchable=["shop"])
    def child(card: Card) -> Promise[Card]:
        set_attrs(shop=7)
        return pay(card)

    @app.process
    def scoped(card: Card) -> Promise[str]:
        with scope(name="s") as s:
            s.on_error(explain, card=f"{C}-handler")
            paid = pay(card)
            paid.compensate(undo, f"{C}-undo", paid)
            s.returns(refuse(Card(f"{C}-9"), after=[paid]))
        return s.promise

    @app.process
    def follow(card: Card, word: str, both: list[Card], chosen: str, all: list[str]) -> list[str]:
        return [card.number, word, *(one.number for one in both), chosen, *all]

    @app.process(retry=ONCE)
    def order(card: Card) -> Promise[list[str]]:
        came = word.wait()
        choice = choose(
            came,
            {f"{C}-never": lambda: tell(came)},
            otherwise=lambda: pay_inside(Card(f"{C}-choice")),
        )
        looped = repeat_until(lambda: arrived(card), every=60)
        every(timedelta(hours=1), lambda: pay(card), until=looped)
        won = first_success([refuse(card), pay(Card(f"{C}-race"))])
        late = first_of(sleep(3600), pay(card))
        told = [tell(won_text(won)), tell(scoped(card)), tell(child_text(child.child(card)))]
        mapped = [*[pay(card)], pay(Card(f"{C}-map"))]
        return follow(card, came, gather(mapped), choice, told, after=[looped, late])

    @app.process
    def won_text(won: First[Card]) -> str:
        return won.value.number

    @app.process
    def child_text(card: Card) -> str:
        return card.number

    @app.process
    def fails(card: Card) -> Promise[Card]:
        return refuse(card)

    @app.process
    def fails_twice(card: Card) -> Promise[str]:
        return refuse_twice(card)

    @app.process
    def waits(card: Card) -> Promise[str]:
        return word.wait()

    @app.process
    def asked(card: Card) -> Promise[str]:
        return raised.answer(lambda given: tell(child_text(given)))

    @app.process
    def items(cards: list[str]) -> Promise[list[str]]:
        return for_each(word, lambda one: tell(one), until=sleep(0))

    @app.process
    def away(card: Card) -> Promise[Card]:
        return elsewhere(card)

    return {"word": word, "raised": raised}


async def everybody(_: object) -> Viewer | None:
    return Viewer("ann", frozenset({"*"}))


async def test_a_value_is_in_no_dump_no_log_no_command_and_on_no_page(
    mainspring_url: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """T13: arguments, results, signals, questions, failures, compensations, blocks, races."""
    caplog.set_level(logging.DEBUG)
    app = app_with(mainspring_url, k1=NEW)
    kinds = declare(app)
    started, card = app.processes, Card(f"{C}-4242")
    shown: list[str] = []
    async with app:
        whole = await started["order"].options(id="o-1").start(card)
        parked = await started["fails"].options(id="o-2", attrs={}).start(card)
        twice = await started["fails_twice"].start(card)
        asked = await started["asked"].start(card)
        each = await started["items"].start([C])
        waits = await started["waits"].start(card)
        await each.signal(kinds["word"], f"{C}-item")
        await whole.signal(kinds["word"], f"{C}-word")
        async with app.worker(**FAST_SETTINGS):
            answer = await asked.ask(kinds["raised"], Card(f"{C}-asked"), timeout=30)
            assert answer == f"{C}-asked"
            assert await each.result(timeout=30) == [f"{C}-item"]
            assert await whole.result(timeout=30) == [
                f"{C}-4242", f"{C}-word", f"{C}-4242", f"{C}-map", f"inside {C}-choice", f"{C}-race",
                f"ValueError declined {C}-9 {C}-handler", f"{C}-4242",
            ]  # fmt: skip
            await wait_until(lambda: _parked(app, 2), 30)
        assert (await app.operator.processes.find("o-1")).state == "finished"
        again = await started["order"].options(id="o-1").start(card)
        assert (again.id, again.is_new) == (whole.id, False)
        console = Console(app, authenticate=everybody)
        transport = httpx.ASGITransport(console)
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as browser:
            one = [f"/processes/one?id={one.id}" for one in (whole, parked, twice)]
            for page in ("/", "/processes", *one, "/parked", "/history"):
                answer = await browser.get(page, follow_redirects=True)
                assert answer.status_code == 200, page
                shown.append(answer.text)
    dump = await dumped(mainspring_url)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    for command in (
        ["processes", "list"],
        ["processes", "show", "o-1"],
        ["processes", "show", "o-1", "--json"],
        ["processes", "show", "o-2"],
        ["processes", "why", "o-2"],
        ["processes", "why", waits.id],
        ["processes", "parked"],
        ["parked", "list"],
        ["parked", "groups", "--json"],
        ["history", "--limit", "200", "--json"],
        ["status"],
    ):
        monkeypatch.setattr(sys, "argv", ["mainspring", *command, "--url", mainspring_url])
        with pytest.raises(SystemExit):
            await asyncio.to_thread(main.run)
    out, err = capsys.readouterr()
    assert whole.id in dump
    assert dump.count('"sealed"') > 40
    assert "(encrypted with key 'k1')" in out
    assert any("encrypted with key" in page for page in shown)
    everywhere = {"dump": dump, "out": out, "err": err, "log": caplog.text, "pages": "".join(shown)}
    hidden = [C, base64.b64encode(card.number.encode()).decode()[:8]]
    for place, text in everywhere.items():
        assert not [word for word in hidden if word in text], place


async def dumped(url: str) -> str:
    program = binaries(BIN) / "pg_dump"
    return await asyncio.to_thread(subprocess.check_output, [program, url], text=True)


async def _parked(app: Mainspring, number: int) -> bool:
    groups = await app.operator.processes.parked_groups()
    return sum(group.count for group in groups) == number


async def test_keys_are_rotated_while_a_process_waits(mainspring_url: str) -> None:
    """T13: in the clear, under the old key and under the new one: a process goes on through all three."""
    ids = []
    for keys in ({}, {"old": OLD}, {"old": OLD, "new": NEW}):
        async with app_with(mainspring_url, **keys) as app:
            said = declare(app)
            ids.append((await app.processes["order"].start(Card(f"{C}-{len(ids)}"))).id)
            await run_until_idle(app)
            if (
                len(ids) > 1
            ):  # what was in the clear goes on under a key, and the reverse is refused
                handle = app.process_handle("order", ids[len(ids) - 2])
                await handle.signal(said["word"], "said")
                await run_until_idle(app)
                assert (await handle.result(timeout=1))[0] == f"{C}-{len(ids) - 2}"
    async with app_with(mainspring_url) as app:
        said = declare(app)
        with pytest.raises(
            Refused, match=f"the values of process {ids[2]} are encrypted, and there"
        ):
            await app.process_handle("order", ids[2]).signal(said["word"], "said")


@pytest.mark.parametrize("keys", [{}, {"other": OLD}, {"k1": OLD}], ids=["none", "other", "wrong"])
async def test_a_step_whose_key_is_not_there_parks_and_goes_on_when_it_is(
    mainspring_url: str, keys: dict[str, bytes]
) -> None:
    """T13: nothing of it is lost, and the text names the key."""

    def declared(app: Mainspring) -> Any:
        @app.task
        def is_done(text: str) -> bool:
            return True

        @app.process
        def poll(text: str) -> Promise[bool]:
            return repeat_until(lambda: is_done(text), every=60)

        return poll

    async with app_with(mainspring_url, k1=NEW) as app:
        handle = await declared(app).start("kept")
    async with app_with(mainspring_url, **keys) as app:
        declared(app)
        await run_until_idle(app)
        cause = (await app.operator.processes.why(handle.id)).causes[-1]
        assert "UnknownCipherKey: what was recorded of a step of 'poll' " in cause.text
        assert "key 'k1'" in cause.text
    async with app_with(mainspring_url, k1=NEW) as app:
        declared(app)
        await app.operator.processes.restart_tasks(TaskFilter(actor="poll"))
        await run_until_idle(app)
        assert await app.process_handle("poll", handle.id).result(timeout=1) is True


async def test_an_actor_elsewhere_gets_what_the_server_opens(mainspring_url: str) -> None:
    """T13: the application that serves it has the cipher: the ticket has the values in the clear, the
    database never; what comes back is encrypted, and so is why it failed."""
    async with app_with(mainspring_url, k1=NEW) as app:
        declare(app)
        plain = app.tasks["elsewhere"]
        good = await app.processes["away"].start(Card(f"{C}-1"))
        own = await plain.enqueue(Card(f"{C}-2"))
        bad = await plain.enqueue(Card(f"{C}-3"))
        await run_until_idle(app)
        pulled = {
            task.args["card"]["number"]: task
            for task in await app.remote.pull("elsewhere", limit=5)
        }
        assert sorted(pulled) == [f"{C}-1", f"{C}-2", f"{C}-3"]
        with pytest.raises(InvalidDecision, match="attributes of a process are in the clear"):
            await app.remote.decide(pulled[f"{C}-1"].ticket, Decision(attrs={"card": C}))
        for number in (f"{C}-1", f"{C}-2"):
            await app.remote.complete(pulled[number].ticket, {"number": number})
        await app.remote.fail(pulled[f"{C}-3"].ticket, f"no cover for {C}", retry=False)
        await run_until_idle(app)
        assert await good.result(timeout=1) == Card(f"{C}-1")
        assert await own.result(timeout=1) == Card(f"{C}-2")
        with pytest.raises(TaskFailed, match=f"no cover for {C}"):
            await bad.result(timeout=1)
    assert C not in await dumped(mainspring_url)


async def test_what_stays_in_the_clear_must_be_said_to(mainspring_url: str) -> None:
    """T13: attributes of a process, and the layers that a cipher does not cover."""
    async with app_with(mainspring_url, k1=NEW) as app:
        declare(app)

        @app.process(retry=ONCE)
        def secret(name: str) -> None:
            set_attrs(name=name)

        text = "attribute 'shop' of process 'order' would be stored in the clear, and this"
        with pytest.raises(InvalidArguments, match=text):
            app.processes["order"].options(attrs={"shop": 7})
        found = await app.processes["child"].options(attrs={"shop": 7}).start(Card("1"))
        handle = await secret.start(C)
        await run_until_idle(app)
        assert (await app.operator.processes.find(found.id)).attrs == {"shop": 7}
        [parked] = await app.operator.processes.parked_groups(type="secret")
        assert parked.error_type == "mainspring.errors.InvalidArguments"
        await app.operator.processes.resolve(handle.id, await _root(app, handle.id), C)
        days = app.data("d").param("loaded")
        for declaring, what in (
            (lambda: app.documents("note"), "events, states and documents of kinds"),
            (
                lambda: app.task(when=new_day(days))(print),
                "params of reactive tasks",
            ),
        ):
            with pytest.raises(InvalidSetting, match=f"has a cipher, and the {what}"):
                declaring()
    assert C not in await dumped(mainspring_url)
    cipher = AesGcm({"k1": NEW}, use="k1")
    Mainspring(cipher=cipher, in_clear=["kinds"]).documents("note")
    with pytest.raises(InvalidSetting, match="in_clear names 'all'; it takes 'kinds', 'reactive'"):
        Mainspring(cipher=cipher, in_clear=["all"])


async def _root(app: Mainspring, id: str) -> str:
    return (await app.operator.processes.graph(id)).tasks[0].id


async def test_an_operator_without_the_cipher_gives_no_value_in_the_clear(
    mainspring_url: str,
) -> None:
    """T13: neither a signal nor a result by hand; with the application both are encrypted."""
    async with app_with(mainspring_url, k1=NEW) as app:
        declare(app)
        bad, waits = [await app.processes[name].start(Card(C)) for name in ("fails", "waits")]
        await run_until_idle(app)
        alone = DatabaseHost(mainspring_url)
        task = (await app.operator.processes.graph(bad.id)).tasks[-1].id
        try:
            for order in (
                alone.operator.processes.signal(waits.id, "word", C),
                alone.operator.processes.resolve(bad.id, task, {"number": C}),
                alone.operator.processes.fail(bad.id, task, C),
            ):
                with pytest.raises(Refused, match="are encrypted, and there is no cipher here"):
                    await order
        finally:
            await alone.close()
        await app.operator.processes.signal(waits.id, "word", C)
        await app.operator.processes.resolve(bad.id, task, {"number": C})
        await run_until_idle(app)
        assert await waits.result(timeout=1) == C
        assert await bad.result(timeout=1) == Card(C)
    assert C not in await dumped(mainspring_url)


async def test_the_id_of_an_encrypted_process_is_taken_by_other_arguments_alone(
    mainspring_url: str,
) -> None:
    """T13: no two ciphertexts look alike; a schedule stays as it stands for the same reason."""
    async with app_with(mainspring_url, k1=NEW) as app:
        declare(app)
        start = app.processes["waits"].options(id="w-1").start
        first, same = await start(Card(C)), await start(Card(C))
        assert (first.id, same.is_new) == (same.id, False)
        with pytest.raises(IdInUse, match=r"with other arguments \(card\)"):
            await start(Card("other"))
    payloads = []
    for _ in range(2):
        async with app_with(mainspring_url, k1=NEW) as app:
            declare(app)
            app.schedule(app.processes["waits"].bind(Card(C)), cron="0 0 1 1 *")
            await run_until_idle(app)
            payloads.append((await app.schedules.get("waits")).payload)
    assert payloads[0] == payloads[1]
    assert C not in str(payloads)


async def test_check_names_steps_whose_key_is_unknown(mainspring_url: str) -> None:
    """T13: before the workers without the key park them."""
    async with app_with(mainspring_url, k1=NEW) as app:
        said = declare(app)
        waits = await app.processes["waits"].start(Card(C))
        await app.processes["order"].start(Card(C))
        await waits.signal(said["word"], C)
        assert unreadable_steps(app.sealing, app.sync_pool()) == []  # type: ignore[arg-type]
    lacks = Sealing(AesGcm({"k2": OLD}, use="k2"))
    async with app_with(mainspring_url) as app:
        found = [tuple(row) for row in unreadable_steps(lacks, app.sync_pool())]
    assert found == [("order", "k1", 1), ("waits", "k1", 1), ("word", "k1", 1)]


async def test_what_an_actor_elsewhere_tells_goes_without_what_is_hidden_and_encrypted(
    mainspring_url: str,
) -> None:
    """T13: what a task hides is found in what is encrypted, of a step and of a call of its own. A server
    that cannot open it keeps nothing of it."""

    def declared(app: Mainspring) -> None:
        @app.task(remote=True, redact=["number"], retry=ONCE)
        def hidden(number: str) -> str: ...  # type: ignore[empty-body]

        @app.task
        def why(outcome: Outcome[str]) -> str:
            return str(outcome.failure)

        @app.process
        def hides(number: str) -> Promise[str]:
            return why(hidden(number))

    async with app_with(mainspring_url, k1=NEW) as app:
        declared(app)
        step = await app.processes["hides"].start(f"{C}-1")
        calls = [await app.tasks["hidden"].enqueue(f"{C}-{n}") for n in (2, 4, 5, 6)]
        await run_until_idle(app)
        pulled = {t.args["number"]: t for t in await app.remote.pull("hidden", limit=5)}
        for n in (1, 2):
            await app.remote.fail(pulled[f"{C}-{n}"].ticket, f"no cover for {C}-{n}")
        await run_until_idle(app)
        assert "no cover for [redacted]" in await step.result(timeout=1)
        with pytest.raises(TaskFailed, match=r"no cover for \[redacted\]"):
            await calls[0].result(timeout=1)
        error = Failure("Declined", f"no cover for {C}-5")
        await app.remote.decide(pulled[f"{C}-5"].ticket, Decision(error=error))
        with pytest.raises(TaskFailed, match=r"no cover for \[redacted\]"):
            await calls[2].result(timeout=1)
        [ticket] = await app.remote.desk().open([pulled[f"{C}-6"].ticket])
        assert ticket is not None
        postponed = GivenBack(60.0, f"{C}-6 is asked for later")
        await app.remote.desk().settle([Settling(ticket, postponed, UUID(int=1))])
        with psycopg.connect(mainspring_url) as connection:
            told = "select split_part(error, E'\\n', 1) from mainspring.visit where id = %s"
            [error_text] = connection.execute(told, [calls[3].id]).fetchone() or [None]
        assert error_text == "Postponed: (encrypted with key 'k1')"
        async with Mainspring(mainspring_url) as keyless:
            declared(keyless)
            await keyless.remote.fail(pulled[f"{C}-4"].ticket, f"no cover for {C}-4")
        with pytest.raises(TaskFailed) as unknown:
            await calls[1].result(timeout=1)
        assert C not in str(unknown.value)
