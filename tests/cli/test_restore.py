"""The page "restoring a backup" followed step by step, with a dump and its restore."""

import asyncio
import os
import re
import subprocess
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from mainspring import Mainspring, Promise, ReactiveRun, Untouched, Update
from mainspring.embedded.binaries import binaries
from mainspring.reactive import new_data
from mainspring.testing import Clock, TestServer, run_until_idle

BIN = Path(os.environ["MAINSPRING_TEST_BIN"]) if "MAINSPRING_TEST_BIN" in os.environ else None
PAGE = Path(__file__).parents[2] / "docs" / "operate" / "restore.md"
EFFECTS = ["called", "decided", "reacted", "staged", "ticked"]
TABLE = "create table item (id bigint primary key, grade int, version bigint not null default 1)"


@dataclass(frozen=True)
class Item:
    id: int
    grade: int | None = None
    version: int = 1


def application(url: str, effects: list[str]) -> Mainspring:
    """Something of every layer that has an effect."""
    app = Mainspring(url)
    loaded = app.data("raw").param("loaded", kind="integer", external=True)
    items = app.entities("item", table="public.item", model=Item)

    @app.task
    async def call() -> None:
        effects.append("called")

    @app.task(cron="0 3 * * *")
    async def tick() -> None:
        effects.append("ticked")

    @app.task(when=new_data(loaded))
    async def react(run: ReactiveRun) -> None:
        effects.append("reacted")

    @app.task
    async def step() -> int:
        return 1

    @app.process
    def decide() -> Promise[int]:
        effects.append("decided")
        return step()

    @items.stage(reads=["grade"], writes=["grade"])
    class Grade:
        def should_process(self, item: Item, state: None) -> bool:
            return item.grade is None

        async def process(self, item: Item, state: None) -> Untouched | Update:
            effects.append("staged")
            return Update(grade=1)

    return app


async def fill(app: Mainspring, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
    await app.migrate()
    await run_until_idle(app)  # cron's next tick stands, the trigger is known
    await app.tasks["call"].enqueue()
    await app.processes["decide"].start()
    await app.advance("raw.loaded", 7)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("insert into item (id) values (1)")


def restore(backup: Path, url: str, into: str) -> None:
    programs = binaries(BIN)
    subprocess.run([programs / "pg_dump", "-Fc", "-f", backup, url], check=True)
    subprocess.run([programs / "pg_restore", "--no-owner", "-d", into, backup], check=True)


@pytest.fixture
def other_url(mainspring_server: TestServer):
    with mainspring_server.database(migrated=False) as url:
        yield url


async def test_a_restored_backup_starts_paused_and_goes_on_when_it_is_told(
    cli, database_url: str, other_url: str, clock: Clock, tmp_path: Path
) -> None:
    async with application(database_url, []) as app:
        await fill(app, database_url)
        await app.operator.pause("step")
    restore(tmp_path / "backup", database_url, other_url)

    paused = await asyncio.to_thread(cli, "queues", "pause", "--all", "--url", other_url)

    assert paused.out == (
        "every queue is paused\npaused before: step; to leave them so, resume --all --keep step\n"
    )
    await Clock(other_url).advance(timedelta(days=1))  # a tick of cron is due too
    effects: list[str] = []
    async with application(other_url, effects) as app:
        await run_until_idle(app)
        assert effects == []

        order = ("queues", "resume", "--all", "--keep", "step", "--url", other_url)
        resumed = await asyncio.to_thread(cli, *order)

        assert resumed.out == "every queue goes on, except step\n"
        await run_until_idle(app)
        assert sorted(effects) == EFFECTS
        assert {q.name for q in await app.operator.queues() if q.paused_at} == {"step"}


async def test_without_the_pause_it_runs_what_is_due(
    database_url: str, other_url: str, tmp_path: Path
) -> None:
    """What the page warns of: all but the tick, which is not due yet."""
    async with application(database_url, []) as app:
        await fill(app, database_url)
    restore(tmp_path / "backup", database_url, other_url)
    effects: list[str] = []

    async with application(other_url, effects) as app:
        await run_until_idle(app)

    assert sorted(effects) == [effect for effect in EFFECTS if effect != "ticked"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pause"], "name one queue, or give --all"),
        (["resume", "step", "--all"], "name one queue, or give --all"),
        (["resume", "step", "--keep", "call"], "--keep goes with --all"),
        (["resume", "--all", "--keep", "stepp"], "no queue is named 'stepp'"),
    ],
)
def test_a_slip_resumes_nothing(cli, database_url: str, arguments: list[str], said: str) -> None:
    answer = cli("queues", *arguments, "--url", database_url)

    assert answer.code != 0
    assert said in answer.err


def test_the_page_names_commands_that_there_are(cli) -> None:
    named = set(re.findall(r"`mainspring ([a-z]+(?: [a-z-]+)?)", PAGE.read_text("utf-8")))

    assert {"queues pause", "queues resume"} <= named
    for command in named:
        assert cli(*command.split(), "--help").code == 0, command
