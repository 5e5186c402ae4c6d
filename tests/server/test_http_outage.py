"""The database goes away under the HTTP server: 503 with Retry-After, and back without a restart."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from uuid import uuid4

import server_app
from http_caller import HttpCaller, caller_of
from served_process import Served
from test_serve_outage import own_server as own_server  # the fixture

from mainspring.embedded.server import EmbeddedServer

NOTE = "/v1/tasks/mail.note/calls"
BODY = {"args": {"text": "x"}}


def test_a_database_that_is_away_is_told_and_waited_for_over_http(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """Alive is not ready; a call sent again under its key is done once; a wait goes on."""
    url = own_server.url("mainspring")

    async def register() -> None:
        server_app.app.redirect(url)
        await server_app.app.migrate()
        await server_app.app.close()

    asyncio.run(register())
    served = Served(url, tmp_path)
    try:
        served.start_http()
        call, nobody = caller_of(served), HttpCaller(served.http_address, None)
        first = call("POST", NOTE, BODY).json["url"]
        states: list[str] = []
        waiting = threading.Thread(
            target=lambda: states.append(call("GET", f"{first}?wait=55").json["state"])
        )
        waiting.start()
        while b'calls_here{kind="wait"} 1' not in call("GET", "/metrics").text:
            pass
        own_server.stop(fast_seconds=5)
        key = str(uuid4())
        away = call("POST", NOTE, BODY, Idempotency_Key=key)
        assert (away.status, away.headers["retry-after"]) == (503, "1")
        assert away.code in ("not_done", "database_unavailable", "outcome_unknown")
        assert "port" not in away.json["detail"]
        assert nobody("GET", "/livez").status == 200
        while (ready := nobody("GET", "/readyz")).status != 503:
            pass
        assert (ready.code, ready.headers["retry-after"]) == ("not_ready", "1")
        metrics = call("GET", "/metrics")
        assert (metrics.status, b"mainspring_server_ready 0" in metrics.text) == (200, True)
        own_server.start()
        while (back := call("POST", NOTE, BODY, Idempotency_Key=key)).status == 503:
            pass
        assert back.json["id"] == key
        while nobody("GET", "/readyz").status != 200:
            pass
        assert call("POST", f"{first}/cancel").json["state"] == "cancelled"
        waiting.join(60)
        assert states == ["cancelled"]
    finally:
        served.close()
