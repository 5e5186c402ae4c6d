"""`mainspring sources`, on what a worker has read of a real stream."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import nats as nats_client

from brokers import nats_server
from mainspring import Mainspring
from mainspring.sources import Enqueue, Nats
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS


async def taken_in(url: str, address: str) -> None:
    """A worker reads four records, the second of which is bad, and stops."""
    async with Mainspring(url) as app:

        @app.task
        async def charge(order: int) -> None: ...

        broker = Nats(address, stream="ORDERS", subjects="orders.0")
        app.source("orders", broker, to=lambda r: Enqueue(charge.bind(r.json())), on_error="reject")
        connection = await nats_client.connect(address)
        stream = connection.jetstream()
        await stream.add_stream(name="ORDERS", subjects=["orders.>"])
        for value in (1, "4111", 2, 3):
            await stream.publish("orders.0", json.dumps(value).encode())
        await connection.close()

        async def is_done() -> bool:
            found = await app.operator.sources.partitions()
            return [(each.next, each.rejects) for each in found] == [(5, 1)]

        async with app.worker(**FAST_SETTINGS):
            await wait_until(is_done, 30)


def test_a_source_is_shown_paused_moved_and_its_rejects_are_dropped(
    cli, database_url: str, tmp_path: Path
) -> None:
    with nats_server(tmp_path / "nats") as server:
        asyncio.run(taken_in(database_url, server.url))

    def on(*arguments: str):
        return cli("sources", *arguments, "--url", database_url)

    shown = on("list")
    assert "ORDERS/orders.0" in shown.out
    [partition] = on("show", "orders", "--json").json()
    assert (partition["next"], partition["rejects"], partition["state"]) == (5, 1, "waiting")
    unknown = on("show", "ordrs")
    assert (unknown.code, "did you mean 'orders'?" in unknown.err) == (4, True)
    assert "is paused" in on("pause", "orders").out
    [partition] = on("show", "orders", "--json").json()
    assert partition["state"] == "paused"
    assert "goes on" in on("resume", "orders").out

    [rejected] = on("rejects", "list", "orders", "--json").json()
    assert (rejected["offset"], rejected["bytes"]) == (2, 6)
    assert "4111" not in str(rejected)
    assert "1 record of 'orders' to be tried again" in on("rejects", "retry", "orders").out
    assert "1 record of 'orders' dropped" in on("rejects", "drop", "orders").out

    assert "from earliest on: ORDERS/orders.0" in on("seek", "orders", "--to", "earliest").out
    [partition] = on("show", "orders", "--json").json()
    assert partition["start"] == "earliest"
    moved = on("seek", "orders", "--partition", "ORDERS/orders.0", "--to", "3")
    assert "from 3 on" in moved.out
    wrong = on("seek", "orders", "--to", "yesterday")
    assert wrong.code != 0
    assert "--to must be an offset, earliest, latest or a time" in wrong.err
    unknown = on("pause", "order")
    assert unknown.code != 0
    assert "no source is named 'order'; did you mean 'orders'?" in unknown.err
