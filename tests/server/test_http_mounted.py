"""The door mounted in somebody's own ASGI application, below a path of its choice."""

from __future__ import annotations

from pathlib import Path

import httpx

from mainspring import Mainspring
from mainspring.server.door import Door
from mainspring.server.settings import ServeSettings


async def test_a_mounted_door_serves_below_its_place(mainspring_url: str, tmp_path: Path) -> None:
    """Paths, escapes in them and tokens are as they are elsewhere; any host name is the carrier's."""
    app = Mainspring(mainspring_url)

    @app.task(name="mail.note")
    async def note(text: str) -> str:
        return text

    await app.migrate()
    token_file = tmp_path / "token"
    door = Door(app, ServeSettings(grpc=None, token_file=str(token_file)))
    transport = httpx.ASGITransport(door.asgi(), root_path="/in side")
    headers = {"Authorization": f"Bearer {token_file.read_text().strip()}"}
    async with app, door, httpx.AsyncClient(transport=transport, base_url="http://any.org") as web:
        place = "/in%20side/v1/tasks/mail.note/calls"
        made = await web.post(place, json={"args": {"text": "x"}, "key": "a/b"}, headers=headers)
        assert made.status_code == 201, made.text
        found = await web.get("/in%20side" + made.json()["url"], headers=headers)
        assert found.json()["state"] == "waiting"
        assert (await web.get("/in%20side/readyz")).text == "ready\n"
        assert (await web.get(place + "/x")).status_code == 401
