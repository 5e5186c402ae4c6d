"""T13: `mainspring worker --metrics` answers for all of its processes."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request

import psycopg

APP = """
    from mainspring import Mainspring
    app = Mainspring()

    @app.task
    async def greet(name: str) -> None: ...
"""


def scraped(address: str) -> str:
    with urllib.request.urlopen(f"{address}", timeout=20) as answer:
        return answer.read().decode()


def test_the_endpoint_has_counters_of_all_processes_beside_the_gauges(
    module, spawn, cli, database_url
):
    """T13: what is counted is there about a second later."""
    module("shop", APP)
    assert cli("migrate", "shop:app", "--url", database_url).code == 0
    process = spawn("worker", "shop:app", "--processes", "2", "--metrics", "127.0.0.1:0")
    said = process.stdout.readline()
    address = re.search(r"http://\S+/metrics", said)[0]
    with psycopg.connect(database_url, autocommit=True) as connection:
        for _ in range(20):
            connection.execute(
                "select mainspring.enqueue('greet', %s)", (json.dumps({"name": "a"}),)
            )
    deadline = time.monotonic() + 60
    wanted = 'mainspring_runs_total{queue="greet",outcome="done"} 20'
    while wanted not in (text := scraped(address)) and time.monotonic() < deadline:
        pass
    assert wanted in text
    assert 'mainspring_workers{pool="default"} 2' in text
    assert text.count("# EOF") == 1
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
