"""One request as a page sees it, and the page that it returns."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.requests import Request

from mainspring.console.snapshot import Glance, Snapshot
from mainspring.console.viewer import Viewer
from mainspring.errors import InvalidSetting

if TYPE_CHECKING:
    from mainspring.app import Mainspring
    from mainspring.operator import Operator

T = TypeVar("T")
PAGE = 50
MOST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Crumb:
    """A step of the way to a page."""

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its template and what that shows. `command`: the same by the command line."""

    template: str
    title: str
    values: Mapping[str, object] = field(default_factory=dict)
    crumbs: tuple[Crumb, ...] = ()
    command: str = ""
    live: str = ""  # the topic of the parts that are sent anew while somebody watches
    status: int = 200


class Moved(Exception):
    """What is asked for is on another page, below where the console is mounted."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Visitor:
    """A request, the application that it is about, and who looks."""

    def __init__(
        self, request: Request, app: Mainspring, viewer: Viewer, snapshot: Snapshot
    ) -> None:
        self.request = request
        self.app = app
        self.viewer = viewer
        self._snapshot = snapshot
        self.now = snapshot.now()

    @property
    def operator(self) -> Operator:
        """Questions and orders."""
        return self.app.operator

    @property
    def rates(self) -> list[float]:
        """Runs a second, as the last looks have found them."""
        return list(self._snapshot.rates)

    @property
    def lags(self) -> list[float]:
        """Lags, as the last looks have found them."""
        return list(self._snapshot.lags)

    @property
    def snapshot(self) -> Snapshot:
        """What all pages share."""
        return self._snapshot

    async def sight(self) -> Glance:
        """The engine at a glance; a second old at most."""
        sight = await self._snapshot.look()
        self.now = sight.at
        return sight

    def text(self, name: str) -> str | None:
        """What the query says of a name, if anything."""
        value = self.request.query_params.get(name, "").strip()
        if len(value) > MOST_TEXT:
            raise InvalidSetting(
                f"{name} has {len(value)} characters; at most {MOST_TEXT} are read"
            )
        return value or None

    def needed(self, name: str) -> str:
        """The same, of a name that must be there."""
        if (value := self.text(name)) is None:
            raise InvalidSetting(f"this page needs {name} in its address")
        return value

    def number(self, name: str) -> int | None:
        """A whole number of the query."""
        if (text := self.text(name)) is None:
            return None
        if not (text.isascii() and text.lstrip("-").isdigit()) or len(text) > 19:
            raise InvalidSetting(f"{name} must be a whole number, got {text!r}")
        return int(text)

    def moment(self, name: str) -> datetime | None:
        """A moment of the query, with its zone."""
        return read_moment(name, self.text(name))


def read_moment(name: str, text: str | None) -> datetime | None:
    """A moment with its zone. A plus sign that was not encoded has become a blank."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise InvalidSetting(
            f"{name} must be a time with its zone, such as '2026-01-31T12:00Z', got {text!r}"
        )
    return at


def read_pairs(name: str, text: str | None) -> dict[str, object]:
    """Fields with their values, as `order=7 city=Bern`; a value that is JSON is taken as such."""
    found: dict[str, object] = {}
    for pair in shlex.split(text or ""):
        field, sign, value = pair.partition("=")
        if not sign or not field:
            raise InvalidSetting(f"{name} must be field=value, got {pair!r}")
        try:
            found[field] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            found[field] = value
    return found
