"""Every command that prints a table, on a terminal of 80 columns and of 120, with long names and ids."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from mainspring import Context, Mainspring, RetryPolicy
from mainspring.cli import main
from mainspring.operate import ParkedFilter
from mainspring.reactive import new_data
from mainspring.testing import run_until_idle

PAINT = re.compile(r"\x1b\[[0-9;]*m")
TASK = "send_order_confirmation_to_customer"  # 35 columns
KIND = "customer_address_of_delivery"
PARAM = "warehouse.customer_orders_daily.loaded_to"
GROUP = "tenant-of-the-northern-region"
KEYS = [f"01a1e9e1-03a7-7f2c-b5ce-8c3a83e6300{n}" for n in range(4)]
# Each with what must be found in one piece: an id that is to be copied, or a name.
COMMANDS = {
    "status": (TASK,),
    "queues list": (TASK,),
    "tasks list": (TASK, GROUP, *KEYS[1:3]),
    f"tasks show {KEYS[0]} --group {GROUP}": (TASK, KEYS[0]),
    f"why {TASK} {KEYS[0]} --group {GROUP}": (KEYS[0],),
    "parked list": (TASK, GROUP, KEYS[0]),
    "parked groups": (TASK,),
    "history": (TASK, KEYS[0]),
    "recurring list": (f"{TASK}.nightly",),
    "recurring show " + f"{TASK}.nightly": (TASK,),
    "operations list": ("restart_parked",),
    "operations show 1": ("restart_parked",),
    "audit": (TASK,),
    "params list": (PARAM,),
    f"params show {PARAM}": (),
    "reactive list": ("refresh_warehouse_of_customer_orders",),
    "reactive checks refresh_warehouse_of_customer_orders": (),
    "reactive seen show refresh_warehouse_of_customer_orders": (PARAM,),
    "entities list": (KIND,),
    f"entities stages {KIND}": (f"{KIND}/Geocode",),
    f"entities peek {KIND}": (KEYS[3],),
    f"entities check {KIND} {KEYS[3]}": (),
    f"why {KIND} {KEYS[3]}": (KEYS[3],),
    "processes list": ("fulfil_order_of_customer", KEYS[0]),
    "processes show " + f"{KEYS[0]}": ("fulfil_order_of_customer",),
    "processes actors": ("fulfil_order_of_customer",),
    "processes settings": ("fulfil_order_of_customer",),
    "processes repairs": (),
    "processes counters": (),
    "processes changes": (),
    "tokens create reports-of-the-northern-region --scope enqueue:*": (),
    "tokens list": ("reports-of-the-northern-region",),
}


class Terminal:
    """A pseudo-terminal of so many columns, and what was written to it."""

    def __init__(self, columns: int) -> None:
        self._master, self.slave = pty.openpty()
        size = struct.pack("HHHH", 40, columns, 0, 0)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, size)
        self._bytes = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while got := os.read(self._master, 65536):
                self._bytes += got
        except OSError:  # the other side is closed
            pass

    def lines(self) -> list[str]:
        """What is there when nobody writes any more."""
        os.close(self.slave)
        self._reader.join()
        os.close(self._master)
        return PAINT.sub("", self._bytes.decode()).replace("\r", "").splitlines()


@contextmanager
def terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Standard output is such a terminal."""
    made = Terminal(columns)
    with os.fdopen(os.dup(made.slave), "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "__stdout__", stream)  # whose width is asked for
        yield made


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_fit_a_terminal_and_break_no_id(
    columns: int, database_url: str, monkeypatch: pytest.MonkeyPatch, own_logging: None
) -> None:
    for name in ("COLUMNS", "MAINSPRING_APP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MAINSPRING_URL", database_url)
    asyncio.run(_populate(database_url))

    wrong = []
    for command, wholes in COMMANDS.items():
        with terminal(columns, monkeypatch) as shown:
            monkeypatch.setattr(sys, "argv", ["mainspring", *command.split()])
            with pytest.raises(SystemExit) as end:
                main.run()
        lines = shown.lines()

        # A sentence is one line, and a value in JSON one word, so that they can be copied.
        told = [line for line in lines if "  " in line.strip() and not line.endswith("}")]
        long = [line for line in told if len(line) > columns]
        broken = [whole for whole in wholes if not any(whole in line for line in lines)]
        if end.value.code or long or broken:
            text = "\n".join(lines)
            wrong.append(f"{command}: {end.value.code} {long} {broken}\n{text}")
    assert not wrong, "\n\n".join(wrong)


def test_a_process_of_its_own_sees_the_width_too(database_url: str) -> None:
    asyncio.run(_populate(database_url))
    shown = Terminal(80)

    subprocess.run(
        [sys.executable, "-m", "mainspring.cli.main", "parked", "list", "--url", database_url],
        stdout=shown.slave,
        check=True,
    )

    lines = shown.lines()
    assert max(map(len, lines)) <= 80
    assert any(KEYS[0] in line for line in lines)


async def _populate(url: str) -> None:
    """Something to show for each command."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "create table address (id uuid primary key, street text, version int not null default 1)"
        )
    app = Mainspring(url)
    _declare(app)
    await app.migrate()
    async with app:
        send = app.tasks[TASK]
        await send.options(key=KEYS[0], group=GROUP).enqueue(order=1)
        await app.find_process("fulfil_order_of_customer").options(id=KEYS[0]).start(1)
        loaded = app.params[PARAM]
        await app.advance(loaded, datetime(2026, 11, 19, tzinfo=UTC))
        await run_until_idle(app)
        with psycopg.connect(url) as connection:
            connection.execute("insert into address values (%s, 'a street')", (KEYS[3],))
        await app.schedules.add(f"{TASK}.nightly", send.bind(order=3), cron="0 4 * * *")
        await app.operator.pause(TASK)
        await send.options(key=KEYS[1], group=GROUP).enqueue(order=2)
        await send.options(key=KEYS[2], group=GROUP, delay=timedelta(days=3)).enqueue(order=2)
        await app.operator.restart_parked(ParkedFilter(queue=TASK), source="ann")


def _declare(app: Mainspring) -> None:
    @app.task(name=TASK, retry=RetryPolicy(attempts=1))
    async def send(ctx: Context, order: int) -> None:
        raise ValueError("the mail server of the northern region does not answer on port 587")

    @app.process
    def fulfil_order_of_customer(order: int) -> int:
        return order

    loaded = app.data("warehouse.customer_orders_daily").param("loaded_to", external=True)

    @app.task(when=new_data(loaded))
    def refresh_warehouse_of_customer_orders() -> None: ...

    kind = app.entities(KIND, table="public.address")

    @kind.stage(name="Geocode", reads=["street"])
    def geocode(entity: object) -> None: ...
