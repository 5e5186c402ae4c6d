"""What a newcomer meets at the command line: which database it is, what is shown, what Ctrl-C does."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.cli import log, main
from mainspring.cli.entity import _reason
from mainspring.db.database import Database
from mainspring.entities.operate.why import Queued
from mainspring.entities.outside.queue import Entry
from mainspring.phrases import instant
from visits import NOON, QUEUE

APP = "from mainspring import Mainspring\napp = Mainspring()\n"


class TestDatabase:
    @pytest.mark.parametrize(
        "command",
        ["status", "status --watch", "doctor", "queues list", "processes list", "tasks enqueue x"],
    )
    def test_a_command_that_asks_makes_none(self, cli, module, tmp_path, command):
        module("quiet_shop", APP)

        answer = cli(*command.split(), "--app", "quiet_shop")

        assert answer.code == 2
        assert answer.err == (
            "mainspring: no database is named, and there is no private one in "
            f"{tmp_path}/.mainspring: give --url, set MAINSPRING_URL, or go to the directory in which "
            "your program or worker runs (that makes one)\n"
        )
        assert not (tmp_path / ".mainspring").exists()

    def test_nor_does_the_start_of_a_process(self, cli, module, tmp_path):
        module("quiet_orders", f"{APP}\n@app.process\ndef order(n: int) -> int: return n\n")

        answer = cli("processes", "start", "order", '{"n": 1}', "--app", "quiet_orders")

        assert (answer.code, answer.out) == (2, "")
        assert not (tmp_path / ".mainspring").exists()

    def test_it_is_named_without_its_password(self, cli, database_url):
        name = Database(database_url).shown

        for command in ("status", "doctor"):
            assert name in cli(command, "--url", database_url).out.splitlines()[0]
        assert name in cli("status", "--json", "--url", database_url).json()["database"]
        assert f"{name}: the schema" in cli("migrate", "--url", database_url).out

    def test_what_is_not_found_says_where_it_was_looked_for(self, cli, database_url):
        answer = cli("operations", "show", "7", "--url", database_url)

        assert answer.code == 4
        assert f" (looked in {Database(database_url).shown})\n" in answer.err
        assert answer.err.count("\n") == 1


class TestApplication:
    @pytest.mark.parametrize(
        ("place", "advice"),
        [
            ("shop.py", "name its module: shop:app"),
            ("pages/shop.py:engine", "name its module: pages.shop:engine"),
            ("../shop.py", "name its module, shop:app, from the directory .."),
            ("/srv/shop.py", "name its module, shop:app, from the directory /srv"),
        ],
    )
    def test_a_file_is_not_a_module(self, cli, place, advice):
        answer = cli("worker", place)

        assert (answer.code, answer.err) == (2, f"mainspring: {place!r} is a file; {advice}\n")

    def test_a_directory_is_not_a_module(self, cli, tmp_path, monkeypatch):
        (tmp_path / "shop_of_files").mkdir()
        monkeypatch.chdir(tmp_path)

        assert cli("worker", "shop_of_files:app").err == (
            f"mainspring: 'shop_of_files' (of 'shop_of_files:app') is the directory "
            f"{tmp_path}/shop_of_files, not a module: go into it, or name a module in it, as "
            "shop_of_files.MODULE:app\n"
        )

    @pytest.mark.parametrize("command", ["status", "doctor", "why", "history", "metrics"])
    def test_an_application_that_is_an_option_elsewhere(self, cli, command):
        answer = cli(command, *["a", "b"] * (command == "why"), "shop:app")

        assert answer.code == 2
        assert "the application is given here as --app shop:app" in answer.err

    def test_a_wrong_declaration_is_found_at_its_own_line(self, cli, module, tmp_path):
        module("wrong_shop", f"{APP}\n@app.task(timeout='30s')\ndef charge() -> None: ...\n")

        answer = cli("worker", "wrong_shop")

        assert answer.code == 2
        assert answer.err.endswith(f"got '30s' at {tmp_path}/wrong_shop.py:4\n")

    def test_what_the_server_refuses_is_one_line_too(self, cli, monkeypatch):
        def refused(**_):
            raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")

        monkeypatch.setattr(main, "cli", refused)
        answer = cli("migrate")

        assert answer.code == 1
        assert answer.err == "mainspring: canceling statement due to lock timeout\n"

    def test_findings_of_a_check_are_told_once(self, spawn, module):
        """R15"""
        module(
            "restless_shop",
            f"""
from mainspring.reactive import fresh
{APP}
loaded = app.data("sales").param("loaded", external=True)

@app.task(when=fresh(loaded, "1h"))
def report() -> None: ...
""",
        )

        out, err = spawn("check", "restless_shop").communicate(timeout=60)

        assert (out + err).count("MS101") == 1


class TestShown:
    def test_the_engine_s_own_queues_are_shown_while_something_is_in_them(self, cli, database_url):
        async def work() -> None:
            async with Mainspring(database_url) as app, app.worker():
                pass

        asyncio.run(work())

        assert "mainspring." not in cli("queues", "list", "--url", database_url).out
        assert "mainspring.check" in cli("queues", "list", "--json", "--url", database_url).out

    def test_a_line_has_what_people_need(self, capsys, own_logging):
        """T12"""
        log.configure("info", json=False)
        facts = {"attempt": 3, "id": "i-1", "key": "i-1", "queue": "charge", "run": 10**18}
        facts |= {"worker": "f6988a2c-9617-4633", "outcome": "parked", "duration_ms": 0.5}
        facts["error"] = 'ValueError: no\n  File "shop.py", line 9'

        logging.getLogger("mainspring").error("run.ended", extra=facts)
        started = {"queues": ["charge", "mainspring.audit"], "pool": "default"}
        logging.getLogger("mainspring").info("worker.started", extra=started)

        for queue in ("mainspring.check", "mainspring.run.default"):
            logging.getLogger("mainspring").info("run.started", extra={"queue": queue})

        ended, frame, begun, ran = capsys.readouterr().err.splitlines()
        assert ended.split("Z ", 1)[1] == (
            "[error] run.ended            queue=charge key=i-1 attempt=3 outcome=parked "
            "error='ValueError: no' duration_ms=0.5 worker=f6988a2c"
        )
        assert frame == '  File "shop.py", line 9'
        assert begun.endswith("worker.started       queues=charge pool=default")
        assert "mainspring.run.default" in ran  # a reactive task's; checks are the engine's own

    def test_an_error_stands_once_in_a_cell(self, cli, database_url, visits):
        long = "ValueError: " + "x" * 300
        entry = Entry("ad/Score", "Score", "live", NOON, "scheduled", 2, f"{long}\n  File ...")
        visits.offer("parked")
        visits.change("parked", parked_at=visits.now(), error="ValueError: no", attempt=9)

        told = f"failed 2 times: {long}"
        assert _reason(Queued(entry, "backoff", told, "")) == f"backoff: {told}"
        waits = _reason(Queued(entry, "paused", "the queue is paused", ""))
        assert waits.startswith("paused: the queue is paused (ValueError: xxx")
        assert cli("parked", "groups", "--url", database_url).out.count("ValueError") == 1

    def test_times_have_one_form(self, cli, database_url, visits):
        visits.offer("parked")
        visits.change("parked", parked_at=visits.now(), error="ValueError: no", attempt=9)

        shown = cli("why", QUEUE, "parked", "--url", database_url).out

        assert f"parked since {instant(visits.now())[:13]}" in shown
        assert "+00:00" not in shown


class TestInterrupted:
    @pytest.mark.parametrize("module", ["typer", "mainspring.host"])
    def test_while_everything_is_imported(self, module):
        """T10: without a word: nothing has begun."""
        program = (
            "import os, signal, sys\n"
            "sys.argv = ['mainspring', 'status']\n"
            "class Hook:\n"
            "    def find_spec(self, name, *_):\n"
            f"        if name == '{module}': os.kill(os.getpid(), signal.SIGINT)\n"
            "sys.meta_path.insert(0, Hook())\n"
            "from mainspring_cli import run\n"
            "run()\n"
        )

        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

        assert (done.returncode, done.stderr) == (-signal.SIGINT, "")

    def test_before_a_command_has_begun(self, cli, monkeypatch):
        def interrupted(**_):
            raise KeyboardInterrupt

        monkeypatch.setattr(main, "cli", interrupted)

        assert (cli("status").code, cli("status").err) == (130, "")

    def test_while_a_worker_process_is_imported(self, spawn, module):
        """T10: it is told by SIGTERM, which leaves no traceback."""
        module(
            "slow_shop",
            f"""
import os, signal, sys, time
{APP}
if "child" in sys.argv[0]:
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
""",
        )

        process = spawn("worker", "slow_shop")
        _, err = process.communicate(timeout=60)

        assert process.returncode == 0
        assert "worker.process_ended" in err
        assert "Traceback" not in err
