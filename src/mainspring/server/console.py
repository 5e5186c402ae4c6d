"""The console as a server carries it: who looks is told by a token, kept in a cookie that no script reads.

`console.read` lets somebody look, `console.act:<order>` give orders. The link that the server prints
logs in once: its code is worth nothing afterwards.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from starlette.requests import HTTPConnection

from mainspring.app import Mainspring
from mainspring.console import Console, Viewer
from mainspring.console.app import COOKIE
from mainspring.console.orders import ORDERS
from mainspring.errors import Unauthenticated
from mainspring.server.access.caller import Caller
from mainspring.server.access.callers import Callers
from mainspring.server.http.request import Event, Receive, Send

PLACE = "/console"


def new_code() -> str:
    """What logs in whoever started a server, once."""
    return secrets.token_urlsafe(24)


def log_in_path(code: str) -> str:
    """Where a code logs in."""
    return f"{PLACE}/login?token={code}"


class CarriedConsole:
    """The console of a server, below `/console`."""

    def __init__(
        self,
        app: Mainspring,
        callers: Callers,
        *,
        local_token: str | None,
        code: str | None,
        hosts: Sequence[str] | None,
        open_to_all: bool,
    ) -> None:
        self._callers = callers
        self._local_token = local_token
        self._code = None if local_token is None else code or new_code()
        self._console = Console(
            app,
            authenticate=self._authenticate,
            log_in=None if open_to_all else self._log_in,
            hosts=hosts,
        )

    @property
    def path(self) -> str:
        """Where it is; with what logs in whoever started the server, once."""
        return f"{PLACE}/" if self._code is None else log_in_path(self._code)

    def has(self, path: str) -> bool:
        """Whether a path is one of the console's."""
        return path in ("/", PLACE) or path.startswith(f"{PLACE}/")

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["path"] in ("/", PLACE):
            headers = [(b"location", f"{PLACE}/".encode()), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 303, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._console({**scope, "root_path": PLACE}, receive, send)

    async def _authenticate(self, request: HTTPConnection) -> Viewer | None:
        token = request.cookies.get(COOKIE)
        given = request.headers.get("authorization") or (f"Bearer {token}" if token else None)
        try:
            return viewer_of(await self._callers.find(given))
        except Unauthenticated:
            return None

    async def _log_in(self, text: str) -> str | None:
        if self._code is not None and secrets.compare_digest(text.encode(), self._code.encode()):
            self._code = None
            return self._local_token
        try:
            viewer = viewer_of(await self._callers.find(f"Bearer {text}"))
        except Unauthenticated:
            return None
        return text if viewer is not None else None


def viewer_of(caller: Caller) -> Viewer | None:
    """A caller at the console, if his scopes let him in."""
    may = frozenset(order for order in ORDERS if caller.scopes.allow("console.act", order))
    if not may and not caller.scopes.allow("console.read", ""):
        return None
    return Viewer(caller.name, may)
