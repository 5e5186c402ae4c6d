"""An answer as it is written: in parts, so that who reads slowly holds little of it, and not for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import msgspec

from mainspring.server.http import problems
from mainspring.server.http.problems import HttpRefused
from mainspring.server.http.request import Send
from mainspring.server.http.routes.route import Told

log = logging.getLogger("mainspring")
JSON = "application/json"
SEND_SECONDS = 30.0
PART_BYTES = 64 * 1024
_ALWAYS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class HttpAnswer(msgspec.Struct, frozen=True):
    """An answer as it is sent."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def as_json(told: Told) -> HttpAnswer:
    """What a route tells."""
    body = b"" if told.body is None else msgspec.json.encode(told.body)
    kind = {} if told.body is None else {"content-type": JSON}
    return HttpAnswer(told.status, body, {**kind, **told.headers})


def as_problem(refused: HttpRefused) -> HttpAnswer:
    """Why a request was not done."""
    body = msgspec.json.encode(problems.details(refused))
    return HttpAnswer(
        refused.status, body, {"content-type": problems.MEDIA_TYPE, **refused.headers}
    )


async def write(answer: HttpAnswer, send: Send, name: str) -> None:
    """Send it; who does not read it in time is left."""
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await _send(answer, send)
    except TimeoutError:
        log.info("serve.slow_reader", extra={"call": name})


async def _send(answer: HttpAnswer, send: Send) -> None:
    headers = {**_ALWAYS, **answer.headers}
    if answer.status not in (204, 304):
        headers["content-length"] = str(len(answer.body))
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()],
        }
    )
    parts = [answer.body[n : n + PART_BYTES] for n in range(0, len(answer.body), PART_BYTES)]
    for part in parts[:-1]:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": parts[-1] if parts else b""})
