"""Calls a server over HTTP with nothing but Python's own http.client: what it sends is what is sent."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple

from served_process import Served


class Got(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    text: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def code(self) -> str:
        """Of a problem, which must look like one."""
        assert self.headers["content-type"] == "application/problem+json", self
        assert self.json["status"] == self.status
        assert self.json["type"] == f"urn:mainspring:error:{self.json['code']}"
        return str(self.json["code"])


class HttpCaller:
    """A caller with a token, or without."""

    def __init__(self, address: str, token: str | None, timeout: float = 60) -> None:
        self.address = address
        self.token = token
        self.timeout = timeout

    def __call__(
        self,
        verb: str,
        path: str,
        body: object = None,
        *,
        text: bytes | None = None,
        headers: dict[str, str] | None = None,
        **more: str,
    ) -> Got:
        """One request over a connection of its own; `more` are headers with _ for -."""
        sent = dict(headers or {})
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None:
            text = json.dumps(body).encode()
        if text is not None:
            sent.setdefault("Content-Type", "application/json")
        sent.update({name.replace("_", "-"): value for name, value in more.items()})
        connection = HTTPConnection(self.address, timeout=self.timeout)
        try:
            connection.request(verb, path, body=text, headers=sent)
            return got(connection.getresponse())
        finally:
            connection.close()


def got(response: HTTPResponse) -> Got:
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Got(response.status, headers, response.read())


def caller_of(served: Served) -> HttpCaller:
    """With the token of this machine."""
    return HttpCaller(served.http_address, served.token)
