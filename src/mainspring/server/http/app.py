"""The ASGI application: one request from its first line to its answer, whatever server carries it.

In this order: is it for this host and from no foreign page; is there such a path; who asks; is the body
what it must be; the call; the answer. So nobody without a token learns more than which paths there are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from google.protobuf.message import Message

from mainspring.server.access.caller import Caller
from mainspring.server.counts import CallCounts
from mainspring.server.handlers.methods import Method
from mainspring.server.handlers.statuses import answered
from mainspring.server.http import connect, problems
from mainspring.server.http.accept import accepts, media_type
from mainspring.server.http.answer import JSON, HttpAnswer, as_json, as_problem, write
from mainspring.server.http.places import Place, Places
from mainspring.server.http.problems import HttpRefused
from mainspring.server.http.request import CallerGone, Event, HttpRequest, Receive, Send
from mainspring.server.http.routes.route import AnyRoute, HttpAsked, Routes, not_allowed
from mainspring.server.http.routes.table import ROUTES
from mainspring.server.reception import Reception

MOST_REQUESTS = 2000


class HttpApp:
    """Serves HTTP. Mounted elsewhere, it serves below that place."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        reception: Reception,
        counts: CallCounts,
        places: Places,
        hosts: Sequence[str] | None,
    ) -> None:
        """`hosts`: by which names it may be asked for; None: by any."""
        self._methods = methods
        self._reception = reception
        self._counts = counts
        self._places = places
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._routes = Routes(ROUTES)
        self._here = 0

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            return  # no lifespan of its own; a websocket that is not accepted is refused
        began = time.monotonic()
        request = HttpRequest(scope, receive)
        name = "none"
        self._here += 1
        try:
            name, answer = await self._answer(request)
        except CallerGone:
            return
        except HttpRefused as refused:
            answer = as_problem(refused)
        finally:
            self._here -= 1
        self._counts.add("http", name, str(answer.status), time.monotonic() - began)
        await write(answer, send, name)

    async def _answer(self, request: HttpRequest) -> tuple[str, HttpAnswer]:
        request.check_head()
        self._check_origin(request)
        if self._here > MOST_REQUESTS:
            raise HttpRefused(
                503, "overloaded", "too many requests are here", headers={"retry-after": "1"}
            )
        segments = request.segments
        if (place := self._places.find(request.verb, segments)) is not None:
            return place.name, await self._look(request, place)
        if (found := self._routes.find(request.verb, segments)) is not None:
            return await self._route(request, *found)
        if (method := self._methods.get(request.raw_path)) is not None and not method.is_stream:
            return method.path[1:], await self._connect(request, method)
        raise HttpRefused(
            404, "unknown_path", "there is no such path; /openapi.json has all there are"
        )

    async def _look(self, request: HttpRequest, place: Place) -> HttpAnswer:
        """Something besides the calls; some of it is for everybody."""
        if place.scope is not None:
            try:
                (await self._caller(request)).check(place.scope, place.name)
            except Exception as error:
                raise self._refused(request, error, place.name) from None
        return await place.answer()

    async def _route(
        self, request: HttpRequest, route: AnyRoute, path: Mapping[str, str]
    ) -> tuple[str, HttpAnswer]:
        try:
            return route.name, await self._call(request, route, path)
        except HttpRefused as refused:
            return route.name, as_problem(refused)

    async def _call(
        self, request: HttpRequest, route: AnyRoute, path: Mapping[str, str]
    ) -> HttpAnswer:
        try:
            caller = await self._caller(request)
            if not accepts(request.headers.get("accept", ()), JSON):
                raise HttpRefused(406, "not_acceptable", f"answers are {JSON}")
            asked = HttpAsked(path, route.read_query(request), await _body(request, route), request)
            method = self._methods[f"/mainspring.v1.{route.call}"]
            message = route.ask(asked)
            response = await self._done(method, caller, message, request)
            return as_json(route.tell(asked, response))
        except (HttpRefused, CallerGone):
            raise
        except Exception as error:
            raise self._refused(request, error, route.name, route.prefix) from None

    async def _connect(self, request: HttpRequest, method: Method) -> HttpAnswer:
        """A call in Connect's way."""
        if request.verb != "POST":
            raise not_allowed(request.verb, ["POST"])
        try:
            caller = await self._caller(request)
            form = connect.form_of(request.header("content-type"))
            message = connect.read(method, form, await request.body())
            seconds = connect.seconds_of(request.header("connect-timeout-ms"))
            return connect.written(
                await self._done(method, caller, message, request, seconds), form
            )
        except HttpRefused as refused:
            return connect.refused(refused)
        except CallerGone:
            raise
        except Exception as error:
            answer = answered(error, method.path)
            return connect.failed(answer, problems.refused_by(answer, had_token=True))

    async def _caller(self, request: HttpRequest) -> Caller:
        given = request.headers.get("authorization", ())
        return await self._reception.caller(given, request.client_names)

    @staticmethod
    def _refused(
        request: HttpRequest, error: Exception, name: str, prefix: str = ""
    ) -> HttpRefused:
        had_token = "authorization" in request.headers
        return problems.refused_by(answered(error, name), had_token=had_token, prefix=prefix)

    async def _done(
        self,
        method: Method,
        caller: Caller,
        message: Message,
        request: HttpRequest,
        seconds: float | None = None,
    ) -> Message:
        """The answer of the call. Who waits and hangs up is waited for no longer."""
        call = self._reception.answer(method, caller, message, seconds)
        if not method.wait_seconds(message):
            return await call
        calling, gone = asyncio.create_task(call), asyncio.create_task(request.gone())
        try:
            await asyncio.wait([calling, gone], return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                raise CallerGone
            return calling.result()
        finally:
            for task in (calling, gone):
                task.cancel()
            await asyncio.wait([calling, gone])

    def _check_origin(self, request: HttpRequest) -> None:
        """Names that lead here by a foreign DNS, and pages of other sites, are refused."""
        host = request.header("host") or ""
        if self._hosts is not None and _name_of(host) not in self._hosts:
            raise HttpRefused(
                403,
                "foreign_host",
                "this server is asked for by a name that is not its own; --allow-host adds names",
            )
        site = request.header("sec-fetch-site")
        origin = request.header("origin")
        foreign = site is not None and site not in ("same-origin", "none")
        if foreign or (origin is not None and origin.partition("://")[2] != host):
            raise HttpRefused(403, "cross_site", "pages of other sites may not ask here")


async def _body(request: HttpRequest, route: AnyRoute) -> object:
    text = await request.body()
    if route.body is None:
        if text:
            raise HttpRefused(400, "no_body_wanted", "this path takes no body")
        return None
    if not text:
        raise HttpRefused(400, "no_json", "the body is empty; a JSON object is wanted")
    if media_type(request.header("content-type")) != JSON:
        raise HttpRefused(415, "unsupported_media_type", f"the body must be {JSON}")
    return route.read_body(text)


def _name_of(host: str) -> str:
    """The host without its port."""
    name = (
        host[: host.index("]") + 1]
        if host.startswith("[") and "]" in host
        else host.partition(":")[0]
    )
    return name.strip("[]").rstrip(".").lower()
