"""The console's ASGI application: which path is which page, and what every answer carries.

It serves below wherever it is mounted. In this order: is the request one that may be; who asks; the page.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from uuid import uuid4

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from mainspring.console import live, orders, pages
from mainspring.console.draw import environment, shown_as_json
from mainspring.console.guard import HEADERS, refusal
from mainspring.console.look import Moved, Page, Visitor
from mainspring.console.orders.form import read_form
from mainspring.console.orders.undo import read_undo
from mainspring.console.snapshot import Snapshot
from mainspring.console.viewer import Authenticate, LogIn, Viewer, anybody
from mainspring.errors import (
    DatabaseUnavailable,
    Forbidden,
    InvalidArguments,
    InvalidSetting,
    MainspringError,
    NotFound,
)

if TYPE_CHECKING:
    from mainspring.app import Mainspring

log = logging.getLogger("mainspring")
COOKIE = "mainspring_console"
FOREVER = "public, max-age=31536000, immutable"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Console:
    """The console of an application: `Mount("/mainspring", Console(app, authenticate=...))`.

    `authenticate` says who looks, of each request; None: it is not served. Without it everybody who
    reaches it may do everything, so give one wherever others can. `log_in` makes a page that asks for a
    token and keeps it in a cookie. `read_only`: nobody may act. `hosts`: by which names it is asked for.
    """

    def __init__(
        self,
        app: Mainspring,
        *,
        authenticate: Authenticate = anybody,
        log_in: LogIn | None = None,
        read_only: bool = False,
        hosts: Collection[str] | None = None,
    ) -> None:
        self._app = app
        self._authenticate = authenticate
        self._log_in = log_in
        self._read_only = read_only
        self._hosts = None if hosts is None else frozenset(name.lower() for name in hosts)
        self._snapshot = Snapshot(app)
        self._streams = live.Streams(self._snapshot)
        self._asgi = Starlette(routes=self._routes(), exception_handlers={404: self._nowhere})

    def _routes(self) -> list[Route]:
        found = [Route("/static/{name:path}", _static), Route("/live", self._live)]
        if self._log_in is not None:
            found += [
                Route("/login", self._ask_token),
                Route("/login", self._take_token, methods=["POST"]),
                Route("/logout", self._log_out, methods=["POST"]),
            ]
        for path, page in pages.PAGES.items():
            found.append(Route(path, self._page(page)))
        found.append(Route("/plans/{action}", self._page(orders.plan)))
        found.append(Route("/orders/{action}", self._order, methods=["POST"]))
        return found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] += [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in given
                ]
            await send(message)

        query = scope.get("query_string", b"")
        if refused := refusal(request.method, request.headers, query, self._hosts):
            status, why = refused
            page = Page("error.html", "Not served", {"text": why, "remedy": ""}, status=status)
            await self._drawn(request, page, None)(scope, receive, with_headers)
            return
        await self._asgi(scope, receive, with_headers)

    async def _viewer(self, request: Request) -> Viewer | None:
        viewer = await self._authenticate(request)
        return viewer.read_only() if viewer and self._read_only else viewer

    def _page(
        self, page: Callable[[Visitor], Awaitable[Page]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def served(request: Request) -> Response:
            return await self._served(request, page)

        return served

    async def _served(
        self, request: Request, page: Callable[[Visitor], Awaitable[Page]]
    ) -> Response:
        try:
            viewer = await self._viewer(request)
        except DatabaseUnavailable as error:
            return self._drawn(request, _failed(error, request), None)
        if viewer is None:
            return self._stranger(request)
        look = Visitor(request, self._app, viewer, self._snapshot)
        try:
            return self._drawn(request, await page(look), look)
        except Moved as moved:
            return RedirectResponse(self._root(request) + moved.path, 303)
        except Exception as error:
            failed = _failed(error, request)
            if request.query_params.get("back"):  # of an order, or of its plan
                back = orders.way_back(look, request.query_params)
                failed = replace(failed, values={**failed.values, "back": back})
            return self._drawn(request, failed, look)

    async def _examine(self) -> None:
        with suppress(MainspringError, OSError):
            await self._snapshot.examine()

    async def _nowhere(self, request: Request, _: Exception) -> Response:
        return await self._served(request, _no_page)

    async def _order(self, request: Request) -> Response:
        return await self._served(request, orders.take)

    async def _live(self, request: Request) -> Response:
        if await self._viewer(request) is None:
            return Response(status_code=204)  # a stream is not asked for again after that
        return self._streams.answer(request)

    # -- who

    def _stranger(self, request: Request) -> Response:
        if self._log_in is None:
            page = Page("error.html", "Not for you", {"text": _WHO, "remedy": ""}, status=401)
            return self._drawn(request, page, None)
        path = request.url.path.removeprefix(self._root(request)) or "/"
        if request.url.query:
            path += f"?{request.url.query}"
        to = f"{self._root(request)}/login?{urlencode({'next': path})}"
        return RedirectResponse(to, 303)

    async def _ask_token(self, request: Request) -> Response:
        if token := request.query_params.get("token"):  # the address that `serve` prints
            path = request.query_params.get("next", "/")
            return await self._admit(request, token, path, _USED)
        page = Page(
            "login.html", "Log in", {"next": request.query_params.get("next", "/"), "complaint": ""}
        )
        return self._drawn(request, page, None)

    async def _take_token(self, request: Request) -> Response:
        form = await read_form(request)
        return await self._admit(request, form.get("token", ""), form.get("next", "/"), _NO_TOKEN)

    async def _admit(self, request: Request, token: str, path: str, otherwise: str) -> Response:
        assert self._log_in is not None
        if (kept := await self._log_in(token.strip())) is None:
            values = {"next": path, "complaint": otherwise}
            return self._drawn(request, Page("login.html", "Log in", values, status=401), None)
        is_ours = path.startswith("/") and not path.startswith(("//", "/\\"))
        answer = RedirectResponse(self._root(request) + (path if is_ours else "/"), 303)
        answer.set_cookie(
            COOKIE,
            kept,
            path=self._root(request) or "/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _log_out(self, request: Request) -> Response:
        answer = RedirectResponse(f"{self._root(request)}/login", 303)
        answer.delete_cookie(COOKIE, path=self._root(request) or "/")
        return answer

    # -- drawing

    @staticmethod
    def _root(request: Request) -> str:
        return str(request.scope.get("root_path", "")).rstrip("/")

    def _values(self, request: Request, page: Page, look: Visitor | None) -> dict[str, object]:
        return {
            "root": self._root(request),
            "page": page,
            "viewer": None if look is None else look.viewer,
            "now": self._snapshot.now() if look is None else look.now,
            "nav": pages.NAV,
            "here": request.url.path.removeprefix(self._root(request)) or "/",
            "has_login": self._log_in is not None,
            "said": orders.SAID.get(request.query_params.get("said", ""), ""),
            "undo": read_undo(request.query_params.get("undo", "")),
            "url": _address(request),
            **page.values,
        }

    def _drawn(self, request: Request, page: Page, look: Visitor | None) -> Response:
        if look is not None and request.query_params.get("format") == "json":
            return Response(shown_as_json(page.values), page.status, media_type="application/json")
        template = environment().get_template(page.template)
        text = template.render(self._values(request, page, look))
        after = BackgroundTask(self._examine) if page.live == "glance" else None
        return Response(text, page.status, media_type="text/html; charset=utf-8", background=after)


_NO_TOKEN = "No such token, or it has expired, or it has no scope for the console."
_USED = (
    "A link works once, and not for long. Start what printed it again, or paste a token: that of the "
    "machine is in .mainspring/token."
)
_WHO = "Whoever mounted this console does not know you. Log in there first."


async def _no_page(look: Visitor) -> Page:
    raise NotFound(f"there is no page {look.request.url.path!r}")


def _address(request: Request) -> str:
    """Where this page is, without what was said of an order."""
    kept = [(n, v) for n, v in request.query_params.multi_items() if n not in ("said", "undo")]
    return request.url.path + (f"?{urlencode(kept)}" if kept else "")


async def _static(request: Request) -> Response:
    """A file of the style, the script or what others made. Its name says its version."""
    name = request.path_params["name"]
    if "/" in name or "\\" in name:  # all of them lie in one place
        return Response("there is no such file", 404)
    place = (files("mainspring.console") / "static").joinpath(name)
    kind = KINDS.get("." + name.rpartition(".")[2])
    if kind is None or not place.is_file():
        return Response("there is no such file", 404)
    headers = {"cache-control": FOREVER if request.url.query else "no-cache"}
    return Response(place.read_bytes(), media_type=kind, headers=headers)


def _failed(error: Exception, request: Request) -> Page:
    """An error in plain words, with what to do."""
    text = str(error) or type(error).__name__
    if isinstance(error, NotFound):
        return Page("error.html", "Not found", {"text": text, "remedy": ""}, status=404)
    if isinstance(error, Forbidden):
        remedy = "Ask whoever makes the tokens for this scope."
        return Page("error.html", "Not allowed", {"text": text, "remedy": remedy}, status=403)
    if isinstance(error, DatabaseUnavailable):
        remedy = "This page looks again by itself."
        values = {"text": "The database does not answer.", "remedy": remedy, "again": True}
        return Page("error.html", "No answer", values, status=503)
    if isinstance(error, InvalidSetting | InvalidArguments):
        return Page("error.html", "That cannot be", {"text": text, "remedy": ""}, status=400)
    if isinstance(error, MainspringError):
        return Page("error.html", "Refused", {"text": text, "remedy": ""}, status=409)
    number = uuid4().hex[:12]
    log.error("console.failed", exc_info=error, extra={"number": number, "path": request.url.path})
    text = f"Something went wrong here. The log has it under {number}."
    return Page("error.html", "An error of ours", {"text": text, "remedy": ""}, status=500)
