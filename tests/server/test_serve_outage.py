"""The database goes away, or lets the server's role do little: callers are told, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
import server_app
from served_process import Served
from test_serving import health

from mainspring.client import RemoteError, ServerAway, TaskRef
from mainspring.client import tasks as requests
from mainspring.db.schema import rights
from mainspring.embedded.server import EmbeddedServer
from roles import roles

SERVICE = "mainspring.v1.TaskService"


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server that the test may stop."""
    chosen = os.environ.get("MAINSPRING_TEST_BIN")
    with TemporaryDirectory(prefix="mainspring-outage-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        server = EmbeddedServer(
            Path(folder), bin_dir=Path(chosen) if chosen else None, settings={"fsync": "off"}
        )
        server.start()
        server.create_database("mainspring")
        yield server
        server.kill()


def test_a_database_that_is_away_is_waited_for(own_server: EmbeddedServer, tmp_path: Path) -> None:
    """Alive is not ready; a call is repeated under its id until the database is back; a wait goes on."""
    url = own_server.url("mainspring")

    async def register() -> None:
        server_app.app.redirect(url)
        await server_app.app.migrate()
        await server_app.app.close()

    asyncio.run(register())
    served = Served(url, tmp_path)
    try:
        served.start()
        client = served.client(timeout=90)
        first = client.tasks.enqueue("mail.note", {"text": "x"})
        states: list[str] = []
        waiting = threading.Thread(
            target=lambda: states.append(client.tasks.get(first, wait=55).state)
        )
        waiting.start()
        own_server.stop(fast_seconds=5)
        once = requests.enqueue([requests.call_of("mail.note", {"text": "y"}, {})])
        with pytest.raises(ServerAway, match="the database is not available just now") as away:
            client.send(replace(once, repeatable=False))
        assert away.value.status == "UNAVAILABLE"
        assert health(served.address, "") == "SERVING"
        while health(served.address, SERVICE) != "NOT_SERVING":
            pass
        found: list[TaskRef] = []
        sending = threading.Thread(
            target=lambda: found.append(client.tasks.enqueue("mail.note", {"text": "z"}))
        )
        sending.start()
        own_server.start()
        sending.join(90)
        assert [call.is_new for call in found] == [True]
        while health(served.address, SERVICE) != "SERVING":
            pass
        assert client.tasks.cancel(first) == "cancelled"
        waiting.join(60)
        assert states == ["cancelled"]
    finally:
        served.close()


def test_a_server_whose_role_only_enqueues(
    registered: str, tmp_path: Path, new_token: Callable[..., str]
) -> None:
    """As the guide says: what its role may not do is told, without the database's words."""
    token = new_token("admin")
    with roles(registered) as cast:
        name = cast.make("door")
        cast.run(rights.enqueue(name) + f"grant select on mainspring.api_token to {name};")
        served = Served(cast.address("door"), tmp_path)
        try:
            served.start(place=None)
            client = served.client(token=token)
            call = client.tasks.enqueue("mail.note", {"text": "x"})
            again = client.tasks.enqueue("mail.note", {"text": "x"}, id=call.id)
            assert (call.is_new, again.is_new) == (True, False)
            assert client.tasks.get(call).state == "waiting"
            with pytest.raises(RemoteError) as denied:
                client.params.get(["dwh.orders.rows"])
            assert (denied.value.code, denied.value.status) == (
                "missing_rights",
                "FAILED_PRECONDITION",
            )
            assert "param" not in str(denied.value)
        finally:
            served.close()
        with psycopg.connect(registered) as connection:
            assert connection.execute("select count(*) from mainspring.visit").fetchone() == (1,)
