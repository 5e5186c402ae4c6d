"""Who waits for an answer, or reads a stream, when his token is revoked."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from served_process import Served

from mainspring.client import RemoteError

ROWS = "dwh.orders.rows"
LONG = 60.0


def revoke(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("update mainspring.api_token set revoked_at = now()")


def test_a_pull_that_waits_ends_and_holds_nothing(
    served: Served, new_token: Callable[..., str]
) -> None:
    served.start()
    actor = served.client(token=new_token("pull:card.charge"))
    actor.actors.pull("card.charge")  # it is believed from now on
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(actor.actors.pull, "card.charge", wait=LONG)
        revoke(served.url)
        with pytest.raises(RemoteError, match="has expired or was revoked") as ended:
            waiting.result(LONG / 2)
    assert (ended.value.code, ended.value.status) == ("unauthenticated", "UNAUTHENTICATED")
    client = served.client()
    client.tasks.enqueue("card.charge", {"order": 4})
    [task] = client.actors.pull("card.charge", wait=10).tasks
    assert task.attempt == 1


def test_a_stream_ends_before_it_tells_more(served: Served, new_token: Callable[..., str]) -> None:
    served.start()
    watched = iter(served.client(token=new_token("param.read")).params.watch([ROWS]))
    assert next(watched)[0].revision == 0
    revoke(served.url)
    with pytest.raises(RemoteError, match="has expired or was revoked"):
        next(watched)
