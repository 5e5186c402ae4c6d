"""Pages of processes of one type, newest first; a cursor says where the next one begins."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from uuid import UUID

import msgspec

from mainspring.errors import InvalidRequest
from mainspring.processes.operate.search import FoundProcess, ProcessFilter, search
from mainspring.server.access.caller import Caller
from mainspring.server.handlers import checks
from mainspring.server.handlers.store import Store
from mainspring.v1 import process_service_pb2

USUAL = 50
MOST = 500
CURSOR_BYTES = 200


async def list_processes(
    store: Store, caller: Caller, request: process_service_pb2.ListProcessesRequest
) -> process_service_pb2.ListProcessesResponse:
    """A page; one row more than asked for says whether there is another."""
    caller.check("process.read", checks.text("type", request.type))
    limit = request.limit or USUAL
    if not 1 <= limit <= MOST:
        raise InvalidRequest("limit", f"must be 1 to {MOST}, got {limit}")
    wanted = ProcessFilter(
        type=request.type,
        state=checks.optional_text("state", request.state) or None,
        attrs=checks.json_object("attrs_json", request.attrs_json) or None,
    )
    before = _position(request.cursor) if request.cursor else None
    async with store.transaction() as tx:
        found = await search(tx, wanted, before=before, limit=min(limit + 1, MOST))
    more = len(found) > limit or len(found) == MOST
    page = found[:limit]
    return process_service_pb2.ListProcessesResponse(
        processes=map(_told, page), next_cursor=_cursor(page[-1]) if more else ""
    )


def _told(found: FoundProcess) -> process_service_pb2.ListedProcess:
    told = process_service_pb2.ListedProcess(
        id=found.id,
        key=found.key,
        state=found.state,
        attrs_json=msgspec.json.encode(found.attrs).decode(),
        parked=found.parked,
    )
    told.created_at.FromDatetime(found.created_at)
    if found.ended_at is not None:
        told.ended_at.FromDatetime(found.ended_at)
    return told


def _cursor(last: FoundProcess) -> str:
    return urlsafe_b64encode(msgspec.json.encode(last.position)).decode().rstrip("=")


def _position(cursor: str) -> tuple[datetime, str]:
    text = checks.optional_text("cursor", cursor, CURSOR_BYTES)
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        at, id = msgspec.json.decode(raw, type=tuple[datetime, UUID])
    except ValueError:  # of base64, JSON and UUIDs
        raise InvalidRequest("cursor", "must be the next_cursor of a page") from None
    if at.tzinfo is None:
        raise InvalidRequest("cursor", "must be the next_cursor of a page")
    return at, str(id)
